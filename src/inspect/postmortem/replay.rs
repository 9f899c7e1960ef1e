//! Replays the transactions of the logs, from the first one on.

use std::ops::ControlFlow;
use std::path::PathBuf;

use super::error::Error;
use super::files::{Files, Named};
use super::merge::{Merge, Step, follows};
use super::rebase::rebase;
use super::state::State;
use super::value::{Event, Gap, Moment, Summary};
use crate::protocol::Txn;
use crate::util::path::validate_or_root;

/// The first transaction of an ensemble: of a single server, and of several, where the first epoch is 1.
const FIRST: [i64; 2] = [1, 0x1_0000_0001];

/// The logs and snapshots of the servers of one ensemble, and a path in it. See the [module](super) for what it tells,
/// and for an example.
#[derive(Debug)]
pub struct Postmortem {
    files: Files,
    path: String,
}

/// The times that logs cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Span {
    /// The first transaction.
    pub first: Moment,
    /// The last transaction.
    pub last: Moment,
}

impl Postmortem {
    /// Finds logs and snapshots: each of `files` is one, or a directory with some, or a directory whose `version-2` has
    /// some. They may be those of several servers of one ensemble. Examines the nodes at `path` and below, and in the
    /// directories that a queue or a semaphore has beside it (`<path>-claims`, for example).
    ///
    /// # Errors
    /// [`Error::Io`] if a file or directory cannot be read; [`Error::NoLogs`] if a directory has none;
    /// [`Error::Foreign`] and [`Error::Unnamed`] for a file that is neither; [`Error::InvalidPath`].
    pub fn open(files: &[PathBuf], path: &str) -> Result<Postmortem, Error> {
        validate_or_root(path)?;
        Ok(Postmortem { files: Files::find(files)?, path: path.to_owned() })
    }

    /// Returns which time the logs cover: the first transaction, and the last one. It reads the last log of each
    /// directory.
    ///
    /// # Errors
    /// As [`replay`](Self::replay).
    pub fn span(&self) -> Result<Span, Error> {
        let first = self.first()?;
        let mut last = first;
        let mut merge = Merge::new(&self.files.last_logs(), &[])?;
        while let Some(step) = merge.next()? {
            if let Step::Txn(txn) = step {
                last = last.max(moment(&txn));
            }
        }
        Ok(Span { first, last })
    }

    fn first(&self) -> Result<Moment, Error> {
        let mut merge = Merge::new(&self.files.logs, &self.files.snapshots)?;
        while let Some(step) = merge.next()? {
            if let Step::Txn(txn) = step {
                return Ok(moment(&txn));
            }
        }
        Err(Error::Empty { files: self.files.logs.len() })
    }

    /// Replays all transactions, or those up to `until` (in milliseconds since 1970), and reports what happened. What
    /// remains then is reported last. It ends early if `report` returns [`ControlFlow::Break`].
    ///
    /// It reads with calls that block. In memory it has only what exists at one moment of the logs, not what has ended.
    ///
    /// # Errors
    /// [`Error::Empty`] if there is no transaction; [`Error::Version`]; [`Error::Foreign`]; [`Error::Io`]. What cannot
    /// be read later on is reported as an [`Event::Damage`].
    pub fn replay(&self, until: Option<i64>, report: impl FnMut(Event) -> ControlFlow<()>) -> Result<Summary, Error> {
        let mut replay = Replay {
            state: State::new(&self.path),
            snapshots: &self.files.snapshots,
            since: None,
            is_outdated: false,
            summary: Summary {
                logs: self.files.logs.len(),
                snapshots: self.files.snapshots.len(),
                ..Summary::default()
            },
            report,
        };
        let mut merge = Merge::new(&self.files.logs, &self.files.snapshots)?;
        let is_later = |txn: &Txn| until.is_some_and(|until| txn.header.time > until);
        while let Some(step) = merge.next()? {
            if matches!(&step, Step::Txn(txn) if is_later(txn)) {
                break;
            }
            if replay.step(step).is_break() {
                return Ok(replay.summary);
            }
        }
        replay.end()
    }
}

