//! A tree that is written without a pause, over a network without faults: new snapshots keep coming, and no call of
//! `synced` waits for long, even while the data of some nodes cannot be read.

use std::time::Duration;

use tokio::time::Instant;
use zookeeper_recipes::testing::Dialect;

use super::ledger::Ledger;
use super::play::Play;
use crate::seeds::Outcome;
use crate::world::World;

/// How long the tree is written.
const LASTS: Duration = Duration::from_secs(4);
/// The time of a few rounds of a few round trips each, to a server that lags.
const BOUND: Duration = Duration::from_millis(1_500);

/// Runs one seed.
pub(crate) async fn run(seed: u64) -> Outcome {
    let ledger = Ledger::new();
    let check = ledger.clone();
    let world =
        World::with_servers(seed, super::servers(seed), Dialect::ZooKeeper, 20, 100, move || check.look()).await;
    let mut play = Play::new(world, ledger);
    let played = write(&mut play).await;
    play.over(played).await
}

async fn write(play: &mut Play) -> Result<(), String> {
    for _ in 0..play.world.random.u8(1..=3) {
        play.enter(Some(BOUND));
    }
    let until = Instant::now() + LASTS;
    let most = play.world.random.u64(1..=20);
    while Instant::now() < until {
        let pause = Duration::from_millis(play.world.random.u64(1..=most));
        play.world.pass(pause).await;
        play.write_by_hand();
        play.fail_reads();
        let wrong = play.ledger.violation().or_else(|| play.stalled(BOUND));
        wrong.map_or(Ok(()), Err)?;
    }
    play.world.heal();
    play.end(Duration::from_secs(10)).await
}
