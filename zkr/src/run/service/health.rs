//! When a command can be used.

use std::fmt;
use std::process::Stdio;
use std::str::FromStr;
use std::time::Duration;

use nix::unistd::Pid;
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::{sleep, timeout};

use crate::run::group::Group;

/// How long to wait after the first attempt; then twice as long after each further one, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How long one attempt to connect may take.
const CONNECT: Duration = Duration::from_secs(5);

/// What shows that a command can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// That it was started.
    AtOnce,
    /// That a port accepts connections.
    Port(Place),
    /// That another command, run by a shell, succeeds.
    Command(String),
}

/// A port of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    host: String,
    port: u16,
}

/// Kills a health command that is not waited for any more, with what it has started.
struct Killed(Option<Group>);

impl Health {
    /// Waits until the command can be used. Returns what was wrong last if it takes too long.
    pub async fn wait(&self, within: Duration) -> Result<(), String> {
        let mut wrong = "no attempt has ended".to_owned();
        let attempts = async {
            let mut pause = FIRST_PAUSE;
            while let Err(why) = self.attempt().await {
                wrong = why;
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        };
        let in_time = timeout(within, attempts).await;
        in_time.map_err(|_| format!("not healthy within {}: {self}: {wrong}", humantime::format_duration(within)))
    }

    async fn attempt(&self) -> Result<(), String> {
        match self {
            Health::AtOnce => Ok(()),
            Health::Port(Place { host, port }) => {
                let connected = timeout(CONNECT, TcpStream::connect((host.as_str(), *port))).await;
                let connected = connected.map_err(|_| format!("not connected within {CONNECT:?}"))?;
                connected.map(drop).map_err(|error| error.to_string())
            }
            Health::Command(command) => run(command).await,
        }
    }
}

/// Runs a command by a shell, in a group of its own: signals of the terminal are not for it.
async fn run(command: &str) -> Result<(), String> {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
    let mut child = shell.spawn().map_err(|error| format!("sh: {error}"))?;
    let group = child.id().map(|id| Group(Pid::from_raw(id.cast_signed())));
    let mut killed = Killed(group);
    let status = child.wait().await.map_err(|error| error.to_string())?;
    killed.0 = None;
    if status.success() { Ok(()) } else { Err(status.to_string()) }
}

impl Drop for Killed {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            group.signal(nix::sys::signal::Signal::SIGKILL);
        }
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Health::AtOnce => f.write_str("the command"),
            Health::Port(Place { host, port }) => write!(f, "port {port} of {host}"),
            Health::Command(command) => write!(f, "{command:?}"),
        }
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        let (host, port) = text.rsplit_once(':').unwrap_or(("localhost", text));
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        match port.parse() {
            Ok(port) if port > 0 && !host.is_empty() => Ok(Place { host: host.to_owned(), port }),
            _ => Err("it must be PORT or HOST:PORT, with a port from 1 to 65535".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_that_of_this_machine_unless_a_host_is_named() {
        let place = |text: &str| text.parse::<Place>().map(|place| (place.host, place.port)).ok();
        let of = |host: &str, port| Some((host.to_owned(), port));
        assert_eq!(place("80"), of("localhost", 80));
        assert_eq!(place("10.0.0.1:80"), of("10.0.0.1", 80));
        assert_eq!(place("[::1]:80"), of("::1", 80));
        for bad in ["", "0", ":80", "a:", "a:65536", "a"] {
            assert_eq!(place(bad), None, "{bad}");
        }
    }

    #[tokio::test]
    async fn a_port_that_accepts_connections_is_healthy_and_one_that_does_not_is_not() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("it is bound");
        let port = listener.local_addr().expect("its address").port();
        let health = Health::Port(Place { host: "127.0.0.1".to_owned(), port });
        assert_eq!(health.wait(Duration::from_secs(30)).await, Ok(()));
        drop(listener);
        let error = health.attempt().await.expect_err("nothing listens");
        assert!(error.contains("refused"), "{error}");
        let late = health.wait(Duration::ZERO).await.expect_err("it is late");
        assert!(late.starts_with(&format!("not healthy within 0s: port {port} of 127.0.0.1: ")), "{late}");
    }

    #[tokio::test]
    async fn a_health_command_is_repeated_until_it_succeeds() {
        let directory = tempfile::TempDir::new().expect("a directory");
        let log = directory.path().join("log");
        let script = format!("echo >>{0}; [ $(wc -l <{0}) -ge 3 ]", log.display());
        assert_eq!(Health::Command(script).wait(Duration::from_secs(30)).await, Ok(()));
        assert_eq!(std::fs::read_to_string(log).expect("it is there").lines().count(), 3);
        let error = Health::Command("exit 7".to_owned()).attempt().await;
        assert_eq!(error, Err("exit status: 7".to_owned()));
    }

    #[tokio::test]
    async fn a_health_command_that_is_late_is_killed_with_what_it_has_started() {
        let directory = tempfile::TempDir::new().expect("a directory");
        let ready = directory.path().join("ready");
        let script = format!("sleep 600 & echo $$ >{0}.new; mv {0}.new {0}; wait", ready.display());
        let health = Health::Command(script);
        let started = async {
            while !ready.exists() {
                sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            done = health.attempt() => panic!("it has ended: {done:?}"),
            () = started => {}
        }
        let group = std::fs::read_to_string(&ready).expect("it is there");
        let group = Group(Pid::from_raw(group.trim().parse().expect("a number")));
        let gone = async {
            while !group.is_gone() {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(30), gone).await.expect("it is killed");
    }
}
