//! Asks a participant of a lock to release, as Curator's `Revoker` does.

use std::sync::Arc;

use crate::client::session::Session;
use crate::client::{Client, Error, ErrorKind};
use crate::layout::line::REVOKED;

/// Writes Curator's mark into the data of the participant's node. It is no error if the node is gone.
pub(crate) async fn ask_to_release(client: &Client, node_path: &str) -> Result<(), Error> {
    client.open_path(node_path)?;
    if !has_number(node_path) {
        let why = "not the node of a participant: its name must end in ten digits; see participants()";
        return Err(Error::at(ErrorKind::InvalidPath, "revoke", node_path, why));
    }
    // It sets the same mark each time, so it may be repeated like a read.
    let mark = |session: &Arc<Session>, full: &str| session.set_data(full, REVOKED, None);
    match client.core().read("revoke", node_path, mark).await {
        Err(gone) if gone.kind() == ErrorKind::NoNode => Ok(()),
        outcome => outcome.map(drop),
    }
}

/// Returns whether the name ends in a number as the server appends it. The data of any other node must not be
/// overwritten.
fn has_number(path: &str) -> bool {
    let digits = path.bytes().rev().take_while(u8::is_ascii_digit).count();
    digits >= 10
}
