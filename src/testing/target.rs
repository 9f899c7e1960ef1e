//! The clients that a lever affects.

use crate::client::Client;
use crate::testing::scheduler::{Process, Scheduler};

/// The clients that a lever of a [`TestingServer`](super::TestingServer) affects: `&client` with its present and future
/// sessions, [`&listening`](super::Listening) with the present and future clients of its sockets, or [`Target::ALL`].
///
/// ```
/// use std::time::Duration;
/// use zookeeper_recipes::testing::{Target, TestingServer};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), zookeeper_recipes::Error> {
/// let server = TestingServer::start();
/// let client = server.client().await?;
/// server.delay(&client, Duration::from_millis(20));
/// assert_eq!(server.disconnect(Target::ALL), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Target(Aim);

#[derive(Debug, Clone)]
enum Aim {
    All,
    /// `None` if it is not a simulated client.
    Client(Option<Process>),
    Sockets(Process),
}

impl Target {
    /// All clients, including future ones.
    pub const ALL: Target = Target(Aim::All);

    /// Returns the target for the clients of some sockets, given the process that stands for them.
    pub(super) fn sockets(clients: Process) -> Target {
        Target(Aim::Sockets(clients))
    }

    /// Returns the process, or `None` for all clients. Panics if it belongs to another world.
    pub(super) fn process(self, scheduler: &Scheduler) -> Option<Process> {
        match self.0 {
            Aim::All => None,
            Aim::Client(process) => {
                let process = process.filter(|process| process.is_of(scheduler));
                // A mistake in the test, which would otherwise run without faults.
                assert!(
                    process.is_some(),
                    "this client does not belong to this TestingServer: use Client::builder_for_testing(&server)"
                );
                process
            }
            Aim::Sockets(process) => {
                assert!(process.is_of(scheduler), "this Listening does not belong to this TestingServer");
                Some(process)
            }
        }
    }
}

impl From<&Client> for Target {
    fn from(client: &Client) -> Self {
        Target(Aim::Client(client.core().runtime.process::<Process>().cloned()))
    }
}
