//! The lines between the lab and its worker.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use tokio::sync::watch;

/// What the lab wants of the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    Idle,
    Hold,
    Quit,
}

/// The latest wish.
pub struct Wishes(watch::Receiver<Wish>);

impl Wishes {
    /// Waits until the lab wants something else than `wish`, and returns that.
    pub async fn other_than(&mut self, wish: Wish) -> Wish {
        *self.0.wait_for(|latest| *latest != wish).await.expect("the reader lives as long as the process")
    }

    pub fn latest(&self) -> Wish {
        *self.0.borrow()
    }
}

/// Reads wishes from the standard input.
pub fn listen() -> Wishes {
    let (sender, receiver) = watch::channel(Wish::Idle);
    tokio::spawn(async move {
        let mut lines = BufReader::new(stdin()).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let wish = match line.as_str() {
                "acquire" => Wish::Hold,
                "release" => Wish::Idle,
                _ => break,
            };
            sender.send_replace(wish);
        }
        sender.send_replace(Wish::Quit);
        // The receivers must not see this end.
        std::future::pending::<()>().await;
    });
    Wishes(receiver)
}

/// Writes a line that has the time.
pub fn say(what: &str, text: impl Display) {
    println!("{what} {} {text}", now());
}

/// CLOCK_MONOTONIC in microseconds.
fn now() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1000
}

/// A thread that asks every millisecond whether something is held.
pub struct Asked {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<i64>,
}

impl Asked {
    pub fn whether(held: impl Fn() -> bool + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut latest = now();
            while !stopped.load(Relaxed) {
                if held() {
                    latest = now();
                }
                thread::sleep(Duration::from_millis(1));
            }
            latest
        });
        Asked { stop, thread }
    }

    /// Tells the lab of the last time that the answer was yes.
    pub fn end(self) {
        self.stop.store(true, Relaxed);
        println!("yes {}", self.thread.join().expect("a thread without panics"));
    }
}

/// Tells the lab of a session.
pub fn session(id: i64) {
    println!("session {id:x}");
}
