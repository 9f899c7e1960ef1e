//! An outage so long that the client gives up its session, while the servers keep the session and its nodes.

use std::time::Duration;

use tokio::time::sleep;
use zookeeper_recipes::testing::{Loss, Operation};

use super::Run;

/// How the first client is cut off, until the call was dropped and the session was given up.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Outage {
    /// Its connection breaks, and it cannot reconnect.
    Refused,
    /// Like `Refused`, after a request of this kind was carried out and its reply lost.
    After(Operation),
    /// Everything takes so long that the session is given up while its connection is open and requests are under way.
    Slow,
}

impl Outage {
    /// Returns how many replies the outage itself loses.
    pub(super) fn losses(self) -> u64 {
        u64::from(matches!(self, Outage::After(_)))
    }
}

/// Delays of all messages in one direction, one after the other. With these, the client is never without an answer for
/// 4 s, after which it would drop the connection; and answers that take less than 6 s still keep the lease.
const SLOWER_AND_SLOWER: [Duration; 3] =
    [Duration::from_millis(1_000), Duration::from_millis(1_900), Duration::from_millis(2_800)];
/// With this delay, nothing is answered before the lease ends, and the session is given up.
const TOO_SLOW: Duration = Duration::from_secs(20);
/// How long each delay lasts before the next one.
const MEANWHILE: Duration = Duration::from_secs(8);
/// How many requests to close the session are lost after it was given up: more than are sent.
const NEVER_CLOSED: usize = 1_000;
/// Abandoned nodes are deleted within this time, long before their session can expire.
const SOON: Duration = Duration::from_secs(3);

impl Run {
    /// Begins an outage. It ends some time after the call was cut off.
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

    /// Waits until the session is given up, and heals the outage.
    pub(super) async fn end_outage(&mut self) {
        let Some((outage, session)) = self.outage.take() else { return };
        let client = self.clients.first().expect("it was cut off");
        // The request that was to start the outage was not sent.
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

    /// Checks that if the session was given up, all that it had in the directory is deleted.
    pub(crate) async fn is_rid_of_all_it_had_in(&mut self, dir: &str) {
        if self.given_up.take().is_none() {
            return;
        }
        let client = self.clients.first().expect("it was cut off");
        for _ in 0..NEVER_CLOSED {
            self.server.lose_next_reply(client, Operation::Close, Loss::NotApplied);
        }
        // It is given up when the servers must have ended it: its nodes end with it, or the next session deletes them.
        self.in_time("deleted with the session, or by the next one", SOON, || self.server.children(dir).is_empty())
            .await;
        self.server.heal();
    }
}
