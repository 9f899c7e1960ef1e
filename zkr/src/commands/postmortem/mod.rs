//! Who held what, when, and how it ended, from the servers' own logs.

mod draw;
mod server_log;
mod tally;
mod time;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;

use anstream::AutoStream;
use clap::Args;
use serde::Serialize;
use zookeeper_recipes::inspect::postmortem::{
    Damage, Error, Event, Gap, Hold, Item, Moment, Overlap, Postmortem, Progress, Span, Summary,
};

use self::draw::Rows;
use self::server_log::ServerLogs;
use self::tally::Tally;
use self::time::{Time, shown, time};
use crate::connection::path_or_root;
use crate::ending::{Ending, Status};
use crate::output::{Output, count, note, of_output};

/// What is read, and what is told of it.
#[derive(Args, Debug)]
pub struct Options {
    /// Transaction logs and snapshots (log.ZXID, snapshot.ZXID), or directories with them: dataLogDir and dataDir of a
    /// server, or their version-2. Those of several servers of one ensemble may be given together
    #[arg(value_name = "DIR|FILE", required = true)]
    files: Vec<PathBuf>,
    /// The path of a lock, an election, a semaphore or a queue, or of anything above them, as the servers know it: with
    /// the chroot of the clients
    #[arg(value_parser = path_or_root)]
    path: String,
    /// Tell only who held and who waited at this moment: 03:14, 03:14:15, 2026-11-30T03:14:15Z, or milliseconds since
    /// 1970. Times are in UTC unless they have an offset; one without a date is the last such time that the logs cover
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with_all = ["from", "until"])]
    at: Option<Time>,
    /// Leave out what ended before this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    from: Option<Time>,
    /// Tell it as it was at this time, and nothing later
    #[arg(long, value_name = "TIME", value_parser = time)]
    until: Option<Time>,
    /// Show the addresses of sessions that this text log of a server has (lines with "Established session"): the
    /// transaction logs have none. May be given several times
    #[arg(long, value_name = "FILE")]
    server_log: Vec<PathBuf>,
}

/// The help after the options.
pub const HELP: &str = "\
Each line is a hold: since when, how long, how it ended, who, and the node below PATH. Ends:
  released          its own session deleted the node
  session closed    its client closed the session
  expired           the servers ended the session, after its timeout (or an operator ended it by JMX)
  deleted           another session deleted the node: the one after \"by\"
  holds             it is still there at the end
One that never held has waited: \"gave up waiting\", \"expired, waiting\". \"overlap\" is a time in which two may have
held: a node was deleted while its session went on, or one came before the holder. Items have their deliveries.

Examples:
  zkr postmortem /var/lib/zookeeper /jobs/nightly
  zkr postmortem zk1/version-2 zk2/version-2 zk3/version-2 /shop --at 03:14
  zkr postmortem log.100000001 /orders --from 03:00 --until 03:30 --json
  zkr postmortem /var/lib/zookeeper /jobs --server-log /var/log/zookeeper/zookeeper.log

It only reads, also while a server writes, and needs no server: ZooKeeper 3.4 to 3.9. Status 1 if nothing was held at
PATH, or not then, or if a file is damaged or missing, or transactions are left out as not committed; what could be
read is told nevertheless.";

/// Tells it.
pub fn tell(output: Output, options: &Options) -> Ending {
    match try_tell(output, options) {
        Ok(ending) | Err(ending) => ending,
    }
}

fn try_tell(output: Output, options: &Options) -> Result<Ending, Ending> {
    let addresses = ServerLogs::read(&options.server_log)?;
    let logs = Postmortem::open(&options.files, &options.path).map_err(failed)?;
    let window = Window::of(options, &logs)?;
    let mut teller = Teller {
        output,
        out: BufWriter::new(AutoStream::new(io::stdout().lock(), AutoStream::choice(&io::stdout()))),
        addresses: &addresses,
        path: &options.path,
        until_ms: 0,
        window,
        tally: Tally::default(),
        progress: Bar::new(output),
        failed: None,
    };
    let summary = logs.replay(window.until(), |event| teller.event(&event)).map_err(failed)?;
    teller.progress.clear();
    if let Some(ending) = teller.failed.take() {
        return Err(ending);
    }
    teller.summary(&summary)?;
    Ok(ending(&summary, &teller.tally, options, window))
}

