//! What users do that was not foreseen.

use std::process::Stdio;

use nix::sys::signal::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::contender::{Contender, SOON, zkr};
use crate::judge::is_alive;
use crate::support::{Observer, ZooKeeper, unique_path, until};

/// A server, and a path of the test's own.
struct Scene {
    connect: String,
    observer: Observer,
    path: String,
}

impl Scene {
    async fn new() -> (std::sync::Arc<ZooKeeper>, Scene) {
        let server = ZooKeeper::shared().await;
        let connect = server.connect_string();
        let observer = Observer::connect(&connect).await;
        (server, Scene { connect, observer, path: unique_path("zkr-misuse") })
    }

    fn start(&self, arguments: &[&str]) -> Contender {
        Contender::start(zkr(&self.connect, arguments))
    }

    fn lock(&self, command: &[&str]) -> Contender {
        self.start(&[&["lock", &self.path, "--"], command].concat())
    }

    /// Nothing is left in the line.
    async fn is_empty(&self) -> bool {
        self.observer.children(&self.path).await.is_empty()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_is_not_there_and_one_that_cannot_be_executed() {
    let (_server, scene) = Scene::new().await;
    let ended = scene.lock(&["no-such-command-here"]).ended().await.with(127);
    assert!(ended.err.contains("no-such-command-here"), "{ended:?}");
    scene.lock(&["/etc/passwd"]).ended().await.with(126);
    scene.lock(&["/"]).ended().await.with(126);
    assert!(scene.is_empty().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_of_the_command_is_that_of_zkr() {
    let (_server, scene) = Scene::new().await;
    scene.lock(&["true"]).ended().await.with(0);
    scene.start(&["lock", &scene.path, "sh", "-c", "exit 5"]).ended().await.with(5);
    scene.lock(&["sh", "-c", "exit 7"]).ended().await.with(7);
    scene.lock(&["sh", "-c", "kill -9 $$"]).ended().await.with(128 + 9);
    scene.lock(&["sh", "-c", "kill -TERM $$"]).ended().await.with(128 + 15);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_zkr_inside_another() {
    let (_server, scene) = Scene::new().await;
    let (inner, zkr) = (format!("{}-inner", scene.path), env!("CARGO_BIN_EXE_zkr"));
    let ended = scene.lock(&[zkr, "lock", &inner, "--", "sh", "-c", "echo $ZKR_PATH"]).ended().await.with(0);
    assert_eq!(ended.out.trim(), inner);
    // At the same path it would wait for itself.
    scene.lock(&[zkr, "lock", &scene.path, "--wait", "1s", "--", "true"]).ended().await.with(124);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_reach_the_command_also_through_another_zkr() {
    let (_server, scene) = Scene::new().await;
    let (inner, zkr) = (format!("{}-inner", scene.path), env!("CARGO_BIN_EXE_zkr"));
    let script =
        "trap 'echo first >&2' USR2; trap 'echo second; exit 3' USR1; echo ready >&2; while :; do sleep 0.1; done";
    let mut outer = scene.lock(&[zkr, "lock", &inner, "--", "sh", "-c", script]);
    outer.says("ready").await;
    outer.signal(Signal::SIGUSR2);
    // Two signals that are under way at a time have no order.
    outer.says("first").await;
    outer.signal(Signal::SIGUSR1);
    assert_eq!(outer.ended().await.with(3).out, "second\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nohup_has_started_does_not_end_with_its_terminal() {
    let (_server, scene) = Scene::new().await;
    let zkr = zkr(&scene.connect, &["lock", &scene.path, "--", "sh", "-c", "echo ready >&2; exec sleep 600"]);
    let mut nohup = zkr_like(&zkr, "nohup");
    nohup.arg(zkr.as_std().get_program()).args(zkr.as_std().get_args());
    let mut holder = Contender::start(nohup);
    holder.says("ready").await;
    holder.signal(Signal::SIGHUP);
    holder.signal(Signal::SIGTERM);
    holder.ended().await.with(143);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_waits_ends_at_a_signal_and_leaves_nothing() {
    let (_server, scene) = Scene::new().await;
    let mut holder = scene.lock(&["sh", "-c", "echo ready >&2; exec sleep 600"]);
    holder.says("ready").await;
    let waiting = scene.lock(&["true"]);
    scene.observer.wait_for_children(&scene.path, 2).await;
    waiting.signal(Signal::SIGINT);
    waiting.ended().await.with(130);
    scene.observer.wait_for_children(&scene.path, 1).await;
    holder.signal(Signal::SIGTERM);
    holder.ended().await.with(143);
    assert!(scene.is_empty().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_command_leaves_in_the_background_is_ended_before_the_lock_is_released() {
    let (_server, scene) = Scene::new().await;
    let ended = scene.lock(&["sh", "-c", "sleep 600 & echo $!"]).ended().await.with(0);
    let process = ended.out.trim();
    assert!(!is_alive(process), "{process} is alive");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn input_and_output_are_those_of_the_command_and_a_broken_pipe_is_its_own_matter() {
    let (_server, scene) = Scene::new().await;
    let mut command = zkr(&scene.connect, &["lock", &scene.path, "--", "tr", "a-z", "A-Z"]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("it starts");
    let mut input = child.stdin.take().expect("its input");
    input.write_all(b"hello").await.expect("written");
    drop(input);
    let output = child.wait_with_output().await.expect("it ends");
    assert_eq!(output.stdout, b"HELLO");

    let script = format!("'{}' lock {} -- yes | head -n 1", env!("CARGO_BIN_EXE_zkr"), scene.path);
    let mut shell = tokio::process::Command::new("sh");
    let output = shell.args(["-c", &script]).env("ZKR_CONNECT", &scene.connect).output().await.expect("it ends");
    assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (b"y\n".as_slice(), b"".as_slice()));
    until("it is released", SOON, || async { scene.is_empty().await.then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_server_and_bad_arguments() {
    let nowhere = ["--connect", "127.0.0.1:1", "--connection-timeout", "1s", "lock", "/a", "--", "true"];
    let ended = Contender::start(zkr("", &nowhere)).ended().await.with(122);
    assert!(ended.err.contains("127.0.0.1:1"), "{ended:?}");
    let refused: [(&[&str], &str); 7] = [
        (&["lock", "relative", "--", "true"], "it must be /name"),
        (&["lock", "/a"], "COMMAND"),
        (&["lock", "/a", "--wiat", "1s", "true"], "--wait"),
        (&["lock", "/a", "--permits", "0", "--", "true"], "0"),
        (&["lock", "/a", "--wait", "soon", "--", "true"], "soon"),
        (&["--auth", "nothing", "lock", "/a", "--", "true"], "SCHEME:AUTH"),
        (&["--session-timeout", "0s", "lock", "/a", "--", "true"], "session"),
    ];
    for (arguments, text) in refused {
        let ended = Contender::start(zkr("localhost", arguments)).ended().await.with(125);
        assert!(ended.err.contains(text), "{arguments:?}: {ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_is_stopped_ends_at_a_signal_to_zkr() {
    let (_server, scene) = Scene::new().await;
    let script = "trap 'echo terminated; exit 9' TERM; echo ready >&2; kill -STOP $$; while :; do sleep 0.1; done";
    let mut holder = scene.lock(&["sh", "-c", script]);
    holder.says("ready").await;
    holder.has_stopped().await;
    holder.signal(Signal::SIGTERM);
    assert_eq!(holder.ended().await.with(9).out, "terminated\n");
}

/// When it goes on it is told first that it holds, and hears the signal before it has started the command.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_that_comes_with_the_lock_ends_zkr_as_it_does_otherwise() {
    let (_server, scene) = Scene::new().await;
    let mut holder = scene.lock(&["sh", "-c", "echo ready >&2; exec sleep 600"]);
    holder.says("ready").await;
    let waiting = scene.lock(&["sleep", "600"]);
    scene.observer.wait_for_children(&scene.path, 2).await;
    waiting.signal(Signal::SIGSTOP);
    holder.signal(Signal::SIGTERM);
    holder.ended().await.with(143);
    // Its keeper holds the lock, has set the mark, and waits for it.
    let is_marked = || async { scene.observer.data(&scene.path).await.filter(|data| !data.is_empty()) };
    until("it is marked", SOON, is_marked).await;
    waiting.signal(Signal::SIGTERM);
    waiting.signal(Signal::SIGCONT);
    waiting.ended().await.with(143);
    until("nothing is held", SOON, || async { scene.is_empty().await.then_some(()) }).await;
}

/// A program may block any signal, and those it starts inherit that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_that_were_blocked_at_the_start_are_handled() {
    let (_server, scene) = Scene::new().await;
    let python = "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD, signal.SIGTERM]); \
                  os.execv(sys.argv[1], sys.argv[1:])";
    let start = |command| {
        let zkr = zkr(&scene.connect, &["lock", &scene.path, "--", "sh", "-c", command]);
        let mut python = {
            let mut blocking = zkr_like(&zkr, "python3");
            blocking.args(["-c", python]);
            blocking
        };
        python.arg(zkr.as_std().get_program()).args(zkr.as_std().get_args());
        Contender::start(python)
    };
    start("exit 7").ended().await.with(7);
    let mut holder = start("echo ready >&2; exec sleep 600");
    holder.says("ready").await;
    holder.signal(Signal::SIGTERM);
    holder.ended().await.with(143);
}

/// Another program, with the environment and the streams of `zkr`.
fn zkr_like(zkr: &tokio::process::Command, program: &str) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(program);
    command.envs(zkr.as_std().get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_of_a_barrier_need_not_wait_for_the_others_to_end() {
    let (_server, scene) = Scene::new().await;
    let member = |script| scene.start(&["barrier", &scene.path, "--members", "2", "--", "sh", "-c", script]);
    let mut long = member("echo ready >&2; exec sleep 600");
    let mut short = member("echo started >&2");
    long.says("ready").await;
    short.says("started").await;
    short.command_has_ended().await;
    short.signal(Signal::SIGTERM);
    short.ended().await.with(143);
    long.signal(Signal::SIGTERM);
    long.ended().await.with(143);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_is_asked_to_release_is_told_to_end() {
    let (_server, scene) = Scene::new().await;
    let mut holder = scene.lock(&["sh", "-c", "trap 'exit 6' TERM; echo ready >&2; while :; do sleep 0.1; done"]);
    holder.says("ready").await;
    let node = format!("{}/{}", scene.path, scene.observer.wait_for_children(&scene.path, 1).await[0]);
    let asked = scene.start(&["revoke", &node]).ended().await.with(0);
    assert!(asked.out.contains("is asked to release"), "{asked:?}");
    let ended = holder.ended().await.with(6);
    assert!(ended.err.contains("another client asks for it"), "{ended:?}");
}

/// A shell with job control at a terminal, as `script` offers it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_a_terminal() {
    let (_server, scene) = Scene::new().await;
    let zkr_itself = zkr(&scene.connect, &[]);
    let mut command = zkr_like(&zkr_itself, "script");
    command.args(["-qec", "bash --norc -i", "/dev/null"]).env("TERM", "dumb").stdin(Stdio::piped());
    let mut shell = command.spawn().expect("it starts");
    let (mut keys, mut screen) = (shell.stdin.take().expect("its input"), shell.stdout.take().expect("its output"));
    let mut step = async |typed: &str, shown: &str| {
        keys.write_all(typed.as_bytes()).await.expect("typed");
        let (mut seen, mut more) = (String::new(), [0; 1024]);
        while !seen.contains(shown) {
            let read = timeout(SOON, screen.read(&mut more)).await;
            let read = read.unwrap_or_else(|_| panic!("{shown:?} is not shown after {typed:?}, but {seen:?}"));
            let read = read.expect("it can be read");
            assert!(read > 0, "the shell has ended: {seen:?}");
            seen += &String::from_utf8_lossy(&more[..read]);
        }
        seen
    };
    // What is typed is shown too, so what is waited for is written otherwise there. A signal that meets `dash` while it
    // starts another program is lost on both, so its commands start none: `exec`.
    let lock = format!("{} lock {}", env!("CARGO_BIN_EXE_zkr"), scene.path);
    step(&format!("{lock} -- sh -c 'echo be''gin; read x; echo got-$x'\n"), "begin").await;
    step("one\n", "got-one").await;
    // Ctrl-Z, and the shell has its turn.
    step(&format!("{lock} -- sh -c 'echo be''gin; read x; echo got-$x'\n"), "begin").await;
    step("\x1a", "Stopped").await;
    step("fg\n", "read x").await;
    step("two\n", "got-two").await;
    // In the background it must not read; in the foreground it may.
    step(&format!("{lock} -- sh -c 'read x; echo got-$x' &\n"), "[1]").await;
    let shows = "until jobs | grep -q Stopped; do sleep 0.1; done; echo sto''pped\n";
    step(shows, "stopped").await;
    step("fg\n", "read x").await;
    step("three\n", "got-three").await;
    // Moved to the background, it leaves the terminal to the shell.
    step(&format!("{lock} -- sh -c 'echo be''gin; exec sleep 2'\n"), "begin").await;
    step("\x1a", "Stopped").await;
    step("bg; wait; echo al''ive\n", "alive").await;
    // Ctrl-C ends the command, and a loop around it.
    step(&format!("for i in 1 2; do {lock} -- sh -c 'echo be''gin; exec sleep 600'; done; echo o''ver\n"), "begin")
        .await;
    // The shell may discard what is typed before its prompt.
    assert!(step("\x03", "bash-").await.contains("^C"));
    step("echo still al''ive\n", "still alive").await;
    until("nothing is held", SOON, || async { scene.is_empty().await.then_some(()) }).await;
}
