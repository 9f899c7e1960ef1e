//! What happens in the world, event by event.
//!
//! Each file has the steps of one part:
//!
//! | file | steps of |
//! |---|---|
//! | `network` | messages and connections |
//! | `client_end` | the client's end of a connection |
//! | `words` | a server that answers four-letter words |
//! | `answering` | a server that answers |
//! | `proposing` | the leader's transactions |
//! | `sessions` | the leader's sessions |
//! | `replication` | messages between the leader and the servers |
//! | `receiving` | a server that receives requests |
//! | `outages` | servers that stop, are cut off or are deposed |

mod answering;
mod client_end;
mod network;
mod outages;
mod proposing;
mod receiving;
mod replication;
mod sessions;
mod words;

use crate::testing::ensemble::world::{Event, World};

impl World {
    /// Runs all events that are due.
    pub(crate) fn run(&mut self) {
        while let Some(event) = self.take_due() {
            self.happen(event);
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Up(conn, request) => self.receive(conn, request),
            Event::Down(conn, message) => self.deliver(conn, message),
            Event::Dial(dial) => self.dial(dial),
            Event::Dialled(conn, connected) => self.dialled(conn, connected),
            Event::Forwarded(forward) => self.lead(forward),
            Event::Commit(incarnation) => self.commit(incarnation),
            Event::Step(replica) => self.steps(replica),
            Event::Validated(validated) => self.validated(validated),
            Event::Report(replica) => self.report(replica),
            Event::StepDown(replica, times) => self.step_down(replica, times),
            Event::Expiry(session) => self.expiry(session),
            Event::Reap => self.reap(),
        }
    }
}
