//! Inspecting lines and trees, and looking for deadlocks.

use tokio::task::JoinHandle;
use zookeeper_recipes::inspect::{self, Line, Recipe};
use zookeeper_recipes::mutex::{InterProcessMutex, MutexGuard};
use zookeeper_recipes::{Client, Error};

use crate::harness::{Run, cases};

cases! {
    line: "inspect::line", at least 20 drops, 10 faults;
    lines: "inspect::lines", at least 20 drops, 10 faults;
    deadlocks: "inspect::deadlocks", at least 20 drops, 10 faults;
    tree: "inspect::tree", at least 20 drops, 10 faults;
}

const DIR: &str = "/locks";
const PATHS: [&str; 2] = ["/locks/a", "/locks/b"];

/// Two sessions, each of which holds a lock and waits for the other one's.
struct Planted {
    operator: Client,
    held: Vec<MutexGuard>,
    waiting: Vec<JoinHandle<()>>,
    /// The watches of these two sessions.
    watches: usize,
}

fn mutex(client: &Client, path: &str) -> InterProcessMutex {
    InterProcessMutex::new(client, path).expect("a good path")
}

async fn planted(run: &mut Run) -> Planted {
    for path in [DIR].into_iter().chain(PATHS) {
        run.directory(path);
    }
    let operator = run.client().await;
    let clients = [run.other_client().await, run.other_client().await];
    let (mut held, mut waiting) = (Vec::new(), Vec::new());
    for (client, path) in clients.iter().zip(PATHS) {
        held.push(mutex(client, path).acquire().await.expect("it is free"));
    }
    for (client, path) in clients.iter().zip(PATHS.into_iter().rev()) {
        let mutex = mutex(client, path);
        waiting.push(tokio::spawn(async move { drop(mutex.acquire().await) }));
    }
    run.in_the_end("both wait", || PATHS.iter().all(|path| run.server().children(path).len() == 2)).await;
    let watches = run.settled_watches().await;
    Planted { operator, held, waiting, watches }
}

/// Checks what an inspection has found, if it has finished.
fn sees<T>(looked: Option<Result<T, Error>>, sees: impl Fn(T) -> bool) {
    if let Some(looked) = looked {
        assert!(sees(looked.expect("a read is repeated")), "all is seen");
    }
}

fn is_whole(line: &Line) -> bool {
    (line.holders().count(), line.waiting().count()) == (1, 1)
}

/// Checks that the inspection leaves nothing, that another one sees the deadlock, and that both sessions can leave.
async fn works(run: &Run, planted: Planted) {
    let Planted { operator, held, waiting, watches } = planted;
    run.only_watches_of_others_are_left(watches).await;
    run.is_silent_if_calm().await;
    let found = inspect::deadlocks(&operator, DIR).await.expect("another look");
    assert_eq!((found.found.len(), found.denied.len()), (1, 0), "{found}");
    assert!(held.iter().all(MutexGuard::is_held));
    waiting.iter().for_each(JoinHandle::abort);
    drop(held);
    run.in_the_end("they leave", || PATHS.iter().all(|path| run.server().children(path).is_empty())).await;
}

async fn line(run: &mut Run) {
    let planted = planted(run).await;
    sees(run.cut(inspect::line(&planted.operator, PATHS[0])).await.done(), |line| is_whole(&line));
    works(run, planted).await;
}

async fn lines(run: &mut Run) {
    let planted = planted(run).await;
    sees(run.cut(inspect::lines(&planted.operator, DIR)).await.done(), |found| {
        found.lines.len() == PATHS.len() && found.lines.iter().all(is_whole)
    });
    works(run, planted).await;
}

async fn deadlocks(run: &mut Run) {
    let planted = planted(run).await;
    sees(run.cut(inspect::deadlocks(&planted.operator, DIR)).await.done(), |found| found.found.len() == 1);
    works(run, planted).await;
}

async fn tree(run: &mut Run) {
    let planted = planted(run).await;
    let is_line = |recipe: &Recipe| matches!(recipe, Recipe::Line(line) if is_whole(line));
    sees(run.cut(inspect::tree(&planted.operator, DIR)).await.done(), |found| {
        found.nodes.len() == 1 + PATHS.len() && found.nodes[1..].iter().all(|node| node.recipes.iter().all(is_line))
    });
    works(run, planted).await;
}