/// Returns the ending once all is told, and notes what makes it uncertain.
fn ending(summary: &Summary, tally: &Tally, options: &Options, window: Window) -> Ending {
    if !summary.is_complete {
        note(
            "the logs do not begin with the first transaction, or some are missing or damaged, and no snapshot fills \
             that: other nodes may be there, and what is told to hold at the end may have ended",
        );
    }
    if summary.uncommitted > 0 {
        note(left_out(summary));
    }
    if tally.problems > 0 || summary.uncommitted > 0 {
        return Ending::Status(Status::No, None);
    }
    if tally.is_empty() {
        let path = &options.path;
        let why = if window == Window::default() {
            "nothing was held there in these logs; check the path, and the chroot of the clients"
        } else {
            "nothing was held there then"
        };
        return Ending::because(Status::No, format_args!("{path}: {why}"));
    }
    Ending::Success
}

fn left_out(summary: &Summary) -> String {
    let number = count(usize::try_from(summary.uncommitted).unwrap_or(usize::MAX), "transaction", "transactions");
    let range = summary.uncommitted_first.zip(summary.uncommitted_last);
    let range = range.map(|(first, last)| format!(" ({:#x} to {:#x})", first.zxid, last.zxid)).unwrap_or_default();
    format!(
        "left out: {number}{range} that one server has logged, and another seems to have gone on without; they were \
         never committed, unless a file of that one is missing"
    )
}

fn failed(error: Error) -> Ending {
    Ending::failed(error)
}

/// The times that are told, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Window {
    at: Option<i64>,
    from: Option<i64>,
    until: Option<i64>,
    /// The latest time that the logs are known to cover, if a time was given.
    covered: Option<i64>,
}

impl Window {
    fn of(options: &Options, logs: &Postmortem) -> Result<Window, Ending> {
        if options.at.or(options.from).or(options.until).is_none() {
            return Ok(Window::default());
        }
        let span = &logs.span().map_err(failed)?;
        let resolve = |time: Option<Time>| time.map(|time| time.resolve(span));
        let window = Window {
            at: resolve(options.at),
            from: resolve(options.from),
            until: resolve(options.until),
            covered: Some(span.last.ms),
        };
        if let Some(at) = window.at.filter(|at| !(span.first.ms..=span.last.ms).contains(at)) {
            return Err(not_covered("--at", at, span));
        }
        if let Some(from) = window.from.filter(|from| *from > span.last.ms) {
            return Err(not_covered("--from", from, span));
        }
        if let Some(until) = window.until.filter(|until| *until < span.first.ms) {
            return Err(not_covered("--until", until, span));
        }
        match window.from.zip(window.until) {
            Some((from, until)) if from > until => {
                let why = format!("--from {} is later than --until {}", shown(from), shown(until));
                Err(Ending::failed(why))
            }
            _ => Ok(window),
        }
    }

    fn until(self) -> Option<i64> {
        self.at.or(self.until)
    }

    /// Returns the end of what is told, if this is the last transaction that was replayed. What the logs do not cover
    /// is not told.
    fn end(self, last: Moment) -> i64 {
        let covered = self.covered.map_or(last.ms, |covered| covered.max(last.ms));
        self.until().map_or(last.ms, |until| until.min(covered))
    }

    /// Returns whether something is told that ended at this moment, or remains.
    fn shows(self, ended: Option<Moment>) -> bool {
        match self.at {
            // What ends later than that ends in an unknown way: transactions are missing then.
            Some(at) => ended.is_none_or(|ended| ended.ms > at),
            None => self.from.zip(ended).is_none_or(|(from, ended)| ended.ms >= from),
        }
    }
}

fn not_covered(option: &str, ms: i64, span: &Span) -> Ending {
    let (first, last) = (shown(span.first.ms), shown(span.last.ms));
    let next = if option == "--at" && ms > span.last.ms { "; without --at it tells who holds at the end" } else { "" };
    Ending::failed(format_args!("{option}: the logs do not cover {}; they have {first} to {last}{next}", shown(ms)))
}

/// Prints what is told.
struct Teller<'a> {
    output: Output,
    out: BufWriter<AutoStream<io::StdoutLock<'static>>>,
    addresses: &'a ServerLogs,
    path: &'a str,
    window: Window,
    /// The end of what is told, once it is known: what remains has lasted until then.
    until_ms: i64,
    tally: Tally,
    progress: Bar,
    failed: Option<Ending>,
}

