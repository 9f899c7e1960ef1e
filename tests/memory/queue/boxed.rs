//! Handlers that are chosen at run time.

use std::sync::{Arc, Mutex};

use zookeeper_recipes::queue::{BoxError, BoxQueueHandler, ClaimHandle, QueueHandler};

use super::fixture::{filled, names, queue, setup};
use crate::fixture::{T, within};

/// Keeps what it was given.
#[derive(Default)]
struct Keeps(Mutex<Vec<String>>);

impl QueueHandler<String> for Keeps {
    async fn handle(&self, item: String, claim: ClaimHandle) -> Result<(), BoxError> {
        assert!(claim.is_held());
        self.0.lock().expect("no panic").push(item);
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_chosen_at_run_time_or_shared_by_consumers() {
    let (server, one, two) = setup().await;
    let keeps = Arc::new(Keeps::default());
    let by_closure = Arc::clone(&keeps);
    let handlers = vec![
        BoxQueueHandler::new(Arc::clone(&keeps)),
        BoxQueueHandler::new(move |item: String, _: ClaimHandle| {
            by_closure.0.lock().expect("no panic").push(format!("closure: {item}"));
            async { Ok::<(), std::io::Error>(()) }
        }),
    ];
    for (number, handler) in handlers.into_iter().enumerate() {
        let _producer = filled(&two, &[if number == 0 { "a" } else { "b" }]).await;
        let consumer = queue(&one).consumer();
        let all = server.until(|| names(&server).is_empty());
        // It can be spawned.
        let consuming = async move { consumer.consume_until(4, handler, all).await };
        within("it is handled", T, assert_send(consuming)).await.expect("consumed");
    }
    let _producer = filled(&two, &["c"]).await;
    let consumer = queue(&one).consumer();
    let all = server.until(|| names(&server).is_empty());
    within("it is handled", T, consumer.consume_until(4, Arc::clone(&keeps), all)).await.expect("consumed");
    assert_eq!(*keeps.0.lock().expect("no panic"), ["a", "closure: b", "c"]);
}

fn assert_send<F: Future + Send>(future: F) -> F {
    future
}
