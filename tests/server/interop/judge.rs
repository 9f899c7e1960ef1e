//! The resource that the lock guards, seen from outside of both libraries: the holder reports over TCP and
//! waits for the answer.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// The library of a participant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Library {
    Ours,
    Kazoo,
    Curator,
}

/// One participant held the lock.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    pub(crate) by: Library,
    /// The directory of the line.
    pub(crate) dir: String,
    /// It holds beside others that share, as a reader does.
    pub(crate) is_shared: bool,
    /// Of its node in the line.
    pub(crate) number: u32,
}

#[derive(Debug, Default)]
struct Seen {
    /// By the directory of the line.
    inside: HashMap<String, Inside>,
    overlaps: usize,
    /// The most that were together.
    most_together: usize,
    turns: Vec<Turn>,
}

/// The holders of one lock.
#[derive(Debug, Default)]
struct Inside {
    shared: usize,
    alone: usize,
}

/// Listens for `enter LIBRARY NODE` and `leave LIBRARY NODE`, and answers each line with `ok`.
#[derive(Debug)]
pub(crate) struct Judge {
    addr: SocketAddr,
    seen: Arc<Mutex<Seen>>,
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

    pub(crate) fn turns(&self) -> Vec<Turn> {
        self.seen.lock().expect("no panic").turns.clone()
    }

    /// Returns whether a participant of this library had a turn.
    pub(crate) fn has_seen(&self, library: Library) -> bool {
        self.seen.lock().expect("no panic").turns.iter().any(|turn| turn.by == library)
    }

    /// How often a turn was followed by one of another library.
    pub(crate) fn between_libraries(&self) -> usize {
        self.seen.lock().expect("no panic").turns.windows(2).filter(|pair| pair[0].by != pair[1].by).count()
    }

    /// Checks that no participant was beside one that holds alone, and that they had their turns in the order of their
    /// nodes, each after those that it has to wait for. Tells what was seen.
    pub(crate) fn check(&self) {
        let turns = self.turns();
        assert_eq!(self.overlaps(), 0, "no participant entered beside one that holds alone");
        for (at, turn) in turns.iter().enumerate().filter(|(_, turn)| !turn.is_shared) {
            let of_line = |other: &&Turn| other.dir == turn.dir;
            let (before, after) = (turns[..at].iter().filter(of_line), turns[at..].iter().filter(of_line));
            assert!(before.into_iter().all(|other| other.number <= turn.number), "{turn:?} has overtaken another");
            assert!(after.into_iter().all(|other| other.number >= turn.number), "another has overtaken {turn:?}");
        }
        println!(
            "{} turns, {} from one library to the other, {} together, 0 overlaps",
            turns.len(),
            self.between_libraries(),
            self.most_together()
        );
    }

    pub(crate) fn most_together(&self) -> usize {
        self.seen.lock().expect("no panic").most_together
    }

    pub(crate) fn overlaps(&self) -> usize {
        self.seen.lock().expect("no panic").overlaps
    }
}

async fn listen(stream: TcpStream, seen: Arc<Mutex<Seen>>) {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        seen.lock().expect("no panic").hear(&line);
        write.write_all(b"ok\n").await.expect("the contender listens");
    }
}

impl Seen {
    fn hear(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let [what, library, node] = words[..] else { panic!("neither enter nor leave: {line}") };
        let (dir, name) = node.rsplit_once('/').expect("a path");
        let is_shared = ["__READ__", "__rlock__", "-lease-"].iter().any(|base| name.contains(base));
        let inside = self.inside.entry(dir.to_owned()).or_default();
        let count = if is_shared { &mut inside.shared } else { &mut inside.alone };
        if what == "leave" {
            *count -= 1;
            return;
        }
        assert_eq!(what, "enter", "{line}");
        *count += 1;
        self.overlaps += usize::from(inside.alone > 1 || inside.alone > 0 && inside.shared > 0);
        self.most_together = self.most_together.max(inside.shared);
        let (_, digits) = name.split_at(name.len() - 10);
        let number = digits.parse().expect("a sequential node");
        self.turns.push(Turn { by: Library::of(library), dir: dir.to_owned(), is_shared, number });
    }
}

impl Library {
    fn of(name: &str) -> Library {
        match name {
            "ours" => Library::Ours,
            "kazoo" => Library::Kazoo,
            "curator" => Library::Curator,
            _ => panic!("no library {name}"),
        }
    }
}

/// A contender's way to the judge.
#[derive(Debug)]
pub(crate) struct Report(tokio::sync::Mutex<BufReader<TcpStream>>);

impl Report {
    pub(crate) async fn connect(judge: SocketAddr) -> Report {
        let stream = TcpStream::connect(judge).await.expect("the judge listens");
        Report(tokio::sync::Mutex::new(BufReader::new(stream)))
    }

    pub(crate) async fn enter(&self, node: &str) {
        self.say("enter", node).await;
    }

    pub(crate) async fn leave(&self, node: &str) {
        self.say("leave", node).await;
    }

    async fn say(&self, what: &str, node: &str) {
        let mut stream = self.0.lock().await;
        stream.write_all(format!("{what} ours {node}\n").as_bytes()).await.expect("the judge listens");
        let mut answer = String::new();
        stream.read_line(&mut answer).await.expect("the judge answers");
        assert_eq!(answer, "ok\n");
    }
}
