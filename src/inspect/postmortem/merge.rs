//! The transactions of all logs in one sequence. Servers of one ensemble log the same transactions, so each is taken
//! once, from the first log that has it whole.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use super::error::Error;
use super::files::Named;
use super::log_file::{Entry, LogReader, Opened};
use super::value::{Damage, Gap, Moment, Progress};
use crate::protocol::{Txn, TxnHeader};

/// The part of a transaction's id that counts within an epoch, that is, under one leader.
const COUNTER: i64 = 0xffff_ffff;
/// How often the progress is told, in bytes.
const PROGRESS_BYTES: u64 = 16 << 20;
/// How much is read at a time.
const BUFFER_BYTES: usize = 1 << 16;

/// What comes next.
#[derive(Debug)]
pub(super) enum Step {
    Txn(Txn),
    /// The transaction before this is of a kind or form that is not known, in all logs that have it.
    Unread,
    /// A transaction that one server has logged, and that was never committed, as far as the other files tell.
    Uncommitted(Moment),
    Gap(Gap),
    Damage(Damage),
    Progress(Progress),
}

/// A log that may have a transaction next.
struct Log {
    file: Named,
    bytes: u64,
    /// Which of the directories it is in: the logs of a server are in one.
    directory: usize,
    /// The first transaction, to open the file only when it is needed.
    first: i64,
    /// That transaction, if the file has one.
    begins: Option<Moment>,
    reader: Option<LogReader<BufReader<File>>>,
    is_over: bool,
    /// The next transaction, once the file is open.
    next: Option<Txn>,
    /// Whether only its header was understood.
    is_unread: bool,
    /// The last transaction that was read from this file.
    last: Option<i64>,
}

/// A directory with logs, which are those of one server.
struct Directory {
    path: Option<PathBuf>,
    /// The last transaction that was taken from them.
    taken: i64,
    /// The one that comes next in the log that was read last, or the largest number if that has ended.
    next: i64,
    is_damaged: bool,
}

/// The logs that are read.
pub(super) struct Merge {
    logs: Vec<Log>,
    /// The logs that have more, by their next transactions.
    order: BinaryHeap<Reverse<(i64, usize)>>,
    directories: Vec<Directory>,
    /// The transactions of the snapshots.
    snapshots: Vec<i64>,
    /// The first transaction of each part of a log that cannot be read.
    damaged: Vec<i64>,
    /// What comes before the next transaction.
    before: VecDeque<Step>,
    last: Option<Moment>,
    /// The header of the last transaction, and the log that it was taken from.
    taken: Option<(TxnHeader, usize)>,
    read: u64,
    told: u64,
}

impl Merge {
    pub(super) fn new(files: &[Named], snapshots: &[Named]) -> Result<Merge, Error> {
        let mut merge = Merge {
            logs: Vec::new(),
            order: BinaryHeap::new(),
            directories: Vec::new(),
            snapshots: snapshots.iter().map(|snapshot| snapshot.zxid).collect(),
            damaged: Vec::new(),
            before: VecDeque::new(),
            last: None,
            taken: None,
            read: 0,
            told: 0,
        };
        for file in files {
            let mut log = Log::look(file)?;
            log.directory = merge.directory_of(file);
            merge.order.push(Reverse((log.first, merge.logs.len())));
            merge.logs.push(log);
        }
        Ok(merge)
    }

