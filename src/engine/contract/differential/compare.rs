//! The result of a step, and whether it is the same on both sides.

use std::collections::BTreeMap;

use crate::engine::{Error, Multi, OpResult};
use crate::util::znode::{Acl, Stat};

#[derive(Debug)]
pub(super) enum Seen {
    Nothing,
    Done(Result<(), Error>),
    Created(Result<(String, Stat), Error>),
    Found(Result<Option<Stat>, Error>),
    Data(Result<(Vec<u8>, Stat), Error>),
    Changed(Result<Stat, Error>),
    /// Sorted by name.
    Children(Result<(Vec<String>, Stat), Error>),
    Acl(Result<(Vec<Acl>, Stat), Error>),
    Multi(Result<Multi, Error>),
}

impl Seen {
    pub(super) fn is_refusal(&self) -> bool {
        match self {
            Seen::Nothing => false,
            Seen::Done(outcome) => outcome.is_err(),
            Seen::Created(outcome) => outcome.is_err(),
            Seen::Found(outcome) => outcome.is_err(),
            Seen::Data(outcome) => outcome.is_err(),
            Seen::Changed(outcome) => outcome.is_err(),
            Seen::Children(outcome) => outcome.is_err(),
            Seen::Acl(outcome) => outcome.is_err(),
            Seen::Multi(outcome) => !matches!(outcome, Ok(Multi::Committed(_))),
        }
    }
}

/// Maps the ids of transactions and sessions on one side to those on the other.
#[derive(Debug, Default)]
pub(super) struct Likeness {
    zxids: BTreeMap<i64, i64>,
    owners: BTreeMap<i64, i64>,
}

type Compared = Result<(), String>;

fn same<T: PartialEq + std::fmt::Debug>(what: &str, here: &T, there: &T) -> Compared {
    if here == there {
        return Ok(());
    }
    Err(format!("{what}: {here:?} is not {there:?}"))
}

impl Likeness {
    pub(super) fn pair_sessions(&mut self, here: &[i64], there: &[i64]) {
        self.owners.extend(here.iter().copied().zip(there.iter().copied()));
        self.owners.insert(0, 0);
    }

    pub(super) fn compare(&mut self, here: &Seen, there: &Seen) -> Compared {
        match (here, there) {
            (Seen::Nothing, Seen::Nothing) => Ok(()),
            (Seen::Done(here), Seen::Done(there)) => same("outcomes", here, there),
            (Seen::Created(here), Seen::Created(there)) => self.both(here, there, |this, here, there| {
                same("names", &here.0, &there.0)?;
                this.stats(&here.1, &there.1)
            }),
            (Seen::Found(here), Seen::Found(there)) => {
                self.both(here, there, |this, here, there| match (here, there) {
                    (Some(here), Some(there)) => this.stats(here, there),
                    _ => same("existence", &here.is_some(), &there.is_some()),
                })
            }
            (Seen::Data(here), Seen::Data(there)) => self.both(here, there, |this, here, there| {
                same("data", &here.0, &there.0)?;
                this.stats(&here.1, &there.1)
            }),
            (Seen::Changed(here), Seen::Changed(there)) => self.both(here, there, Likeness::stats),
            (Seen::Children(here), Seen::Children(there)) => self.both(here, there, |this, here, there| {
                same("children", &here.0, &there.0)?;
                this.stats(&here.1, &there.1)
            }),
            (Seen::Acl(here), Seen::Acl(there)) => self.both(here, there, |this, here, there| {
                same("ACLs", &here.0, &there.0)?;
                this.stats(&here.1, &there.1)
            }),
            (Seen::Multi(here), Seen::Multi(there)) => self.both(here, there, Likeness::multis),
            _ => Err("different kinds of step".to_owned()),
        }
    }

    fn both<T: std::fmt::Debug>(
        &mut self,
        here: &Result<T, Error>,
        there: &Result<T, Error>,
        compare: impl FnOnce(&mut Self, &T, &T) -> Compared,
    ) -> Compared {
        match (here, there) {
            (Ok(here), Ok(there)) => compare(self, here, there),
            (here, there) => same("outcomes", &here.as_ref().err(), &there.as_ref().err()),
        }
    }

    fn multis(&mut self, here: &Multi, there: &Multi) -> Compared {
        let (Multi::Committed(here), Multi::Committed(there)) = (here, there) else {
            return same("transactions", here, there);
        };
        same("numbers of results", &here.len(), &there.len())?;
        here.iter().zip(there).try_for_each(|results| match results {
            (OpResult::SetData { stat: here }, OpResult::SetData { stat: there }) => self.stats(here, there),
            (here, there) => same("results", here, there),
        })
    }

    fn stats(&mut self, here: &Stat, there: &Stat) -> Compared {
        self.zxid(here.czxid, there.czxid)?;
        self.zxid(here.mzxid, there.mzxid)?;
        self.zxid(here.pzxid, there.pzxid)?;
        let Some(owner) = self.owners.get(&here.ephemeral_owner) else {
            return Err(format!("unknown owner {:#x}", here.ephemeral_owner));
        };
        same("owners", owner, &there.ephemeral_owner)?;
        let rest = |stat: &Stat| Stat { czxid: 0, mzxid: 0, pzxid: 0, ctime: 0, mtime: 0, ephemeral_owner: 0, ..*stat };
        same("stats", &rest(here), &rest(there))?;
        same("order of times", &(here.ctime <= here.mtime), &(there.ctime <= there.mtime))
    }

    /// Checks that the two ids belong to the same transaction, at the same position in the order.
    fn zxid(&mut self, here: i64, there: i64) -> Compared {
        if let Some(known) = self.zxids.get(&here) {
            return same("transactions", known, &there);
        }
        let before = self.zxids.range(..here).next_back();
        let after = self.zxids.range(here..).next();
        if before.is_some_and(|(_, before)| *before >= there) || after.is_some_and(|(_, after)| *after <= there) {
            return Err(format!("transaction {here} is not at the position of {there}"));
        }
        self.zxids.insert(here, there);
        Ok(())
    }
}
