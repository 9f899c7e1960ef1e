//! Looking at a queue: its items, and who holds which.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::claim::Claimant;
use super::directory;
use super::names::in_order;
use crate::backend::{self, Watch};

/// What is to be looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    /// There is no watch on the items yet.
    pub(super) watch_items: bool,
    /// Others are at work: the claims are to be seen too.
    pub(super) claims: bool,
    /// There is no watch on the claims yet.
    pub(super) watch_claims: bool,
}

/// What was seen.
#[derive(Debug)]
pub(super) struct Listing {
    /// In order.
    pub(super) items: Vec<String>,
    pub(super) items_watch: Option<Watch>,
    /// The items that somebody has claimed, if that was looked at.
    pub(super) claimed: Option<BTreeSet<String>>,
    pub(super) claims_watch: Option<Watch>,
}

type Children = (Vec<String>, Option<Watch>);

impl Claimant {
    /// Lists, in one flight; `None` if the session is over. The items come first: of one that is let go in between the claim
    /// is not seen, so it is tried; the other way round it could be passed over.
    pub(super) async fn list(self, look: Look) -> Result<Option<Listing>, backend::Error> {
        let session = &self.session;
        loop {
            let Ok(connection) = session.connected().await else { return Ok(None) };
            let items = self.children(&self.places.items, look.watch_items);
            let claims = look.claims.then(|| self.children(&self.places.claims, look.watch_claims));
            let claims = async {
                match claims {
                    Some(claims) => claims.await.map(Some),
                    None => Ok(None),
                }
            };
            let error = match futures::join!(items, claims) {
                (Ok(items), Ok(claims)) => return Ok(Some(listing(items, claims))),
                (Err(backend::Error::NoNode), _) => match self.make(&self.places.items).await {
                    Ok(()) => continue,
                    Err(error) => error,
                },
                (_, Err(backend::Error::NoNode)) => match self.make(&self.places.claims).await {
                    Ok(()) => continue,
                    Err(error) => error,
                },
                (Err(error), _) | (_, Err(error)) => error,
            };
            if !error.is_passing() {
                return Err(error);
            }
            // The loop looks at what came of it.
            let _ = session.connected_after_loss(connection).await;
        }
    }

    /// Asked for when this is called.
    fn children(&self, dir: &str, watch: bool) -> impl Future<Output = Result<Children, backend::Error>> + use<> {
        let session = Arc::clone(&self.session);
        let (watched, plain) = match watch {
            true => (Some(session.watch_children(dir)), None),
            false => (None, Some(session.list_children(dir))),
        };
        async move {
            match (watched, plain) {
                (Some(watched), _) => watched.await.map(|(children, _, watch)| (children, Some(watch))),
                (_, Some(plain)) => plain.await.map(|(children, _)| (children, None)),
                (None, None) => Ok((Vec::new(), None)),
            }
        }
    }

    async fn make(&self, dir: &str) -> Result<(), backend::Error> {
        directory::make(&self.session, dir, &self.core.config.acls).await
    }
}

fn listing((items, items_watch): Children, claims: Option<Children>) -> Listing {
    let (claimed, claims_watch) = match claims {
        Some((claims, watch)) => (Some(claims.into_iter().collect()), watch),
        None => (None, None),
    };
    Listing { items: in_order(items), items_watch, claimed, claims_watch }
}
