//! The connection states of a client, on real servers and in memory.

use std::time::Duration;

use zookeeper_recipes::{Client, ConnectionState};

use crate::fixture::within;

/// How long a state may take to come: on a busy machine, and until a session has expired.
const SOON: Duration = Duration::from_secs(20);

/// Waits until the client was cut off and is connected again: the fault of the test had effect.
pub(crate) async fn was_cut_off_and_came_back(client: &Client, earlier: &mut States) {
    within("the client is cut off and comes back", SOON, async {
        earlier.wait_for(ConnectionState::Suspended).await;
        earlier.wait_for(ConnectionState::Reconnected).await;
    })
    .await;
    assert!(client.session_id().is_some());
}

/// The connection states of a client from now on.
pub(crate) struct States(zookeeper_recipes::ConnectionStates);

impl States {
    pub(crate) fn of(client: &Client) -> States {
        States(client.connection_states())
    }

    /// Reads on until this state comes.
    pub(crate) async fn wait_for(&mut self, wanted: ConnectionState) {
        use futures::StreamExt;
        let what = format!("the connection is {wanted}");
        within(&what, SOON, async {
            loop {
                let state = self.0.next().await.expect("the client is open");
                if state.expect("the states are read in time") == wanted {
                    return;
                }
            }
        })
        .await;
    }
}
