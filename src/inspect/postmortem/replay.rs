//! Replays the transactions of the logs, from the first one on.

use std::ops::ControlFlow;
use std::path::PathBuf;

use super::error::Error;
use super::files::{Files, Named};
use super::merge::{Merge, Step, follows, moment};
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

/// The times that logs cover. They are those of the servers that led, which may go back when the leader changes: so
/// these are the earliest and the latest one among the first transactions of all logs, and those of the last log of
/// each directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Span {
    /// The transaction with the earliest time.
    pub first: Moment,
    /// The transaction with the latest time.
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

    /// Returns which time the logs cover. It reads the beginning of each log, and the last log of each directory that
    /// has a transaction.
    ///
    /// # Errors
    /// As [`replay`](Self::replay).
    pub fn span(&self) -> Result<Span, Error> {
        let moments = Merge::new(&self.files.logs, &[])?.moments()?;
        let (first, last) = (moments.iter().min_by_key(|one| one.ms), moments.iter().max_by_key(|one| one.ms));
        let span = first.zip(last).map(|(first, last)| Span { first: *first, last: *last });
        span.ok_or_else(|| Error::Empty { files: self.files.log_paths() })
    }

    /// Replays all transactions, or those up to `until` (in milliseconds since 1970), and reports what happened. What
    /// remains then is reported last. It ends early if `report` returns [`ControlFlow::Break`].
    ///
    /// With `until`, it ends before the first transaction, in their order, whose time is later. After a change of the
    /// leader, times may go back; those that follow are left out even if they are not later.
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
            missing_after: None,
            is_outdated: false,
            is_compared: false,
            damaged_after: None,
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
        replay.end().ok_or_else(|| Error::Empty { files: self.files.log_paths() })
    }
}

struct Replay<'a, F> {
    state: State,
    /// The snapshots that are not older than what was replayed.
    snapshots: &'a [Named],
    /// The first transaction after which none is missing.
    since: Option<i64>,
    /// The last transaction before a gap.
    missing_after: Option<i64>,
    /// The state is that from before a gap, for the snapshot that follows it.
    is_outdated: bool,
    /// Nothing is known to be missing, and the state is compared with a snapshot.
    is_compared: bool,
    /// The last transaction before one that cannot be read, in the log that is whole for the longest.
    damaged_after: Option<i64>,
    summary: Summary,
    report: F,
}

impl<F: FnMut(Event) -> ControlFlow<()>> Replay<'_, F> {
    fn step(&mut self, step: Step) -> ControlFlow<()> {
        match step {
            Step::Txn(txn) => self.txn(&txn),
            Step::Unread => {
                self.summary.is_complete = false;
                self.since = self.summary.last.map(|last| last.zxid);
                ControlFlow::Continue(())
            }
            Step::Uncommitted(at) => {
                let summary = &mut self.summary;
                summary.uncommitted += 1;
                summary.uncommitted_first = summary.uncommitted_first.or(Some(at));
                summary.uncommitted_last = Some(at);
                ControlFlow::Continue(())
            }
            Step::Gap(gap) => self.gap(gap),
            Step::Damage(damage) => {
                let after = damage.after_zxid.unwrap_or(i64::MAX);
                self.damaged_after = self.damaged_after.max(Some(after));
                (self.report)(Event::Damage(damage))
            }
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
        self.check_epoch(at)?;
        self.use_snapshot(since, at, self.summary.last.unwrap_or(at))?;
        if std::mem::take(&mut self.is_outdated) && !self.summary.is_complete {
            self.state.forget(at);
        }
        self.state.apply(txn);
        self.summary.transactions += 1;
        self.summary.last = Some(at);
        self.tell()
    }

    /// If a server has a snapshot from the very beginning of an epoch, it may have been given it by the leader, and
    /// have no log of what was at the end of the epoch before. Then the nodes differ.
    fn check_epoch(&mut self, next: Moment) -> ControlFlow<()> {
        let Some(last) = self.summary.last.filter(|last| next.zxid >> 32 > last.zxid >> 32) else {
            return ControlFlow::Continue(());
        };
        let Some(first) =
            self.snapshots.iter().map(|one| one.zxid).find(|zxid| (last.zxid + 1..next.zxid).contains(zxid))
        else {
            return ControlFlow::Continue(());
        };
        if std::mem::take(&mut self.summary.is_complete) {
            self.is_compared = true;
            self.use_snapshot(first, next, last)?;
            self.is_compared = false;
            self.summary.is_complete = true;
        }
        ControlFlow::Continue(())
    }

    /// If something is unknown, continues with the last snapshot before the transaction `next`, but after `since`.
    fn use_snapshot(&mut self, since: i64, next: Moment, at: Moment) -> ControlFlow<()> {
        let passed = self.snapshots.partition_point(|snapshot| snapshot.zxid < next.zxid);
        let (passed, rest) = self.snapshots.split_at(passed);
        self.snapshots = rest;
        if self.summary.is_complete {
            return ControlFlow::Continue(());
        }
        let is_after_gap = |zxid: i64| self.missing_after.is_none_or(|after| zxid > after);
        let fits = |snapshot: &&Named| {
            snapshot.zxid >= since || (follows(snapshot.zxid, since) && is_after_gap(snapshot.zxid))
        };
        for snapshot in passed.iter().filter(fits).rev() {
            let at = Moment { zxid: snapshot.zxid, ms: at.ms };
            match rebase(&mut self.state, snapshot, at) {
                Ok(()) => {
                    self.summary.is_complete = true;
                    let has_differed = self.is_compared && !self.state.told.is_empty();
                    if let Some(after) = self.summary.last.filter(|_| has_differed) {
                        (self.report)(Event::Gap(Gap { after, before: next }))?;
                    }
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
        self.missing_after = Some(gap.after.zxid);
        // A server that was given a snapshot by the leader has written it just before the next transaction. Then what
        // is still there is known.
        self.is_outdated = self
            .snapshots
            .iter()
            .any(|snapshot| snapshot.zxid > gap.after.zxid && follows(snapshot.zxid, gap.before.zxid));
        if !self.is_outdated {
            self.state.forget(gap.before);
        }
        self.tell()
    }

    /// Reports what the last transaction has ended.
    fn tell(&mut self) -> ControlFlow<()> {
        for event in std::mem::take(&mut self.state.told) {
            if let Event::Gap(gap) = &event {
                self.summary.is_complete = false;
                self.since = Some(gap.before.zxid);
            }
            (self.report)(event)?;
        }
        ControlFlow::Continue(())
    }

    /// Returns `None` if there was no transaction.
    fn end(mut self) -> Option<Summary> {
        let last = self.summary.last?;
        let since = self.since.unwrap_or(last.zxid);
        let replayed = self.use_snapshot(since, Moment { zxid: last.zxid.saturating_add(1), ..last }, last);
        if replayed.is_continue() && (self.report)(Event::Replayed(last)).is_continue() {
            // Whether this is the last one or it has had enough, nothing comes after it.
            let _ = self.state.finish().into_iter().try_for_each(&mut self.report);
        }
        // What cannot be read may have gone on from there.
        self.summary.is_complete &= self.damaged_after.is_none_or(|after| after < last.zxid);
        // What was left out may have been committed after all, if a file is missing.
        self.summary.is_complete &= self.summary.uncommitted == 0;
        Some(self.summary)
    }
}