fn moment(txn: &Txn) -> Moment {
    Moment { zxid: txn.header.zxid, ms: txn.header.time }
}

struct Replay<'a, F> {
    state: State,
    /// The snapshots that are not older than what was replayed.
    snapshots: &'a [Named],
    /// The first transaction after which none is missing.
    since: Option<i64>,
    /// The state is that from before a gap, for the snapshot that follows it.
    is_outdated: bool,
    summary: Summary,
    report: F,
}

impl<F: FnMut(Event) -> ControlFlow<()>> Replay<'_, F> {
    fn step(&mut self, step: Step) -> ControlFlow<()> {
        match step {
            Step::Txn(txn) => self.txn(&txn),
            Step::Uncommitted => {
                self.summary.uncommitted += 1;
                ControlFlow::Continue(())
            }
            Step::Gap(gap) => self.gap(gap),
            Step::Damage(damage) => (self.report)(Event::Damage(damage)),
            Step::Progress(progress) => (self.report)(Event::Progress(progress)),
        }
    }

    fn txn(&mut self, txn: &Txn) -> ControlFlow<()> {
        let at = moment(txn);
        if self.summary.first.is_none() {
            self.summary.first = Some(at);
            self.summary.is_complete = FIRST.contains(&at.zxid);
        }
        let since = *self.since.get_or_insert(at.zxid);
        self.use_snapshot(since, at.zxid, self.summary.last.unwrap_or(at))?;
        if std::mem::take(&mut self.is_outdated) && !self.summary.is_complete {
            self.state.forget(at);
        }
        self.state.apply(txn);
        self.summary.transactions += 1;
        self.summary.last = Some(at);
        self.tell()
    }

    /// If something is unknown, continues with the last snapshot before the transaction `next`, but after `since`.
    fn use_snapshot(&mut self, since: i64, next: i64, at: Moment) -> ControlFlow<()> {
        let passed = self.snapshots.partition_point(|snapshot| snapshot.zxid < next);
        let (passed, rest) = self.snapshots.split_at(passed);
        self.snapshots = rest;
        if self.summary.is_complete {
            return ControlFlow::Continue(());
        }
        let fits = |snapshot: &&Named| snapshot.zxid >= since || follows(snapshot.zxid, since);
        for snapshot in passed.iter().filter(fits).rev() {
            let at = Moment { zxid: snapshot.zxid, ms: at.ms };
            match rebase(&mut self.state, snapshot, at) {
                Ok(()) => {
                    self.summary.is_complete = true;
                    return self.tell();
                }
                Err(damage) => (self.report)(Event::Damage(damage))?,
            }
        }
        ControlFlow::Continue(())
    }

    fn gap(&mut self, gap: Gap) -> ControlFlow<()> {
        (self.report)(Event::Gap(gap))?;
        self.summary.is_complete = false;
        self.since = Some(gap.before.zxid);
        // A server that was given a snapshot by the leader has written it just before the next transaction. Then what
        // is still there is known.
        self.is_outdated = self.snapshots.iter().any(|snapshot| follows(snapshot.zxid, gap.before.zxid));
        if !self.is_outdated {
            self.state.forget(gap.before);
        }
        self.tell()
    }

    /// Reports what the last transaction has ended.
    fn tell(&mut self) -> ControlFlow<()> {
        for event in std::mem::take(&mut self.state.told) {
            (self.report)(event)?;
        }
        ControlFlow::Continue(())
    }

    fn end(mut self) -> Result<Summary, Error> {
        let Some(last) = self.summary.last else { return Err(Error::Empty { files: self.summary.logs }) };
        let since = self.since.unwrap_or(last.zxid);
        let replayed = self.use_snapshot(since, last.zxid.saturating_add(1), last);
        if replayed.is_continue() && (self.report)(Event::Replayed(last)).is_continue() {
            // Whether this is the last one or it has had enough, nothing comes after it.
            let _ = self.state.finish().into_iter().try_for_each(&mut self.report);
        }
        Ok(self.summary)
    }
}
