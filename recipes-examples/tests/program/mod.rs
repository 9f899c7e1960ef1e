//! An example as a process.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

/// How long an example takes at most.
const MOST: Duration = Duration::from_secs(30);

pub struct Program {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    told: String,
}

/// The output of a program that has ended.
pub struct Told {
    out: String,
    err: String,
}

impl Program {
    /// Starts the program without a server.
    pub fn start(path: &str, arguments: &[&str]) -> Program {
        let mut command = Command::new(path);
        command.args(arguments).env_remove("ZOOKEEPER_CONNECT").env_remove("RUST_LOG").kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        Program { child, lines, told: String::new() }
    }

    /// Reads until a line contains `text`.
    pub async fn says(&mut self, text: &str) {
        timeout(MOST, async {
            while let Some(line) = self.lines.next_line().await.expect("it is text") {
                self.told += &line;
                self.told.push('\n');
                if line.contains(text) {
                    return;
                }
            }
            panic!("it never printed {text:?}:\n{}", self.told);
        })
        .await
        .unwrap_or_else(|_| panic!("it did not print {text:?} within {MOST:?}"));
    }

    /// Closes its output, as `head` does, and returns what was read so far.
    pub async fn close_output(self) -> Told {
        let Program { mut child, lines, told: out } = self;
        drop(lines);
        let mut err = String::new();
        let mut errors = child.stderr.take().expect("its errors");
        let ended = timeout(MOST, async {
            errors.read_to_string(&mut err).await.expect("it is text");
            child.wait().await.expect("it ends")
        });
        let ended = ended.await.unwrap_or_else(|_| panic!("it did not end within {MOST:?}"));
        assert!(ended.success(), "{ended}:\n{out}\n{err}");
        Told { out, err }
    }

    pub fn signal(&self, signal: Signal) {
        let pid = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed())).expect("it runs");
        kill_process(pid, signal).expect("the signal is sent");
    }

    /// Waits until the program ends with this status; each line of its output has a time stamp.
    pub async fn ends(self, status: i32) -> Told {
        let told = self.ends_with(status).await;
        told.has_time_stamps();
        told
    }

    /// Waits until the program ends without an error.
    pub async fn succeeds(self) -> Told {
        self.ends_with(0).await
    }

    async fn ends_with(self, status: i32) -> Told {
        let Program { mut child, lines, told: mut out } = self;
        let mut err = String::new();
        let (mut rest, mut errors) = (lines.into_inner(), child.stderr.take().expect("its errors"));
        let ended = timeout(MOST, async {
            let (read, failed) = tokio::join!(rest.read_to_string(&mut out), errors.read_to_string(&mut err));
            read.and(failed).expect("it is text");
            child.wait().await.expect("it ends")
        });
        let ended = ended.await.unwrap_or_else(|_| panic!("it did not end within {MOST:?}"));
        assert_eq!(ended.code(), Some(status), "{ended}:\n{out}\n{err}");
        Told { out, err }
    }
}

impl Told {
    /// Asserts that all of these were printed, in this order.
    pub fn in_order(&self, texts: &[&str]) {
        let mut rest = self.out.as_str();
        for text in texts {
            let Some(at) = rest.find(text) else {
                panic!("{text:?} is missing, or out of order:\n{}", self.out);
            };
            rest = &rest[at + text.len()..];
        }
    }

    /// Returns all that was printed.
    pub fn out(&self) -> &str {
        &self.out
    }

    pub fn lacks(&self, text: &str) {
        assert!(!self.out.contains(text), "{text:?} was printed:\n{}", self.out);
    }

    /// Asserts that nothing was printed on the standard error.
    pub fn complains_of_nothing(&self) {
        assert_eq!(self.err, "");
    }

    /// Asserts that each non-empty line starts with a time, as in ` 12.345 s  `, and that the times never decrease.
    fn has_time_stamps(&self) {
        let mut last = 0.0;
        for line in self.out.lines().filter(|line| !line.is_empty()) {
            let stamp = line.split_once(" s  ").and_then(|(time, _)| time.trim_start().parse::<f64>().ok());
            let stamp = stamp.unwrap_or_else(|| panic!("no time stamp: {line:?}"));
            assert!(stamp >= last, "{last} s is followed by {line:?}");
            last = stamp;
        }
    }

    /// Asserts that this was printed on the standard error.
    pub fn complains(&self, text: &str) {
        assert!(self.err.contains(text), "{text:?} is missing:\n{}", self.err);
    }
}
