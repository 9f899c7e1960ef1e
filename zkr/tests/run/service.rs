//! A command that is registered as an instance of a service.

use nix::sys::signal::{Signal, kill};
use serde_json::Value;

use crate::contender::{Contender, Ended, SOON, zkr};
use crate::support::{Observer, ZooKeeper, unique_path, until};

/// A server, and services of the test's own.
struct Scene {
    server: std::sync::Arc<ZooKeeper>,
    observer: Observer,
    path: String,
    directory: tempfile::TempDir,
}

impl Scene {
    async fn new() -> Scene {
        Scene::at(ZooKeeper::shared().await).await
    }

    async fn at(server: std::sync::Arc<ZooKeeper>) -> Scene {
        let observer = Observer::connect(&server.connect_string()).await;
        let directory = tempfile::TempDir::new().expect("a directory");
        Scene { server, observer, path: unique_path("zkr-service"), directory }
    }

    /// Starts a command as the instance 1 of `web`.
    fn register(&self, options: &[&str], command: &[&str]) -> Contender {
        let whole = ["service", "register", "web", "--path", &self.path, "--id", "1", "--port", "80"];
        Contender::start(zkr(&self.server.connect_string(), &[&whole, options, &["--"], command].concat()))
    }

    /// The path of a file of the test's own.
    fn file(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().expect("it is text").to_owned()
    }

    fn node(&self) -> String {
        format!("{}/web/1", self.path)
    }

    async fn instance(&self) -> Option<Value> {
        self.observer.data(&self.node()).await.map(|data| serde_json::from_slice(&data).expect("it is JSON"))
    }

    async fn registered(&self) -> Value {
        until("it is registered", SOON, || self.instance()).await
    }

    async fn disabled(&self) {
        let is_disabled = || async { self.instance().await.filter(|instance| instance["enabled"] == false) };
        until("it is disabled", SOON, is_disabled).await;
    }

    async fn is_registered(&self) -> bool {
        self.observer.exists(&self.node()).await
    }
}

