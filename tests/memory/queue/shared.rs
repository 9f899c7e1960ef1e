//! Handlers that are shared, or chosen at run time.

use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::future::BoxFuture;
use zookeeper_recipes::queue::{BoxError, ClaimHandle, QueueHandler};

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
async fn a_handler_in_an_arc_is_shared_by_consumers() {
    let (server, one, two) = setup().await;
    let keeps = Arc::new(Keeps::default());
    for (client, item) in [(&one, "a"), (&two, "b")] {
        let _producer = filled(&two, &[item]).await;
        let (consumer, handler) = (queue(client).consumer(), Arc::clone(&keeps));
        let all = server.until(|| names(&server).is_empty());
        // It can be spawned.
        let consuming = async move { consumer.consume_until(4, handler, all).await };
        within("it is handled", T, assert_send(consuming)).await.expect("consumed");
    }
    assert_eq!(*keeps.0.lock().expect("no panic"), ["a", "b"]);
}

/// A box of a closure is a closure, and so a handler.
#[tokio::test(start_paused = true)]
async fn a_handler_is_chosen_at_run_time_as_a_boxed_closure() {
    type Chosen = Box<dyn Fn(String, ClaimHandle) -> BoxFuture<'static, Result<(), BoxError>> + Send + Sync>;
    let (server, one, two) = setup().await;
    let keeps = Arc::new(Keeps::default());
    let (by_value, by_closure) = (Arc::clone(&keeps), Arc::clone(&keeps));
    let handlers: [Chosen; 2] = [
        Box::new(move |item, claim| {
            let handler = Arc::clone(&by_value);
            async move { handler.handle(item, claim).await }.boxed()
        }),
        Box::new(move |item, _| {
            by_closure.0.lock().expect("no panic").push(format!("closure: {item}"));
            async { Ok(()) }.boxed()
        }),
    ];
    for (handler, item) in handlers.into_iter().zip(["a", "b"]) {
        let _producer = filled(&two, &[item]).await;
        let consumer = queue(&one).consumer();
        let all = server.until(|| names(&server).is_empty());
        let consuming = async move { consumer.consume_until(4, handler, all).await };
        within("it is handled", T, assert_send(consuming)).await.expect("consumed");
    }
    assert_eq!(*keeps.0.lock().expect("no panic"), ["a", "closure: b"]);
}

fn assert_send<F: Future + Send>(future: F) -> F {
    future
}
