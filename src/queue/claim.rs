//! A claim on an item: a node of the consumer's session, named as the item is. While it stands, nobody else takes the item.

use std::sync::Arc;

use super::directory;
use super::names::Places;
use crate::backend::{self, Multi, Op};
use crate::client::core::Core;
use crate::client::session::Session;
use crate::types::CreateMode;

/// A claim that was made, and what it is on.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) session: Arc<Session>,
    /// Tells it from every other claim of its consumer.
    pub(super) number: u64,
    pub(super) name: String,
    /// The item's node.
    pub(super) item: String,
    /// The claim's node.
    pub(super) node: Arc<str>,
    /// Who made it: what its node holds.
    pub(super) holder: Arc<str>,
    /// What the item's node held, at this version: it grows with every failed attempt.
    pub(super) data: Vec<u8>,
    pub(super) version: i32,
}

/// What came of trying to claim an item.
#[derive(Debug)]
pub(super) enum Tried {
    Claimed(Claim),
    /// Somebody else has it.
    Taken,
    /// It is in the queue no more.
    Gone,
    SessionOver,
    Failed(backend::Error),
}

/// Somebody who claims, in one session.
#[derive(Debug, Clone)]
pub(super) struct Claimant {
    pub(super) core: Arc<Core>,
    pub(super) session: Arc<Session>,
    pub(super) places: Arc<Places>,
    /// The consumer's uuid.
    pub(super) holder: Arc<str>,
}

/// Whose a claim is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Whose {
    Ours,
    Foreign,
    Nobodys,
}

impl Claimant {
    /// Tries to claim an item, until it is known what came of it.
    pub(super) async fn claim(self, number: u64, name: String) -> Tried {
        let (item, node) = (self.places.item(&name), Arc::<str>::from(self.places.claim(&name)));
        let session = &self.session;
        let mut in_doubt = false;
        loop {
            let Ok(connection) = session.connected().await else { return Tried::SessionOver };
            let tried = if in_doubt {
                self.look_again(&item, &node, &mut in_doubt).await
            } else {
                self.try_once(&item, &node, &mut in_doubt).await
            };
            match tried {
                Ok(Some((data, version))) => {
                    let (session, holder) = (Arc::clone(session), self.holder);
                    return Tried::Claimed(Claim { session, number, name, item, node, holder, data, version });
                }
                Ok(None) => {}
                Err(Stop::Tried(tried)) => return tried,
                Err(Stop::Connection) => {
                    // The loop looks at what came of it.
                    let _ = session.connected_after_loss(connection).await;
                }
            }
        }
    }

    /// Claims and reads in one flight; `None` if it is worth another try.
    async fn try_once(&self, item: &str, node: &str, in_doubt: &mut bool) -> Result<Option<Found>, Stop> {
        let claim = self.session.multi(vec![
            Op::Check { path: item.to_owned(), version: None },
            Op::Create {
                path: node.to_owned(),
                data: self.holder.as_bytes().to_vec(),
                mode: CreateMode::Ephemeral,
                acls: self.core.config.acls.clone(),
            },
        ]);
        let read = self.session.get_data(item);
        let (claimed, read) = futures::join!(claim, read);
        match claimed {
            Ok(Multi::Committed(_)) => {
                *in_doubt = true;
                self.found(node, read).await
            }
            Ok(Multi::Refused { index: 0, error: backend::Error::NoNode }) => Err(Stop::Tried(Tried::Gone)),
            Ok(Multi::Refused { error: backend::Error::NodeExists, .. }) => Err(Stop::Tried(Tried::Taken)),
            Ok(Multi::Refused { error: backend::Error::NoNode, .. }) => self.make_directory().await.map(|()| None),
            Ok(Multi::Refused { error, .. }) => Err(Stop::Tried(Tried::Failed(error))),
            Err(error) => {
                *in_doubt = error.leaves_outcome_unknown();
                Err(self.broken(error))
            }
        }
    }

    /// After an answer was lost: whose is the claim? It is ours only if this session owns it, and this consumer made it.
    async fn look_again(&self, item: &str, node: &str, in_doubt: &mut bool) -> Result<Option<Found>, Stop> {
        match whose(&self.session, node, &self.holder).await {
            Ok(Whose::Ours) => {
                let read = self.session.get_data(item).await;
                self.found(node, read).await
            }
            Ok(Whose::Foreign) => Err(Stop::Tried(Tried::Taken)),
            Ok(Whose::Nobodys) => {
                *in_doubt = false;
                Ok(None)
            }
            Err(error) => Err(self.broken(error)),
        }
    }

    /// The claim is ours; and the item?
    async fn found(
        &self,
        node: &str,
        read: Result<(Vec<u8>, crate::types::Stat), backend::Error>,
    ) -> Result<Option<Found>, Stop> {
        match read {
            Ok((data, stat)) => Ok(Some((data, stat.version))),
            // Somebody who heeds no claims has taken it away, or it may not be read: the claim is of no use.
            Err(error) if !error.is_passing() => {
                match self.session.delete(node, None).await {
                    Ok(()) | Err(backend::Error::NoNode) => {}
                    Err(error) => return Err(self.broken(error)),
                }
                let gone = error == backend::Error::NoNode;
                Err(Stop::Tried(if gone { Tried::Gone } else { Tried::Failed(error) }))
            }
            Err(error) => Err(self.broken(error)),
        }
    }

    async fn make_directory(&self) -> Result<(), Stop> {
        let made = directory::make(&self.session, &self.places.claims, &self.core.config.acls).await;
        made.map_err(|error| self.broken(error))
    }

    fn broken(&self, error: backend::Error) -> Stop {
        if error.is_passing() { Stop::Connection } else { Stop::Tried(Tried::Failed(error)) }
    }
}

/// What an item's node holds, and its version.
type Found = (Vec<u8>, i32);

/// Why a step was broken off.
enum Stop {
    Connection,
    Tried(Tried),
}

/// Whose a claim is, as of now: after a sync, as a server that lags may not know.
pub(super) async fn whose(session: &Arc<Session>, node: &str, holder: &str) -> Result<Whose, backend::Error> {
    let (sync, read) = (session.sync(node), session.get_data(node));
    let (sync, read) = futures::join!(sync, read);
    sync?;
    match read {
        Ok((data, stat)) if stat.ephemeral_owner == session.id() && data == holder.as_bytes() => Ok(Whose::Ours),
        Ok(_) => Ok(Whose::Foreign),
        Err(backend::Error::NoNode) => Ok(Whose::Nobodys),
        Err(error) => Err(error),
    }
}
