//! What it is made for.

use crate::contender::{Contender, SOON, zkr};
use crate::support::{Observer, ZooKeeper, unique_path, until};

async fn server() -> (std::sync::Arc<ZooKeeper>, String, String) {
    let server = ZooKeeper::shared().await;
    let connect = server.connect_string();
    (server, connect, unique_path("zkr"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_knows_its_path_and_its_token_and_others_see_who_holds() {
    let (_server, connect, path) = server().await;
    let script = "echo $ZKR_PATH $ZKR_FENCING_TOKEN; cat";
    let mut command = zkr(&connect, &["lock", &path, "--data", "nightly", "--", "sh", "-c", script]);
    let mut holder = command.stdin(std::process::Stdio::piped()).spawn().expect("it starts");
    let observer = Observer::connect(&connect).await;
    let node = format!("{path}/{}", observer.wait_for_children(&path, 1).await[0]);
    let (data, stat) = observer.get(&node).await.expect("it is there");
    assert_eq!(data, b"nightly");

    let ended = Contender::start(zkr(&connect, &["lock", &path, "--wait", "0s", "--", "true"])).ended().await.with(124);
    assert!(ended.err.contains("not acquired in time"), "{ended:?}");
    drop(holder.stdin.take());
    let output = holder.wait_with_output().await.expect("it ends");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), format!("{path} {}", stat.czxid));
    assert_eq!(observer.data(&path).await.unwrap_or_default(), b"", "the mark is removed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_many_hold_a_semaphore_at_a_time() {
    let (_server, connect, path) = server().await;
    let directory = tempfile::TempDir::new().expect("a directory");
    let log = directory.path().join("log").to_str().expect("it is text").to_owned();
    let script = "echo + >>$0; sleep 0.3; echo - >>$0";
    let start = || {
        let arguments = ["lock", &path, "--permits", "2", "--", "sh", "-c", script, &log];
        Contender::start(zkr(&connect, &arguments))
    };
    for contender in [start(), start(), start(), start(), start()] {
        contender.ended().await.with(0);
    }
    let log = std::fs::read_to_string(log).expect("it is there");
    let inside = log.lines().scan(0, |inside: &mut i32, line| {
        *inside += if line == "+" { 1 } else { -1 };
        Some(*inside)
    });
    let inside: Vec<_> = inside.collect();
    assert_eq!((inside.len(), inside.iter().max()), (10, Some(&2)), "{inside:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_is_requeued_leads_again_after_its_term() {
    let (_server, connect, path) = server().await;
    let directory = tempfile::TempDir::new().expect("a directory");
    let log = directory.path().join("log").to_str().expect("it is text").to_owned();
    let script = "echo $ZKR_FENCING_TOKEN >>$0; exit 4";
    let arguments = ["elect", &path, "--id", "one", "--requeue", "--", "sh", "-c", script, &log];
    let elected = Contender::start(zkr(&connect, &arguments));
    let terms = || std::fs::read_to_string(&log).unwrap_or_default().lines().count();
    until("it has led three times", SOON, || async { (terms() >= 3).then_some(()) }).await;
    elected.signal(nix::sys::signal::Signal::SIGTERM);
    let status = elected.ended().await.status;
    // As the command that it has interrupted, or as it was asked to end between two terms.
    assert!(matches!(status.code(), Some(4 | 143)), "{status}");
    let once = ["elect", &path, "--", "sh", "-c", "exit 4"];
    Contender::start(zkr(&connect, &once)).ended().await.with(4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_of_the_users_own_ends_a_term_and_not_the_requeueing() {
    let (_server, connect, path) = server().await;
    let directory = tempfile::TempDir::new().expect("a directory");
    let log = directory.path().join("log").to_str().expect("it is text").to_owned();
    let script = "trap 'exit 0' USR1; echo $ZKR_FENCING_TOKEN >>$0; sleep 600 & kill -USR1 $PPID; wait";
    let elected = Contender::start(zkr(&connect, &["elect", &path, "--requeue", "--", "sh", "-c", script, &log]));
    let terms = || std::fs::read_to_string(&log).unwrap_or_default().lines().count();
    until("it has led three times", SOON, || async { (terms() >= 3).then_some(()) }).await;
    elected.signal(nix::sys::signal::Signal::SIGTERM);
    let status = elected.ended().await.status;
    assert!(matches!(status.code(), Some(0 | 143)), "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_to_wait_for_a_leadership_ends_a_requeueing_too() {
    let (_server, connect, path) = server().await;
    let leader = Contender::start(zkr(&connect, &["elect", &path, "--", "sleep", "60"]));
    let observer = Observer::connect(&connect).await;
    observer.wait_for_children(&path, 1).await;
    let other = zkr(&connect, &["elect", &path, "--requeue", "--wait", "500ms", "--", "true"]);
    Contender::start(other).ended().await.with(124);
    drop(leader);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_of_a_barrier_start_together_and_end_together() {
    let (_server, connect, path) = server().await;
    let member = |script: &str| {
        let arguments = ["barrier", &path, "--members", "2", "--", "sh", "-c", script];
        Contender::start(zkr(&connect, &arguments))
    };
    let first = member("date +%s%N; exit 5");
    let observer = Observer::connect(&connect).await;
    observer.wait_for_children(&path, 1).await;
    let before = std::time::SystemTime::now();
    let second = member("sleep 1; date +%s%N");
    let first = first.ended().await.with(5);
    let first_has_ended = std::time::SystemTime::now();
    let second = second.ended().await.with(0);
    let at = |ended: &crate::contender::Ended| {
        std::time::UNIX_EPOCH + std::time::Duration::from_nanos(ended.out.trim().parse().expect("a time"))
    };
    assert!(before <= at(&first), "the first has waited for the second");
    assert!(at(&second) <= first_has_ended, "the first has waited for the end of the second");
    let alone = ["barrier", &path, "--members", "2", "--wait", "1s", "--", "true"];
    Contender::start(zkr(&connect, &alone)).ended().await.with(124);
}
