//! What a session needs on a new connection before it takes requests: the user's authentication, and its watches.

use super::authentication::Authentication;
use super::failure::Failure;
use super::handshake::{Handshake, HandshakeEvents};
use super::shared::Shared;
use super::state::SessionState;
use crate::protocol::WatcherEvent;

/// Authenticates the client and restores the watches. A session that is being opened has no watches; a ping then
/// checks that the server serves the client. Returns whether the server answered anything.
pub(crate) async fn authenticate_and_restore(
    state: &SessionState,
    handshake: &mut Handshake,
    authentication: Option<Authentication>,
    opening: bool,
) -> Result<bool, Failure> {
    let patience = state.environment.options.silence(state.shortest);
    let mut events = HandshakeObserver { shared: &state.shared, answered: false };
    if let Some(authentication) = authentication {
        handshake.sasl(authentication, patience, &mut events).await?;
    }
    handshake.authenticate(&state.environment.options.auths, patience, &mut events).await?;
    if opening {
        handshake.ping(patience, &mut events).await?;
    } else if state.shared.link.closing().is_none() {
        // The answers carry later zxids. These only count once all watches are restored.
        let requests = state.shared.watches.lock().restore(state.identity.zxid);
        handshake.restore(requests, patience, &mut events).await?;
        state.shared.watches.lock().resync();
    }
    Ok(events.answered)
}

struct HandshakeObserver<'a> {
    shared: &'a Shared,
    answered: bool,
}

impl HandshakeEvents for HandshakeObserver<'_> {
    // The lease counts from the connect request: a server need not inform its leader of later requests, such as AUTH.
    fn answered(&mut self) {
        self.answered = true;
    }

    fn event(&mut self, event: WatcherEvent) {
        self.shared.fire(&event);
    }
}
