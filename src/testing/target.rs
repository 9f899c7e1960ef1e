//! Whom a lever concerns.

use crate::client::Client;
use crate::scheduler::{Process, Scheduler};

/// Whom a lever of a [`TestingServer`](super::TestingServer) concerns: `&client`, with all sessions it has and will have,
/// or [`Target::ALL`].
#[derive(Debug, Clone)]
pub struct Target(Aim);

#[derive(Debug, Clone)]
enum Aim {
    All,
    /// None: not a simulated client at all.
    Client(Option<Process>),
}

impl Target {
    /// Every client, also those that are yet to come.
    pub const ALL: Target = Target(Aim::All);

    /// The process concerned; none means all.
    pub(super) fn process(self, scheduler: &Scheduler) -> Option<Process> {
        match self.0 {
            Aim::All => None,
            Aim::Client(process) => {
                let process = process.filter(|process| process.is_of(scheduler));
                // A mistake in the test, which must not pass as one without faults.
                assert!(
                    process.is_some(),
                    "this client is not one of this TestingServer: use Client::builder_for(&server)"
                );
                process
            }
        }
    }
}

impl From<&Client> for Target {
    fn from(client: &Client) -> Self {
        Target(Aim::Client(client.core().runtime.process().cloned()))
    }
}