impl Teller<'_> {
    fn event(&mut self, event: &Event) -> ControlFlow<()> {
        let printed = match event {
            Event::Progress(progress) => {
                self.progress.show(progress);
                Ok(())
            }
            Event::Damage(damage) => self.problem(event, &damaged(damage)),
            Event::Gap(gap) => self.problem(event, &missing(gap)),
            Event::Hold(hold) => self.hold(event, hold),
            Event::Item(item) => self.item(event, item),
            Event::Overlap(overlap) => self.overlap(event, overlap),
            Event::Replayed(last) => {
                self.until_ms = self.window.end(*last);
                Ok(())
            }
            // Nothing is known about an event of a later version.
            _ => Ok(()),
        };
        match printed {
            Ok(()) => ControlFlow::Continue(()),
            Err(ending) => {
                self.failed = Some(ending);
                ControlFlow::Break(())
            }
        }
    }

    fn hold(&mut self, event: &Event, hold: &Hold) -> Result<(), Ending> {
        if !self.window.shows(hold.ended) {
            return Ok(());
        }
        self.tally.hold(hold);
        let sessions = hold.session_id.into_iter().chain(hold.ended_by);
        let sessions = sessions.chain(hold.revoked.map(|revoked| revoked.session_id));
        self.print(event, sessions, |rows| rows.hold(hold))
    }

    fn item(&mut self, event: &Event, item: &Item) -> Result<(), Ending> {
        if !self.window.shows(item.ended) {
            return Ok(());
        }
        self.tally.item(item);
        let deliveries = item.deliveries.iter().filter_map(|delivery| delivery.session_id);
        let sessions = item.put_by.into_iter().chain(item.ended_by).chain(deliveries);
        self.print(event, sessions, |rows| rows.item(item))
    }

    fn overlap(&mut self, event: &Event, overlap: &Overlap) -> Result<(), Ending> {
        if !self.window.shows(overlap.until) {
            return Ok(());
        }
        self.tally.overlaps += 1;
        let sessions = overlap.first_session_id.into_iter().chain(overlap.second_session_id);
        self.print(event, sessions, |rows| rows.overlap(overlap))
    }

    /// Tells what is wrong with the logs: beside the time line, or in it as JSON.
    fn problem(&mut self, event: &Event, text: &str) -> Result<(), Ending> {
        self.tally.problems += 1;
        if self.output.json {
            return self.print(event, std::iter::empty(), |_| String::new());
        }
        self.progress.clear();
        self.flush()?;
        note(text);
        Ok(())
    }

    fn print(
        &mut self,
        event: &Event,
        sessions: impl Iterator<Item = i64>,
        row: impl FnOnce(&Rows<'_>) -> String,
    ) -> Result<(), Ending> {
        self.progress.clear();
        let line = if self.output.json {
            serde_json::to_string(&self.addresses.with(event, sessions)).map_err(Ending::failed)?
        } else {
            row(&Rows { path: self.path, addresses: self.addresses, until_ms: self.until_ms })
        };
        writeln!(self.out, "{line}").map_err(of_output)
    }

    fn summary(&mut self, summary: &Summary) -> Result<(), Ending> {
        let line = if self.output.json {
            let value = Told { kind: "summary", summary, tally: &self.tally };
            serde_json::to_string(&value).map_err(Ending::failed)?
        } else {
            self.tally.text(summary, self.window.at)
        };
        writeln!(self.out, "{line}").map_err(of_output)?;
        self.flush()
    }

    fn flush(&mut self) -> Result<(), Ending> {
        self.out.flush().map_err(of_output)
    }
}

/// The summary as JSON.
#[derive(Serialize)]
struct Told<'a> {
    kind: &'static str,
    #[serde(flatten)]
    summary: &'a Summary,
    #[serde(flatten)]
    tally: &'a Tally,
}

fn damaged(damage: &Damage) -> String {
    let Damage { file, offset, after_zxid, reason, .. } = damage;
    let after = after_zxid.map(|zxid| format!(", after transaction {zxid:#x}")).unwrap_or_default();
    format!("{}: damaged at byte {offset}{after}: {reason}", file.display())
}

fn missing(gap: &Gap) -> String {
    let (after, before) = (gap.after, gap.before);
    format!(
        "transactions are missing from {} ({:#x}) to {} ({:#x}); is there another file, or the log of another server?",
        shown(after.ms),
        after.zxid,
        shown(before.ms),
        before.zxid,
    )
}

/// Shows on a terminal how much was read.
struct Bar {
    is_shown: bool,
    is_drawn: bool,
}

impl Bar {
    fn new(output: Output) -> Bar {
        Bar { is_shown: io::stderr().is_terminal() && !output.json, is_drawn: false }
    }

    fn show(&mut self, progress: &Progress) {
        if self.is_shown {
            // If it cannot be drawn, the results still count.
            let _ = write!(io::stderr(), "\r{} of {} MB read\x1b[K", progress.bytes >> 20, progress.of >> 20);
            self.is_drawn = true;
        }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
