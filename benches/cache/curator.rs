//! Curator's cache in a JVM of its own, where Debian's packages of it are installed.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Where Debian keeps Java's libraries, and which of them Curator needs.
const JARS: &str = "/usr/share/java";
const NEEDED: [&str; 8] = [
    "curator-recipes",
    "curator-framework",
    "curator-client",
    "zookeeper",
    "zookeeper-jute",
    "guava",
    "slf4j-api",
    "slf4j-nop",
];
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/cache/CuratorPeer.java");

/// A JVM that obeys commands; see the program.
pub(crate) struct Curator {
    child: Child,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Curator {
    /// Starts it; `None`, and a line that says why, if Curator is not installed.
    pub(crate) fn start(connect: &str) -> Option<Curator> {
        let jars: Vec<String> = NEEDED.iter().map(|name| format!("{JARS}/{name}.jar")).collect();
        if let Some(missing) = jars.iter().find(|jar| !Path::new(jar).exists()) {
            println!("without Curator, as there is no {missing}: apt-get install libcurator-recipes-java");
            return None;
        }
        let mut java = Command::new("java");
        java.args(["-cp", &jars.join(":"), PROGRAM, connect]).stdin(Stdio::piped()).stdout(Stdio::piped());
        match java.spawn() {
            Ok(mut child) => {
                let answers = BufReader::new(child.stdout.take().expect("it is piped")).lines();
                Some(Curator { child, answers })
            }
            Err(error) => {
                println!("without Curator, as java does not run ({error}): apt-get install default-jdk-headless");
                None
            }
        }
    }

    /// Gives a command, and waits for the answer: the time that it took inside the JVM.
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
