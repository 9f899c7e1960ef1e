//! `zkr serve`: an ensemble in memory for other programs.

#[cfg(feature = "interop")]
#[path = "../../../tests/server/interop/python.rs"]
mod python;

use futures::StreamExt;
use tokio::io::Lines;
use tokio::process::ChildStdout;
use zookeeper_recipes::ConnectionState;

use super::*;

/// A running `zkr serve`; killed on drop.
pub(crate) struct Served {
    pub(crate) process: Child,
    pub(crate) lines: Lines<BufReader<ChildStdout>>,
    pub(crate) connect: String,
}

impl Served {
    /// Starts it; returns when it serves.
    async fn start(arguments: &[&str]) -> Served {
        Served::of(zkr(&[&["serve"], arguments].concat())).await
    }

    pub(crate) async fn of(mut command: Command) -> Served {
        let mut process = command.spawn().expect("it starts");
        let lines = BufReader::new(process.stdout.take().expect("its output")).lines();
        let mut served = Served { process, lines, connect: String::new() };
        served.connect = served.next_line().await;
        served
    }

    /// The next line that it prints.
    pub(crate) async fn next_line(&mut self) -> String {
        within("it prints", SOON, self.lines.next_line()).await.expect("it is read").expect("a line")
    }

    async fn connect(&self) -> Client {
        connect_to(&self.connect).await
    }

    /// Ends it as Ctrl-C does. Returns what it has said on the standard error.
    pub(crate) async fn interrupt(mut self) -> String {
        signal(&self.process, Signal::SIGINT);
        let told = ended(self.process).await;
        assert_eq!(told.status, 0, "{}", told.err);
        assert_eq!(self.lines.next_line().await.expect("it is read"), None, "that is all that it says");
        told.err
    }
}

pub(crate) async fn connect_to(servers: &str) -> Client {
    let client = Client::builder(servers).session_timeout(Duration::from_secs(10)).connect();
    within("a client connects", SOON, client).await.expect("it connects")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ensemble_is_gone_with_the_process_and_its_clients_hear_of_it() {
    let first = Served::start(&["--listen", "127.0.0.1:0"]).await;
    let client = first.connect().await;
    client.create("/here", "", CreateMode::Persistent).await.expect("created");
    let mut states = client.connection_states();
    states.next().await.expect("the state of now").expect("it is not behind");
    let address = first.connect.clone();
    assert!(first.interrupt().await.contains("for development and tests only"));
    let second = Served::start(&["--listen", &address]).await;
    assert_eq!(second.connect, address);
    let mut seen = Vec::new();
    while seen.last() != Some(&ConnectionState::Reconnected) {
        let next = within("the client finds the new ensemble", SOON, states.next()).await;
        seen.push(next.expect("a state").expect("it is not behind"));
    }
    assert!(seen.contains(&ConnectionState::Lost), "its session was of the other ensemble: {seen:?}");
    assert!(client.exists("/here").await.expect("an answer").is_none());
    second.interrupt().await;
}

#[tokio::test]
async fn what_cannot_be_served_is_said() {
    let served = Served::start(&["--listen", "127.0.0.1:0"]).await;
    assert_eq!(Served::start(&["--listen", "127.0.0.1:0", "--servers", "3"]).await.connect.split(',').count(), 3);
    let told = async |arguments: &[&str]| ended(zkr(arguments).spawn().expect("it starts")).await;
    for (arguments, why) in [
        (&["serve", "--listen", &*served.connect][..], "already in use"),
        (&["serve", "--listen", "nowhere"], "must be ADDRESS:PORT"),
        (&["serve", "--tick", "0s"], "must be at least 1ms and at most 1h"),
        (&["serve", "--servers", "0"], "1..=9"),
        (&["serve", "--connect", "host"], "--connect is for clients, and serve is a server"),
        (&["--session-timeout", "5s", "serve"], "--session-timeout is for clients"),
    ] {
        let told = told(arguments).await;
        assert_eq!((told.status, &*told.out), (125, ""), "{arguments:?}: {}", told.err);
        assert!(told.err.contains(why), "{arguments:?}: {}", told.err);
    }
    served.interrupt().await;
}

#[tokio::test]
async fn its_help_has_no_options_of_a_client_and_that_of_others_has() {
    let help = async |command: &str| ended(zkr(&[command, "--help"]).spawn().expect("it starts")).await.out;
    let (serve, lock) = (help("serve").await, help("lock").await);
    for option in ["--connect", "--session-timeout", "--tls-ca"] {
        assert!(!serve.contains(option) && lock.contains(option), "{option}: {serve}");
    }
    for what in ["--json", "--faults <FILE>", "  black-hole TARGET "] {
        assert!(serve.contains(what), "{what}: {serve}");
    }
}

/// What kazoo sees of it, from nodes to users and four-letter words, is what it sees of a real server.
#[cfg(feature = "interop")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kazoo_finds_it_as_it_finds_a_server() {
    let server = ZooKeeper::builder().tick_time(Duration::from_secs(2)).four_letter_words("*").start().await;
    let served = Served::start(&["--listen", "127.0.0.1:0"]).await;
    let told = async |connect: &str| {
        let mut python = Command::new(python::python());
        python.args(["-c", include_str!("kazoo_transcript.py"), connect]).kill_on_drop(true);
        python.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let told = ended(python.spawn().expect("python starts")).await;
        assert_eq!(told.status, 0, "{}{}", told.out, told.err);
        told.out
    };
    let (here, there) = (told(&served.connect).await, told(&server.connect_string()).await);
    println!("{there}");
    for (line, other) in here.lines().zip(there.lines()) {
        assert_eq!(line, other, "here and at a real server");
    }
    assert_eq!(here, there);
    assert!(there.ends_with("cons True\n"), "the script has come to its end");
    served.interrupt().await;
}
