//! The client is cut off for so long that it gives its session up, while the servers keep that session, with its nodes.

use std::time::Duration;

use tokio::time::sleep;
use zookeeper_recipes::testing::{Loss, Operation};

use super::Run;

/// How the first client is cut off, until the call was dropped and the session was given up.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Outage {
    /// Its connection breaks, and no other comes about.
    Refused,
    /// The same, after a request of this kind was carried out and its reply lost.
    After(Operation),
    /// Everything takes so long that the session is given up while its connection is open and requests are under way.
    Slow,
}

impl Outage {
    /// How many replies are lost by the outage itself.
    pub(super) fn losses(self) -> u64 {
        u64::from(matches!(self, Outage::After(_)))
    }
}

/// Delays of all messages in one direction, one after the other. So the client is never without any answer for 4 s, at
/// which it would leave the connection; and answers that take less than 6 s still keep the lease.
const SLOWER_AND_SLOWER: [Duration; 3] =
    [Duration::from_millis(1_000), Duration::from_millis(1_900), Duration::from_millis(2_800)];
/// Nothing that is sent from now on is answered before the lease is over, and the session is given up.
const TOO_SLOW: Duration = Duration::from_secs(20);
/// Each delay lasts so long before the next one.
const MEANWHILE: Duration = Duration::from_secs(8);
/// The wish to close the session that was given up is lost so often, which is more often than it is uttered.
const NEVER_CLOSED: usize = 1_000;
/// Abandoned nodes are deleted within this time, long before their session can expire.
const SOON: Duration = Duration::from_secs(3);

impl Run {
    /// An outage begins. It ends some time after the call was cut off.
    pub(crate) async fn begin_outage(&mut self, outage: Outage) {
        let (server, client) = (&self.server, self.clients.first().expect("a client to cut off"));
        match outage {
            Outage::Refused => {
                server.refuse(client);
                server.disconnect(client);
            }
            Outage::After(operation) => {
                server.refuse(client);
                server.lose_next_reply(client, operation, Loss::Applied);
            }
            Outage::Slow => {
                for delay in SLOWER_AND_SLOWER {
                    server.delay(client, delay);
                    sleep(MEANWHILE).await;
                }
                server.delay(client, TOO_SLOW);
            }
        }
        let session = client.session_id().expect("it has a session");
        self.outage = Some((outage, session));
    }

    /// Waits until the session is given up, and mends what was broken.
    pub(super) async fn end_outage(&mut self) {
        let Some((outage, session)) = self.outage.take() else { return };
        let client = self.clients.first().expect("it was cut off");
        // The request that the outage was to follow was not sent.
        let never_began = matches!(outage, Outage::After(_)) && client.connection_state().is_connected();
        if never_began {
            return;
        }
        self.in_the_end("the session is given up", || client.session_id() != Some(session)).await;
        self.server.heal();
        // Messages under way do not arrive either.
        self.server.disconnect(client);
        self.given_up = Some(session);
    }

    /// If the session was given up: all that it had in the directory is deleted.
    pub(crate) async fn is_rid_of_all_it_had_in(&mut self, dir: &str) {
        if self.given_up.take().is_none() {
            return;
        }
        let client = self.clients.first().expect("it was cut off");
        for _ in 0..NEVER_CLOSED {
            self.server.lose_next_reply(client, Operation::Close, Loss::NotApplied);
        }
        // It is given up when the servers must have ended it: its nodes go with it, or by way of the next session.
        self.in_time("gone with the session, or by way of the next", SOON, || self.server.children(dir).is_empty())
            .await;
        self.server.heal();
    }
}
