//! Listeners of several types, kept together.

use std::sync::Arc;

use tokio::sync::mpsc::{self, UnboundedSender};
use zookeeper_recipes::throughput_balancer::{BoxShareListener, Share, ShareListener};

use super::fixture::{have, joined, setup};
use crate::fixture::{SOON, within};

/// Passes on its shares.
struct Told(UnboundedSender<(&'static str, u64)>);

impl ShareListener for Told {
    async fn share_changed(&self, share: Share) {
        let _ = self.0.send(("listener", share.throughput()));
    }
}

#[tokio::test(start_paused = true)]
async fn listeners_of_several_types_are_kept_together_boxed_or_shared() {
    let (server, clients) = setup(1).await;
    let member = joined(&clients[0]).await;
    have(&server, &[&member], &[1_000]).await;
    let (told, mut heard) = mpsc::unbounded_channel();
    let shared = Arc::new(Told(told.clone()));
    let listeners = vec![
        BoxShareListener::new(Arc::clone(&shared)),
        BoxShareListener::new(move |share: Share| {
            let told = told.clone();
            async move {
                let _ = told.send(("closure", share.throughput()));
            }
        }),
    ];
    for listener in listeners {
        member.on_share(listener);
    }
    member.on_share(shared);
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(within("each is told", SOON, heard.recv()).await.expect("a listener is alive"));
    }
    all.sort_unstable();
    assert_eq!(all, [("closure", 1_000), ("listener", 1_000), ("listener", 1_000)]);
}
