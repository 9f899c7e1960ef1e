//! Listeners of several types, kept together.

use std::sync::Arc;

use tokio::sync::mpsc::{self, UnboundedSender};
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{BoxConnectionStateListener, ConnectionState, ConnectionStateListener};

use crate::fixture::{SOON, within};

/// Passes on what it is told, with its name.
struct Named(&'static str, UnboundedSender<(&'static str, ConnectionState)>);

impl ConnectionStateListener for Named {
    async fn state_changed(&self, state: ConnectionState) {
        let _ = self.1.send((self.0, state));
    }
}

#[tokio::test(start_paused = true)]
async fn listeners_of_several_types_are_kept_together_boxed_or_shared() {
    let server = TestingServer::start();
    let client = server.client().await.expect("a client");
    let (told, mut heard) = mpsc::unbounded_channel();
    let by_closure = told.clone();
    let shared = Arc::new(Named("shared", told.clone()));
    let listeners = vec![
        BoxConnectionStateListener::new(Named("boxed", told)),
        BoxConnectionStateListener::new(move |state| {
            let told = by_closure.clone();
            async move {
                let _ = told.send(("closure", state));
            }
        }),
        BoxConnectionStateListener::new(Arc::clone(&shared)),
    ];
    let mut handles: Vec<_> = listeners.into_iter().map(|listener| client.add_listener(listener)).collect();
    handles.push(client.add_listener(shared));
    let mut all = Vec::new();
    for _ in 0..4 {
        all.push(within("each is told", SOON, heard.recv()).await.expect("a listener is alive"));
    }
    all.sort_by_key(|(name, _)| *name);
    assert_eq!(all, ["boxed", "closure", "shared", "shared"].map(|name| (name, ConnectionState::Connected)));
    for handle in &handles[1..] {
        handle.remove();
    }
    client.close().await.expect("closed");
    assert_eq!(within("it ends", SOON, heard.recv()).await, None, "no listener outlives its client");
}