/// Waits until a file is there, and returns it.
async fn written(file: &str) -> String {
    until("a file is written", SOON, || async {
        std::fs::read_to_string(file).ok().filter(|text| text.ends_with('\n'))
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_is_registered_while_it_runs_and_its_status_is_that_of_zkr() {
    let scene = Scene::new().await;
    let go = scene.file("go");
    let script = format!("until [ -e {go} ]; do sleep 0.05; done; exit 7");
    let all = ["--address", "10.0.0.1", "--ssl-port", "443", "--payload", r#"{"zone":"a"}"#, "--payload-class", "Z"];
    let mut running =
        scene.register(&[&all[..], &["--uri-spec", "{scheme}://{address}"]].concat(), &["sh", "-c", &script]);
    let instance = scene.registered().await;
    running.says(&format!("zkr: {}: registered\n", scene.node())).await;
    assert_eq!(
        (&instance["name"], &instance["id"], &instance["address"]),
        (&"web".into(), &"1".into(), &"10.0.0.1".into())
    );
    assert_eq!((&instance["port"], &instance["sslPort"]), (&80.into(), &443.into()));
    assert_eq!(instance["payload"], serde_json::json!({ "@class": "Z", "zone": "a" }));
    assert_eq!((&instance["serviceType"], &instance["enabled"]), (&"DYNAMIC".into(), &Value::Null));
    std::fs::write(&go, "").expect("written");
    running.ended().await.with(7);
    assert!(!scene.is_registered().await, "it is unregistered before zkr ends");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_is_killed_is_unregistered() {
    let scene = Scene::new().await;
    let pid = scene.file("pid");
    let running = scene.register(&[], &["sh", "-c", &format!("echo $$ >{pid}; exec sleep 600")]);
    scene.registered().await;
    let process = written(&pid).await.trim().parse().expect("a number");
    kill(nix::unistd::Pid::from_raw(process), Signal::SIGKILL).expect("it is killed");
    running.ended().await.with(128 + 9);
    assert!(!scene.is_registered().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_registered_once_its_port_accepts_connections() {
    let scene = Scene::new().await;
    let [port, go] = ["port", "go"].map(|name| scene.file(name));
    // It binds a port, and listens later.
    let python = "import os, socket, sys, time\n\
                  server = socket.socket(); server.bind(('127.0.0.1', int(sys.argv[3])))\n\
                  open(sys.argv[1], 'w').write('bound\\n')\n\
                  while not os.path.exists(sys.argv[2]): time.sleep(0.02)\n\
                  server.listen(8); time.sleep(600)";
    let free = crate::support::container::free_port().to_string();
    let health = format!("127.0.0.1:{free}");
    let running =
        scene.register(&["--health-port", &health, "--drain", "0s"], &["python3", "-c", python, &port, &go, &free]);
    written(&port).await;
    assert!(!scene.is_registered().await, "nothing listens yet");
    std::fs::write(&go, "").expect("written");
    scene.registered().await;
    running.signal(Signal::SIGTERM);
    running.ended().await.with(143);
    assert!(!scene.is_registered().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_registered_once_its_health_command_succeeds() {
    let scene = Scene::new().await;
    let (log, go) = (scene.file("log"), scene.file("go"));
    let health = format!("echo tried >>{log}; test -e {go}");
    let running = scene.register(&["--health-command", &health, "--drain", "0s"], &["sleep", "600"]);
    until("it was tried twice", SOON, || async {
        std::fs::read_to_string(&log).ok().filter(|log| log.lines().count() >= 2)
    })
    .await;
    assert!(!scene.is_registered().await, "it has failed twice");
    std::fs::write(&go, "").expect("written");
    scene.registered().await;
    running.signal(Signal::SIGINT);
    running.ended().await.with(130);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_is_not_healthy_in_time_is_ended() {
    let scene = Scene::new().await;
    let options = ["--health-command", "exit 3", "--health-timeout", "500ms"];
    let terminated =
        scene.register(&options, &["sh", "-c", "trap 'echo terminated; exit 0' TERM; while :; do sleep 0.05; done"]);
    let Ended { out, err, .. } = terminated.ended().await.with(124);
    assert_eq!(out, "terminated\n");
    assert!(err.ends_with("zkr: not healthy within 500ms: \"exit 3\": exit status: 3\n"), "{err}");
    let grace = [&options[..], &["--grace", "100ms"]].concat();
    scene.register(&grace, &["sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"]).ended().await.with(124);
    // One that ends before has its own status.
    scene.register(&["--health-command", "exit 3"], &["sh", "-c", "exit 5"]).ended().await.with(5);
    assert!(!scene.is_registered().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_drained_before_the_command_gets_the_signal() {
    let scene = Scene::new().await;
    let log = scene.file("log");
    let script = "trap '$1 get $2 >>$0; echo >>$0; exit 4' TERM; echo ready >>$0; while :; do sleep 0.05; done";
    let command = ["sh", "-c", script, &log, env!("CARGO_BIN_EXE_zkr"), &scene.node()];
    for second in [None, Some(Signal::SIGTERM), Some(Signal::SIGINT)] {
        let drain = if second.is_some() { "1h" } else { "100ms" };
        let mut running = scene.register(&["--drain", drain], &command);
        running.says("registered\n").await;
        written(&log).await;
        running.signal(Signal::SIGTERM);
        if let Some(second) = second {
            scene.disabled().await;
            assert_eq!(written(&log).await, "ready\n", "the command has not got the first");
            running.signal(second);
        }
        running.ended().await.with(4);
        let log_then = written(&log).await;
        assert!(log_then.starts_with("ready\n{") && log_then.ends_with("\"enabled\":false}\n"), "{log_then}");
        assert!(!scene.is_registered().await);
        std::fs::remove_file(&log).expect("removed");
    }
}

/// To read the configuration again is no end: not while it is drained, and not before it is registered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_that_asks_for_no_end_is_passed_on_at_once() {
    let scene = Scene::new().await;
    let (log, go) = (scene.file("log"), scene.file("go"));
    let script = "trap 'echo hup >>$0' HUP; trap 'exit 4' TERM; echo ready >>$0; while :; do sleep 0.05; done";
    let health = format!("test -e {go}");
    let options = ["--health-command", &health, "--drain", "1h"];
    let mut running = scene.register(&options, &["sh", "-c", script, &log]);
    let is = async |expected: &str| {
        let read = || async { std::fs::read_to_string(&log).ok().filter(|log| log == expected) };
        until("the command has it", SOON, read).await;
    };
    is("ready\n").await;
    running.signal(Signal::SIGHUP);
    is("ready\nhup\n").await;
    std::fs::write(&go, "").expect("written");
    running.says("registered\n").await;
    running.signal(Signal::SIGTERM);
    scene.disabled().await;
    running.signal(Signal::SIGHUP);
    is("ready\nhup\nhup\n").await;
    running.signal(Signal::SIGTERM);
    running.ended().await.with(4);
    assert!(!scene.is_registered().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_the_command_ends_the_wait() {
    let scene = Scene::new().await;
    let go = scene.file("go");
    let script = format!("until [ -e {go} ]; do sleep 0.05; done; exit 6");
    let mut running = scene.register(&["--drain", "1h"], &["sh", "-c", &script]);
    running.says("registered\n").await;
    running.signal(Signal::SIGTERM);
    scene.disabled().await;
    std::fs::write(&go, "").expect("written");
    running.ended().await.with(6);
    assert!(!scene.is_registered().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_that_another_session_has_is_waited_for_or_refused() {
    let scene = Scene::new().await;
    scene.observer.create_all(&format!("{}/web", scene.path)).await;
    scene.observer.create_ephemeral(&scene.node(), b"x").await;
    let ended = scene.register(&[], &["sleep", "600"]).ended().await.with(125);
    assert!(ended.err.contains("has registered this id") && ended.err.contains("--wait"), "{ended:?}");
    let mut waiting = scene.register(&["--wait"], &["sleep", "600"]);
    waiting.says("waiting for its end").await;
    scene.observer.delete(&scene.node()).await;
    waiting.says("registered\n").await;
    waiting.signal(Signal::SIGTERM);
    scene.disabled().await;
    waiting.signal(Signal::SIGTERM);
    waiting.ended().await.with(143);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_runs_on_without_a_server_and_is_registered_when_there_is_one() {
    let scene = Scene::at(std::sync::Arc::new(ZooKeeper::start().await)).await;
    let mut running = scene.register(&["--drain", "0s"], &["sleep", "600"]);
    running.says("registered\n").await;
    scene.server.kill().await;
    running.says("no connection to the servers; the command runs on").await;
    let mut late = Contender::start(zkr(
        &scene.server.connect_string(),
        &[
            "service",
            "register",
            "late",
            "--path",
            &scene.path,
            "--port",
            "81",
            "--connection-timeout",
            "500ms",
            "sleep",
            "600",
        ],
    ));
    late.says("is registered once a server can be reached").await;
    scene.server.start_again().await;
    running.says("registered\n").await;
    late.says("registered\n").await;
    for (running, status) in [(running, 143), (late, 143)] {
        running.signal(Signal::SIGTERM);
        running.signal(Signal::SIGTERM);
        running.ended().await.with(status);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_started_with_a_bad_option() {
    let scene = Scene::new().await;
    let started = scene.file("started");
    let refused: [(&[&str], &str); 6] = [
        (&["web"], "--port"),
        (&["web", "--port", "0"], "1..=65535"),
        (&["web", "--port", "80", "--id", "a/b"], "the name of a node"),
        (&["a/b", "--port", "80"], "the name of a node"),
        (&["web", "--port", "80", "--payload", "{"], "JSON"),
        (&["web", "--port", "80", "--session-timeout", "0s"], "session"),
    ];
    for (options, why) in refused {
        let whole = [&["service", "register"], options, &["--", "touch", &started]].concat();
        let ended = Contender::start(zkr(&scene.server.connect_string(), &whole)).ended().await.with(125);
        assert!(ended.err.contains(why), "{options:?}: {ended:?}");
    }
    assert!(!std::path::Path::new(&started).exists());
    let ended = scene.register(&[], &["no-such-command-here"]).ended().await.with(127);
    assert!(ended.err.contains("no-such-command-here"), "{ended:?}");
}
