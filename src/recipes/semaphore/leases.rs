//! The leases of one call: creates them, checks whether there are permits for all, waits, and confirms that they are
//! held.

use std::collections::HashSet;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use futures::future::{join, join_all};

use super::permits::{Look, Watches, look};
use super::shared::Shared;
use crate::client::session::Session;
use crate::client::{Error, ErrorKind};
use crate::contender::{Contender, Hold, State};
use crate::engine;
use crate::util::path::split;

/// One lease, and its hold once that is confirmed.
struct Lease {
    contender: Contender,
    hold: Option<Hold>,
}

/// One lease for each permit that is wanted. Dropping them deletes their nodes in the background.
pub(super) struct Leases {
    all: Vec<Lease>,
    watches: Watches,
    /// The last look showed that there were not enough permits, and armed both watches.
    waits: bool,
}

impl Leases {
    /// Creates leases without nodes; [`admitted`](Self::admitted) creates these.
    pub(super) fn new(shared: &Shared, number: usize) -> Self {
        let lease = || Lease { contender: Contender::new(shared.acquire.client.core(), &shared.leases), hold: None };
        let all = std::iter::repeat_with(lease).take(number).collect();
        Leases { all, watches: Watches::default(), waits: false }
    }

    /// Creates the missing nodes, and returns whether there are permits for all leases. If not, and if the caller is
    /// patient, the next call first waits for a change. It may be dropped at any await and called again.
    pub(super) async fn admitted(&mut self, shared: &Shared, patient: bool) -> Result<bool, Error> {
        if self.waits {
            self.watches.changed().await;
            self.waits = false;
        }
        let mut arms = false;
        loop {
            let (session, connection) = shared.acquire.client.core().connected().await?;
            // A lease that had a node when the list was requested, and is missing in it, was deleted by another client.
            let before: Vec<_> = self.all.iter().map(|one| one.contender.node_of(&session).cloned()).collect();
            let looked = self.enter_and_look(shared, &session, arms).await;
            let Some(look) = looked.map_err(|error| self.refused(error))? else {
                session.wait_for_disconnect(connection).await;
                continue;
            };
            // A list without one of our leases may have been made before its create. One with all of ours is later than
            // all of their creates. So for any leases that are held together, the list made last has counted all.
            if !self.are_all_in(&look, &before) {
                continue;
            }
            if look.has_room_for(0) {
                self.watches = Watches::default();
                return Ok(true);
            }
            if std::mem::replace(&mut arms, patient) || !patient {
                self.waits = patient;
                return Ok(false);
            }
        }
    }

    /// Waits until all leases that were admitted are held at one moment. Returns whether they are: false if one was
    /// lost. It may be dropped at any await and called again.
    ///
    /// However long that takes, no further look is needed: while the nodes exist, every later list has counted these
    /// leases. After a reconnect, each contender reads its node before it holds.
    pub(super) async fn proven(&mut self) -> Result<bool, Error> {
        loop {
            for one in &mut self.all {
                one.contender.admit();
                while !one.is_held() {
                    match one.contender.next().await {
                        State::Held(hold) => one.hold = Some(hold),
                        State::Lost => return Ok(false),
                        State::Failed(error) => return Err(error),
                        State::Closed => return Err(Error::closed("client")),
                        _ => {}
                    }
                }
            }
            // One hold may have ended while the next one was awaited.
            if self.all.iter().all(Lease::is_held) {
                return Ok(true);
            }
        }
    }

    /// Returns what is held; `None` if one is not.
    pub(super) fn into_holds(self) -> Option<Vec<(Contender, Hold)>> {
        self.all.into_iter().map(|one| Some((one.contender, one.hold?))).collect()
    }

    /// Releases all leases, and waits until their nodes are gone. Fails if that is uncertain. The deletes use up the
    /// watch on the leases.
    pub(super) async fn leave(mut self) -> Result<(), engine::Error> {
        let left = self.all.iter_mut().map(|one| one.contender.leave());
        join_all(left).await.into_iter().collect()
    }

    /// Hands over the creates of all nodes, then the look, so that all travel together.
    async fn enter_and_look(
        &mut self,
        shared: &Shared,
        session: &Arc<Session>,
        arms: bool,
    ) -> Result<Option<Look>, Error> {
        let Leases { all, watches, .. } = self;
        let entered = join_all(all.iter_mut().map(|one| one.contender.entered()));
        let (core, dir) = (shared.acquire.client.core(), &shared.leases.dir);
        let looked = look(core, session, dir, &shared.permits, arms.then_some(watches));
        let mut both = pin!(join(entered, looked));
        let (entered, look) = poll_fn(|cx| session.together(|| both.as_mut().poll(cx))).await;
        entered.into_iter().collect::<Result<(), Error>>()?;
        look
    }

    /// Ends the leases with this error. Without permission to look or to delete, no further nodes are created while
    /// these may exist.
    fn refused(&mut self, error: Error) -> Error {
        if error.kind() != ErrorKind::NoAuth {
            return error;
        }
        self.all.iter_mut().fold(error.clone(), |_, one| one.contender.refused(error.clone()))
    }

    /// Returns whether all leases are in the list. A lease that had a node before the list and is missing in it creates
    /// another one.
    fn are_all_in(&mut self, look: &Look, before: &[Option<Arc<str>>]) -> bool {
        let names: HashSet<&str> = look.leases.iter().map(String::as_str).collect();
        let is_in = |node: &Arc<str>| names.contains(split(node).1);
        let mut all_in = true;
        for (one, before) in self.all.iter_mut().zip(before) {
            let node = one.contender.node();
            if node.is_some_and(is_in) {
                continue;
            }
            all_in = false;
            if node.is_some() && node == before.as_ref() {
                one.contender.missing();
            }
        }
        all_in
    }
}

impl Lease {
    fn is_held(&self) -> bool {
        self.hold.as_ref().is_some_and(Hold::is_held)
    }
}
