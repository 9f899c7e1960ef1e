//! Letting others go first.

use std::sync::Arc;

use crate::backend::{self, Watch};
use crate::client::core::Core;
use crate::client::session::{Condition, Session};
use crate::contender::{Line, order};

/// Resolves when somebody stands in the line, or when that cannot be known.
pub(super) async fn others_stand_in(core: &Arc<Core>, line: &Line) {
    loop {
        let Ok(session) = core.connected_session().await else { return };
        let Ok(connection) = session.connected().await else { continue };
        match look(&session, line).await {
            Ok(None) => return,
            Ok(Some(watch)) => {
                let mut conditions = session.conditions();
                let here = Condition::Connected(connection);
                tokio::select! {
                    biased;
                    _ = watch => {}
                    _ = conditions.wait_for(|condition| *condition != here) => {}
                }
            }
            Err(error) if error.is_passing() => {
                // The next round looks at what came of it.
                let _ = session.connected_after_loss(connection).await;
            }
            // Entering the line will meet the same error and tell it.
            Err(_) => return,
        }
    }
}

/// None if somebody stands there, otherwise what tells of a change.
async fn look(session: &Arc<Session>, line: &Line) -> Result<Option<Watch>, backend::Error> {
    loop {
        match session.watch_children(&line.dir).await {
            Ok((children, _, watch)) => {
                let nobody = children.iter().all(|name| order::number_of(name, &[line.base]).is_none());
                return Ok(nobody.then_some(watch));
            }
            Err(backend::Error::NoNode) => {
                let (found, watch) = session.watch_exists(&line.dir).await?;
                if found.is_none() {
                    return Ok(Some(watch));
                }
            }
            Err(error) => return Err(error),
        }
    }
}
