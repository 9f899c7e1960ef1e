//! A judge outside of the recipe: a register for each partition, which refuses tokens smaller than it has seen, and a
//! book of who held what and when, on the one clock of this machine.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::lease::moment::Moment;

/// What a member says of a partition that it holds: `begin` is the end of the first question to which the answer was
/// yes, and `end` the beginning of the latest. A hold that has ended never begins again, so it was held all the time
/// from one to the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    /// The member, in one of its processes, and the hold.
    pub(crate) holder: (u64, u64),
    pub(crate) token: i64,
    pub(crate) begin: Moment,
    pub(crate) end: Moment,
}

/// All that was said of one partition.
#[derive(Debug, Default)]
struct Book {
    spans: BTreeMap<(u64, u64), Span>,
    /// The register: the greatest token that was written.
    newest: i64,
}

#[derive(Debug, Default)]
struct Seen {
    books: BTreeMap<usize, Book>,
    writes: u64,
    stale: u64,
}

/// Listens for lines: the number of the partition, and its span.
#[derive(Debug)]
pub(crate) struct Judge {
    addr: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

/// What the judge has found.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) grants: usize,
    /// A grant after one to another process.
    pub(crate) hand_overs: usize,
    /// Two that held a partition at the same time, for certain.
    pub(crate) overlaps: Vec<(Span, Span)>,
    /// A later hold with a token that is not greater, except that a process has its own again after a suspension.
    pub(crate) disorders: Vec<(Span, Span)>,
    pub(crate) writes: u64,
    /// Writes that the register has refused: they were under way when the next owner wrote.
    pub(crate) stale: u64,
}

impl Span {
    /// As one line.
    pub(crate) fn line(&self, partition: &str) -> String {
        let Span { holder: (process, hold), token, begin, end } = self;
        format!("{partition} {process} {hold} {token} {} {}\n", begin.0, end.0)
    }

    /// `None` if it is cut off: its process was killed meanwhile.
    fn read(line: &str) -> Option<(usize, Span)> {
        let words: Vec<&str> = line.strip_suffix('\n')?.split(' ').collect();
        let [partition, process, hold, token, begin, end] = words[..] else { panic!("no span: {line}") };
        let number = |word: &str| word.parse::<u64>().expect("a number");
        let holder = (number(process), number(hold));
        let token = token.parse().expect("a token");
        let span = Span { holder, token, begin: Moment(number(begin)), end: Moment(number(end)) };
        Some((partition.parse().expect("a partition"), span))
    }
}

impl Judge {
    pub(crate) async fn start() -> Judge {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let judge = Judge { addr: listener.local_addr().expect("an address"), seen: Arc::default() };
        let seen = Arc::clone(&judge.seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(listen(stream, Arc::clone(&seen)));
            }
        });
        judge
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The partitions that no member has held since.
    pub(crate) fn unowned_since(&self, moment: Moment, partitions: usize) -> Vec<usize> {
        let seen = self.seen.lock().expect("no panic");
        let is_owned = |partition: &usize| {
            seen.books.get(partition).is_some_and(|book| book.spans.values().any(|span| span.end > moment))
        };
        (0..partitions).filter(|partition| !is_owned(partition)).collect()
    }

    pub(crate) fn verdict(&self) -> Verdict {
        let seen = self.seen.lock().expect("no panic");
        let mut verdict = Verdict { writes: seen.writes, stale: seen.stale, ..Verdict::default() };
        seen.books.values().for_each(|book| verdict.add(&book.spans));
        verdict
    }
}

impl Verdict {
    pub(crate) fn merge(&mut self, other: Verdict) {
        self.grants += other.grants;
        self.hand_overs += other.hand_overs;
        self.overlaps.extend(other.overlaps);
        self.disorders.extend(other.disorders);
        self.writes += other.writes;
        self.stale += other.stale;
    }

    /// Judges one partition.
    fn add(&mut self, spans: &BTreeMap<(u64, u64), Span>) {
        let mut spans: Vec<Span> = spans.values().copied().collect();
        spans.sort_by_key(|span| span.begin);
        self.grants += usize::from(!spans.is_empty());
        // Of those that began before, the one that was held for longest.
        let mut longest: Option<Span> = None;
        for pair in spans.windows(2) {
            let (before, after) = (pair[0], pair[1]);
            let is_same_process = before.holder.0 == after.holder.0;
            self.grants += usize::from(before.token != after.token);
            self.hand_overs += usize::from(!is_same_process);
            if after.token < before.token || (after.token == before.token && !is_same_process) {
                self.disorders.push((before, after));
            }
            let held = longest.filter(|longest| longest.end > before.end).unwrap_or(before);
            if held.end > after.begin {
                self.overlaps.push((held, after));
            }
            longest = Some(held);
        }
    }
}

async fn listen(stream: TcpStream, seen: Arc<Mutex<Seen>>) {
    let mut lines = BufReader::new(stream);
    let mut line = String::new();
    while lines.read_line(&mut line).await.is_ok_and(|bytes| bytes > 0) {
        if let Some((partition, span)) = Span::read(&line) {
            seen.lock().expect("no panic").write(partition, span);
        }
        line.clear();
    }
}

impl Seen {
    fn write(&mut self, partition: usize, span: Span) {
        let book = self.books.entry(partition).or_default();
        self.writes += 1;
        self.stale += u64::from(span.token < book.newest);
        book.newest = book.newest.max(span.token);
        book.spans.insert(span.holder, span);
    }
}

mod tests {
    use super::*;

    fn verdict(spans: &[(u64, i64, u64, u64)]) -> Verdict {
        let spans = spans.iter().enumerate().map(|(hold, &(process, token, begin, end))| {
            let holder = (process, hold as u64);
            (holder, Span { holder, token, begin: Moment(begin), end: Moment(end) })
        });
        let mut verdict = Verdict::default();
        verdict.add(&spans.collect());
        verdict
    }

    #[test]
    fn the_judge_counts_grants_and_finds_two_that_hold_at_the_same_time() {
        let good = verdict(&[(1, 5, 0, 10), (1, 5, 12, 20), (2, 7, 20, 30), (2, 9, 31, 40)]);
        assert_eq!((good.grants, good.hand_overs), (3, 1));
        assert!(good.overlaps.is_empty() && good.disorders.is_empty(), "{good:?}");
        // The first one is held beside both of the others.
        assert_eq!(verdict(&[(1, 5, 0, 30), (2, 7, 10, 15), (3, 8, 20, 25)]).overlaps.len(), 2);
        assert_eq!(verdict(&[(1, 5, 0, 10), (2, 4, 20, 30), (3, 4, 40, 50)]).disorders.len(), 2);
        assert!(Span::read("1 2 3 4 5 6").is_none(), "it is cut off");
    }
}
