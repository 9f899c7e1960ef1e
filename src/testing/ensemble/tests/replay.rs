//! The same seed gives the same history.

use std::time::Duration;

use futures::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};

use super::{open, three};
use crate::testing::ensemble::{Loss, Record, Who};
use crate::util::znode::{Acl, CreateMode};

/// Three clients do random things while random things happen to them.
async fn history(seed: u64) -> (Vec<Record>, Vec<String>) {
    let ensemble = three(seed, 30);
    let mut random = fastrand::Rng::with_seed(seed + 1);
    let mut clients = Vec::new();
    for group in 0..3 {
        clients.push(open(&ensemble, group).await);
    }
    let mut replies = FuturesUnordered::new();
    let mut results = Vec::new();
    for step in 0..400 {
        let group = random.usize(..3);
        let session = clients[group].session.clone();
        match random.usize(..24) {
            0..=7 => {
                let path = format!("/{step}-");
                let created = session.create(&path, b"", CreateMode::EphemeralSequential, &[Acl::anyone_all()]);
                replies.push(async move { format!("{step} {:?}", created.await) }.boxed());
            }
            8..=12 => {
                let watched = session.watch_children("/");
                replies.push(
                    async move {
                        match watched.await {
                            Ok((names, stat, watch)) => format!("{step} {names:?} {stat:?} {:?}", watch.await),
                            Err(error) => format!("{step} {error:?}"),
                        }
                    }
                    .boxed(),
                );
            }
            13 => drop(ensemble.disconnect(Who::Group(group as u32))),
            14 => ensemble.refuse(Some(group as u32), random.bool()),
            16 => drop(ensemble.expire_session(session.id())),
            17 => ensemble.black_hole(Some(group as u32), random.bool()),
            18 => {
                let loss = if random.bool() { Loss::Applied } else { Loss::NotApplied };
                ensemble.lose_next_reply(Who::All, None, loss);
            }
            _ => {}
        }
        while let Some(Some(result)) = replies.next().now_or_never() {
            results.push(result);
        }
        tokio::time::sleep(Duration::from_millis(random.u64(0..=300))).await;
        if !ensemble.sessions().iter().any(|session| session.client == Some(group as u32)) {
            ensemble.heal();
            clients[group] = open(&ensemble, group as u32).await;
        }
    }
    (ensemble.log(), results)
}

#[test]
fn a_seed_replays_and_another_one_differs() {
    let play = |seed| {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().expect("a runtime");
        runtime.block_on(history(seed))
    };
    for seed in 0..5 {
        let (log, results) = play(seed);
        assert!(log.len() > 300 && results.len() > 50, "{} and {}", log.len(), results.len());
        let (again, results_again) = play(seed);
        if let Some(at) = log.iter().zip(&again).position(|(one, other)| one != other) {
            panic!("seed {seed} differs at {at}: {:?} and {:?}", log[at], again[at]);
        }
        assert_eq!((log.len(), &results), (again.len(), &results_again));
        assert_ne!(log, play(seed + 100).0);
    }
}
