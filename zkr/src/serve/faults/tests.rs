use std::time::Duration;

use zookeeper_recipes::testing::{Data, Loss, Operation, RecordKind};
use zookeeper_recipes::{Client, CreateMode, ErrorKind};

use super::*;
use crate::ending::Status;

const SCOPE: Scope = Scope { addresses: 1, servers: 1 };

fn read(text: &[u8]) -> Result<Script, String> {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), text).expect("written");
    let name = file.path().to_str().expect("a name of text");
    Script::read(name, SCOPE).map_err(|ending| match ending {
        Ending::Status(Status::Failed, Some(why)) => why.replace(name, "FILE"),
        other => panic!("{other:?}"),
    })
}

#[test]
fn a_file_is_read_with_the_numbers_of_its_lines() {
    let Ok(Script::File(steps)) = read(b"\xef\xbb\xbf# a test\n\n  cut  all # now\r\nheal") else {
        panic!("it is good")
    };
    let steps: Vec<_> = steps.iter().map(|step| (step.line, &*step.said, &step.command)).collect();
    assert_eq!(steps, [(3, "cut all", &Command::Cut(Clients::All)), (4, "heal", &Command::Heal)]);
}

#[test]
fn the_first_bad_line_of_a_file_is_said() {
    for (text, why) in [
        (&b"heal\n\ncut\nrefuse"[..], "--faults FILE line 3: it must be: cut TARGET"),
        (b"heal\n\xff", "--faults FILE line 2: there is no command \"\u{fffd}\"; it must be one of wait, cut"),
    ] {
        let said = read(text).expect_err("it is bad");
        assert!(said.starts_with(why), "{said}");
    }
}

#[test]
fn the_standard_input_is_not_read_before_the_servers_serve() {
    assert!(matches!(Script::read("-", SCOPE), Ok(Script::Input(_))));
}

/// What a command does to the one client of three servers.
struct Stage {
    server: TestingServer,
    client: Client,
}

impl Stage {
    async fn set() -> Stage {
        let server = TestingServer::builder().servers(3).start();
        let client = server.client().await.expect("a client");
        client.create("/a", "", CreateMode::Persistent).await.expect("created");
        Stage { server, client }
    }

    fn act(&self, command: Command) -> Option<Done> {
        Player { output: Output { json: false }, server: &self.server, listening: &[] }.act(command)
    }

    fn is_connected(&self) -> bool {
        self.server.sessions().iter().any(|session| session.connected)
    }

    /// Waits for longer than a message takes, and for less than a client needs to notice a silence.
    async fn settle(&self) {
        tokio::time::sleep(Duration::from_secs(2)).await;
    }

    /// Returns the number of a server to which the client is not connected.
    fn other_server(&self) -> usize {
        (self.server.sessions()[0].server.expect("it is connected") + 1) % 3
    }
}

#[tokio::test(start_paused = true)]
async fn connections_are_cut_and_refused_until_heal() {
    let stage = Stage::set().await;
    assert_eq!(stage.act(Command::Refuse(Clients::All)), None);
    stage.settle().await;
    assert!(stage.is_connected());
    assert_eq!(stage.act(Command::Cut(Clients::All)), Some(Done::Cut(1)));
    stage.settle().await;
    assert!(!stage.is_connected());
    stage.act(Command::Heal);
    stage.server.until(|| stage.is_connected()).await;
}

#[tokio::test(start_paused = true)]
async fn messages_are_held_until_heal_or_delayed() {
    let second = Duration::from_secs(1);
    for (command, late) in [
        (Command::BlackHole(Clients::All), second * 2..second * 3),
        (Command::Delay(Clients::All, second / 2), second..second * 2),
    ] {
        let stage = Stage::set().await;
        stage.act(command);
        let answered = async {
            let before = tokio::time::Instant::now();
            assert!(stage.client.exists("/a").await.expect("an answer").is_some());
            before.elapsed()
        };
        let healed = async {
            stage.settle().await;
            stage.act(Command::Heal)
        };
        let (took, _) = tokio::join!(answered, healed);
        assert!(late.contains(&took), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_of_a_kind_is_lost_and_the_request_applied_or_not() {
    for loss in [Loss::Applied, Loss::NotApplied] {
        let stage = Stage::set().await;
        stage.act(Command::LoseReply(Clients::All, Some(Operation::Delete), loss));
        assert!(stage.client.exists("/a").await.expect("another kind").is_some());
        let lost = stage.client.delete("/a", Some(0)).await.expect_err("it is lost");
        assert_eq!(lost.kind(), ErrorKind::OutcomeUnknown);
        assert_eq!(stage.server.stat("/a").is_none(), loss == Loss::Applied);
    }
}

#[tokio::test(start_paused = true)]
async fn other_session_timeouts_are_granted_and_sessions_are_ended() {
    let stage = Stage::set().await;
    let granted = Duration::from_secs(5);
    stage.act(Command::Grant(granted..=granted));
    let session = stage.server.sessions()[0].id;
    assert_eq!(stage.act(Command::Expire(session + 1)), Some(Done::Expired(false)));
    assert_eq!(stage.act(Command::Expire(session)), Some(Done::Expired(true)));
    stage.server.until(|| stage.is_connected()).await;
    let sessions = stage.server.sessions();
    assert!(sessions[0].id != session && sessions[0].timeout == granted, "{sessions:?}");
}

#[tokio::test(start_paused = true)]
async fn servers_stop_and_start_again_with_their_data_or_without() {
    for data in [Data::Kept, Data::Lost] {
        let stage = Stage::set().await;
        stage.act(Command::Stop);
        stage.settle().await;
        assert!(!stage.is_connected());
        stage.act(Command::Heal);
        stage.settle().await;
        assert!(!stage.is_connected(), "it ends faults alone");
        stage.act(Command::Restart(data));
        stage.server.until(|| stage.is_connected()).await;
        assert_eq!(stage.server.stat("/a").is_some(), data == Data::Kept);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_cut_off_drops_its_own_clients_and_a_deposed_one_those_of_the_others() {
    let stage = Stage::set().await;
    let is_cut_by = async |command| {
        stage.server.clear_records();
        stage.act(command);
        stage.settle().await;
        stage.act(Command::Heal);
        stage.server.until(|| stage.is_connected()).await;
        let records = stage.server.records();
        records.iter().any(|record| record.what == RecordKind::Disconnected)
    };
    let second = Duration::from_secs(1);
    assert!(!is_cut_by(Command::CutOff(stage.other_server(), second)).await);
    assert!(is_cut_by(Command::Depose(stage.other_server(), second)).await);
    let own = stage.server.sessions()[0].server.expect("it is connected");
    assert!(is_cut_by(Command::CutOff(own, second)).await);
    assert!(!is_cut_by(Command::CutOff(stage.other_server(), second)).await);
}
