//! Curator's cache in a separate JVM, if Debian's packages of Curator are installed.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use crate::support::curator::java;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/cache/CuratorPeer.java");

/// A JVM that carries out commands; see `CuratorPeer.java`.
pub(crate) struct Curator {
    child: Child,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Curator {
    /// Starts one for each of these servers. Prints why and returns `None` if Curator is not installed.
    pub(crate) fn start<const N: usize>(connects: [String; N]) -> Option<[Curator; N]> {
        let started: Result<Vec<Curator>, String> = connects.iter().map(|connect| Curator::spawn(connect)).collect();
        match started {
            Ok(started) => started.try_into().ok(),
            Err(why) => {
                println!("without Curator: {why}");
                None
            }
        }
    }

    fn spawn(connect: &str) -> Result<Curator, String> {
        let mut java = java(PROGRAM)?;
        java.arg(connect).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = java.spawn().map_err(|error| format!("java does not run: {error}"))?;
        let answers = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let mut curator = Curator { child, answers };
        // A JVM without a compiler, for example, ends at once, and prints why on its standard error.
        match curator.answers.next() {
            Some(Ok(line)) if line == "ready" => Ok(curator),
            other => Err(format!("java printed {other:?} instead of \"ready\"")),
        }
    }

    /// Sends a command, and returns the time that it took inside the JVM.
    pub(crate) fn ask(&mut self, command: &str) -> Duration {
        let stdin = self.child.stdin.as_mut().expect("it is piped");
        writeln!(stdin, "{command}").expect("the JVM lives");
        let answer = self.answers.next().unwrap_or_else(|| panic!("the JVM ended at {command:?}"));
        let nanos = answer.expect("a line").parse().expect("nanoseconds");
        Duration::from_nanos(nanos)
    }
}

impl Drop for Curator {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
