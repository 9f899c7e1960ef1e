//! The resource that the lock guards, seen from outside of both libraries: the holder reports over TCP and
//! waits for the answer.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// One participant held the lock.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    pub(crate) is_kazoo: bool,
    /// It reads, beside others that read.
    pub(crate) is_reader: bool,
    /// Of its node in the line.
    pub(crate) number: u32,
}

#[derive(Debug, Default)]
struct Seen {
    readers: usize,
    others: usize,
    overlaps: usize,
    /// The most readers that were together.
    most_readers: usize,
    turns: Vec<Turn>,
}

/// Listens for `enter NODE` and `leave NODE`, and answers each line with `ok`.
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

    pub(crate) fn most_readers(&self) -> usize {
        self.seen.lock().expect("no panic").most_readers
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
        match line.split_once(' ') {
            Some(("enter", node)) => {
                let is_reader = is_reader(node);
                self.overlaps += usize::from(self.others > 0 || !is_reader && self.readers > 0);
                *self.inside(is_reader) += 1;
                self.most_readers = self.most_readers.max(self.readers);
                let (_, digits) = node.split_at(node.len() - 10);
                let number = digits.parse().expect("a sequential node");
                let is_kazoo = node.contains("__lock__") || node.contains("__rlock__");
                self.turns.push(Turn { is_kazoo, is_reader, number });
            }
            Some(("leave", node)) => *self.inside(is_reader(node)) -= 1,
            _ => panic!("neither enter nor leave: {line}"),
        }
    }

    fn inside(&mut self, is_reader: bool) -> &mut usize {
        if is_reader { &mut self.readers } else { &mut self.others }
    }
}

fn is_reader(node: &str) -> bool {
    node.contains("__READ__") || node.contains("__rlock__")
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
        stream.write_all(format!("{what} {node}\n").as_bytes()).await.expect("the judge listens");
        let mut answer = String::new();
        stream.read_line(&mut answer).await.expect("the judge answers");
        assert_eq!(answer, "ok\n");
    }
}