    /// Returns what comes next; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Step>, Error> {
        loop {
            if let Some(step) = self.before.pop_front() {
                return Ok(Some(step));
            }
            let Some(Reverse((_, at))) = self.order.pop() else { return Ok(None) };
            let is_unread = self.logs[at].is_unread;
            let Some(txn) = self.advance(at)? else { continue };
            self.check_same(&txn, at)?;
            let moment = moment(&txn);
            let is_known = self.last.is_some_and(|last| last.zxid >= moment.zxid);
            if is_known || (is_unread && self.logs.iter().any(|log| log.next_zxid() == Some(moment.zxid))) {
                continue;
            }
            if self.is_refuted(moment.zxid)? {
                return Ok(Some(Step::Uncommitted(moment)));
            }
            let last = self.last.replace(moment);
            let is_after_gap =
                |last: &Moment| !follows(last.zxid, moment.zxid) || self.lacks_end(last.zxid, moment.zxid);
            if let Some(after) = last.filter(is_after_gap) {
                self.before.push_back(Step::Gap(Gap { after, before: moment }));
            }
            self.taken = Some((txn.header.clone(), at));
            self.before.push_back(Step::Txn(txn));
            if is_unread {
                self.before.push_back(Step::Unread);
            }
            self.tell_progress();
        }
    }

    /// Returns the moments of what begins a log, and of all that is in the last log of each directory that has some.
    pub(super) fn moments(&self) -> Result<Vec<Moment>, Error> {
        let mut moments: Vec<_> = self.logs.iter().filter_map(|log| log.begins).collect();
        for directory in 0..self.directories.len() {
            let logs = self.logs.iter().filter(|log| log.directory == directory && log.begins.is_some());
            let Some(last) = logs.max_by_key(|log| log.first) else { continue };
            let mut last = Log::look(&last.file)?;
            while last.read(&mut VecDeque::new())? {
                moments.extend(last.next.take().as_ref().map(moment));
            }
        }
        Ok(moments)
    }

    /// Returns whether transactions are known to be missing at the end of an epoch, where the numbers do not tell: a
    /// snapshot has them, or they cannot be read in any log.
    fn lacks_end(&self, last: i64, next: i64) -> bool {
        let between = last.saturating_add(1)..next;
        // An epoch in which nothing has happened leaves a snapshot with the number 0.
        let has_more = |snapshot: &i64| between.contains(snapshot) && snapshot & COUNTER != 0;
        let is_damaged = || self.damaged.iter().any(|first| between.contains(first));
        next >> 32 > last >> 32 && (self.snapshots.iter().any(has_more) || is_damaged())
    }

    /// Checks that a transaction that was taken already is the same one here. Those of two ensembles are not.
    fn check_same(&self, txn: &Txn, at: usize) -> Result<(), Error> {
        let Some((taken, from)) = self.taken.as_ref().filter(|(taken, _)| taken.zxid == txn.header.zxid) else {
            return Ok(());
        };
        if *taken == txn.header {
            return Ok(());
        }
        let [file, other] = [at, *from].map(|log| self.logs[log].file.path.clone());
        Err(Error::Mixed { file, other, zxid: taken.zxid })
    }

    fn directory_of(&mut self, file: &Named) -> usize {
        // The same directory may have been named in two ways.
        let parent = file.path.parent().map(|path| if path.as_os_str().is_empty() { Path::new(".") } else { path });
        let path = parent.map(|path| path.canonicalize().unwrap_or_else(|_| path.to_owned()));
        let known = self.directories.iter().position(|known| known.path == path);
        known.unwrap_or_else(|| {
            self.directories.push(Directory { path, taken: i64::MIN, next: i64::MAX, is_damaged: false });
            self.directories.len() - 1
        })
    }

    /// Returns whether this transaction was never committed. A leader logs a transaction before the others have it. If
    /// it fails then, they go on without: from the last common transaction to the first one of the next epoch, of which
    /// the failed leader has none. A server that was given a snapshot goes on like that too, and has that snapshot.
    fn is_refuted(&self, zxid: i64) -> Result<bool, Error> {
        let Some(last) = self.last.filter(|_| self.directories.len() > 1) else { return Ok(false) };
        // Nearly always all have the same transactions next, and it need not be looked at more closely.
        let may_be_without = |one: &Directory| one.taken == last.zxid && one.next >> 32 > zxid >> 32;
        if !self.directories.iter().any(may_be_without) {
            return Ok(false);
        }
        let next_of = |at: usize| self.logs.iter().filter(|log| log.directory == at).filter_map(Log::next_zxid).min();
        let without = |(at, directory): (usize, &Directory)| {
            let next = next_of(at).filter(|next| next >> 32 > zxid >> 32 && follows(last.zxid, *next))?;
            (directory.taken == last.zxid && !directory.is_damaged).then_some(next)
        };
        let Some(next) = self.directories.iter().enumerate().find_map(without) else { return Ok(false) };
        if self.snapshots.iter().any(|snapshot| (last.zxid + 1..next).contains(snapshot)) {
            return Ok(false);
        }
        for log in &self.logs {
            let has_it = self.directories[log.directory].taken == zxid || next_of(log.directory) == Some(zxid);
            if has_it && log.has_epoch_after(zxid)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes the next transaction of a log and reads the one after it. The first time, it only opens the file, as
    /// another log may have an earlier one.
    fn advance(&mut self, at: usize) -> Result<Option<Txn>, Error> {
        let log = &mut self.logs[at];
        let taken = log.next.take();
        let directory = &mut self.directories[log.directory];
        if let Some(taken) = &taken {
            directory.taken = taken.header.zxid;
        }
        let before = log.reader.as_ref().map_or(0, LogReader::offset);
        let told = self.before.len();
        let more = log.read(&mut self.before)?;
        for step in self.before.range(told..) {
            let Step::Damage(damage) = step else { continue };
            directory.is_damaged = true;
            self.damaged.push(damage.after_zxid.map_or(log.file.zxid, |after| after.saturating_add(1)));
        }
        directory.next = log.next.as_ref().map_or(i64::MAX, |next| next.header.zxid);
        let end = if more { log.reader.as_ref().map_or(0, LogReader::offset) } else { log.bytes };
        self.read += end.saturating_sub(before);
        if let Some(next) = &log.next {
            self.order.push(Reverse((next.header.zxid, at)));
        } else {
            (log.reader, log.is_over) = (None, true);
        }
        Ok(taken)
    }

    fn tell_progress(&mut self) {
        if self.read - self.told >= PROGRESS_BYTES {
            self.told = self.read;
            let of = self.logs.iter().map(|log| log.bytes).sum();
            self.before.push_front(Step::Progress(Progress { bytes: self.read, of }));
        }
    }
}

impl Log {
    /// Returns the transaction that comes next, if there is one.
    fn next_zxid(&self) -> Option<i64> {
        match &self.next {
            Some(next) => Some(next.header.zxid),
            // It was not opened yet.
            None if self.reader.is_none() && !self.is_over => Some(self.first),
            None => None,
        }
    }

    /// Looks at the first transaction of a file, and closes it again: there may be thousands.
    fn look(file: &Named) -> Result<Log, Error> {
        let bytes = std::fs::metadata(&file.path).map_err(|error| Error::io(&file.path, error))?.len();
        let mut log = Log {
            file: file.clone(),
            bytes,
            directory: 0,
            first: file.zxid,
            begins: None,
            reader: None,
            is_over: false,
            next: None,
            is_unread: false,
            last: None,
        };
        log.read(&mut VecDeque::new())?;
        log.begins = log.next.take().as_ref().map(moment);
        log.first = log.begins.map_or(log.first, |begins| begins.zxid);
        (log.reader, log.last, log.is_unread) = (None, None, false);
        Ok(log)
    }

    /// Returns whether the file has a transaction of a later epoch. It is read to its end, which is rarely needed.
    fn has_epoch_after(&self, zxid: i64) -> Result<bool, Error> {
        let is_after = |other: i64| other >> 32 > zxid >> 32;
        let mut rest = Log::look(&self.file)?;
        if is_after(rest.first) {
            return Ok(true);
        }
        while rest.read(&mut VecDeque::new())? {
            if rest.next.take().is_some_and(|next| is_after(next.header.zxid)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads the next transaction. Returns whether there is one.
    fn read(&mut self, beside: &mut VecDeque<Step>) -> Result<bool, Error> {
        if self.reader.is_none() {
            self.reader = self.open(beside)?;
        }
        while let Some(reader) = &mut self.reader {
            let offset = reader.offset();
            let entry = reader.next().map_err(|error| Error::io(&self.file.path, error))?;
            let damage =
                |reason| Step::Damage(Damage { file: self.file.path.clone(), offset, after_zxid: self.last, reason });
            match entry {
                Entry::Txn(txn) => {
                    self.last = Some(txn.header.zxid);
                    self.next = Some(txn);
                    self.is_unread = false;
                    return Ok(true);
                }
                Entry::Unreadable { header, reason } => {
                    beside.push_back(damage(reason));
                    if let Some(header) = header {
                        self.last = Some(header.zxid);
                        self.next = Some(Txn { header, changes: Vec::new() });
                        self.is_unread = true;
                        return Ok(true);
                    }
                }
                Entry::Damaged(reason) => beside.push_back(damage(reason)),
                Entry::End => return Ok(false),
            }
        }
        Ok(false)
    }

    fn open(&self, beside: &mut VecDeque<Step>) -> Result<Option<LogReader<BufReader<File>>>, Error> {
        let path = &self.file.path;
        let failed = |error| Error::io(path, error);
        let input = BufReader::with_capacity(BUFFER_BYTES, File::open(path).map_err(failed)?);
        let reason = match LogReader::open(input).map_err(failed)? {
            Opened::Log(reader) => return Ok(Some(reader)),
            Opened::Empty => return Ok(None),
            Opened::Version(version) => return Err(Error::Version { file: path.clone(), version }),
            Opened::Foreign(found) if self.file.is_explicit => {
                return Err(Error::Foreign { file: path.clone(), found: format!("\"{}\"", found.escape_ascii()) });
            }
            Opened::Foreign(_) => "it does not begin with ZKLG".to_owned(),
        };
        beside.push_back(Step::Damage(Damage { file: path.clone(), offset: 0, after_zxid: None, reason }));
        Ok(None)
    }
}

pub(super) fn moment(txn: &Txn) -> Moment {
    Moment { zxid: txn.header.zxid, ms: txn.header.time }
}

/// Returns whether one transaction can be the next after another. Within an epoch the numbers are consecutive; each
/// epoch begins with 1.
pub(super) fn follows(last: i64, next: i64) -> bool {
    next == last.wrapping_add(1) || (next >> 32 > last >> 32 && next & COUNTER == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_transactions_and_those_of_a_new_leader() {
        assert!(follows(1, 2) && follows(0x1_0000_0005, 0x1_0000_0006) && follows(0x1_0000_0005, 0x3_0000_0001));
        assert!(!follows(1, 3) && !follows(0x1_0000_0005, 0x2_0000_0002) && !follows(5, 5));
    }
}
