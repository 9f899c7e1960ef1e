//! Requests to resign and transfers that are under way.

use std::time::Duration;

use futures::FutureExt;
use zookeeper_recipes::leader_latch::{Participant, ResignError, ask_to_resign, transfer};
use zookeeper_recipes::testing::Task;

use crate::line::Line;
use crate::stage::Stage;

/// The requests whose outcome is not known yet.
#[derive(Default)]
pub(crate) struct Requests {
    made: u64,
    asking: Vec<(u64, Task<Result<bool, ResignError>>)>,
    transferring: Vec<(u64, Task<Result<Participant, ResignError>>)>,
}

impl Requests {
    /// Returns whether no request is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.asking.is_empty() && self.transferring.is_empty()
    }

    /// Asks a participant to resign. Any participant may be asked, also one that cannot be.
    pub(crate) fn ask(&mut self, stage: &mut Stage) {
        let line = stage.places();
        let Some(place) = stage.world.random.choice(line) else { return };
        let (number, client) = self.next(stage);
        stage.world.trace.note(format_args!("request {number}, of client {client}: {} is to resign", place.path));
        let client = stage.world.clients[client].clone();
        let ask = {
            let client = client.clone();
            async move { ask_to_resign(&client, &place.path).await }
        };
        self.asking.push((number, stage.world.server.spawn(&client, ask)));
    }

    /// Transfers leadership to a participant.
    pub(crate) fn transfer(&mut self, stage: &mut Stage, line: &Line) {
        let places = stage.places();
        let Some(place) = stage.world.random.choice(places) else { return };
        let most = stage.world.timeout;
        let within = stage.world.a_while(most);
        let (number, client) = self.next(stage);
        let note = format_args!("request {number}, of client {client}: {} is to lead within {within:?}", place.path);
        stage.world.trace.note(note);
        let (client, path) = (stage.world.clients[client].clone(), line.path);
        let call = {
            let client = client.clone();
            async move { transfer(&client, path, &place.path, within).await }
        };
        let mut task = stage.world.server.spawn(&client, call);
        if stage.world.random.u8(..8) == 0 {
            // The caller loses interest at once: its requests may have been written.
            task.abort();
            stage.world.figures.cancelled += 1;
        }
        self.transferring.push((number, task));
    }

    /// Notes what has ended. A transfer that succeeded had its participant lead: none that came before is in the line.
    pub(crate) fn settle(&mut self, stage: &mut Stage) {
        self.asking.retain_mut(|(number, asking)| {
            let Some(asked) = asking.now_or_never() else { return true };
            stage.world.trace.note(format_args!("request {number} has ended: {asked:?}"));
            false
        });
        let mut done = Vec::new();
        self.transferring.retain_mut(|(number, transferring)| {
            let Some(ended) = transferring.now_or_never() else { return true };
            stage.world.trace.note(format_args!("request {number} has ended: {ended:?}"));
            done.extend(ended.ok().and_then(Result::ok).map(|leader| (*number, leader)));
            false
        });
        for (number, leader) in done {
            let before = stage.places().into_iter().find(|place| place.czxid < leader.fencing_token);
            if let Some(before) = before {
                stage.watcher.object(format!("request {number} has {leader} lead, but {before:?} is before it"));
            }
        }
    }

    fn next(&mut self, stage: &mut Stage) -> (u64, usize) {
        self.made += 1;
        (self.made, stage.world.a_client())
    }
}

/// Returns how long a participant leads after it was asked; `None` if it cannot be asked.
pub(crate) fn grace(stage: &mut Stage) -> Option<Duration> {
    match stage.world.random.u8(..8) {
        0..=4 => Some(Duration::ZERO),
        5 => {
            let most = stage.world.timeout;
            Some(stage.world.a_while(most))
        }
        6 => Some(Duration::MAX),
        _ => None,
    }
}
