//! What is logged during a test.

use std::io;
use std::sync::{Arc, LazyLock, Mutex};

use tracing::Dispatch;
use tracing::subscriber::NoSubscriber;
use tracing_subscriber::filter::LevelFilter;

/// Subscribes to nothing. While a process has a single subscriber, tracing asks only the thread that comes to a log statement first,
/// and believes for all threads that nothing is logged there if that one has none.
static OTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::default()));

/// The lines logged so far.
#[derive(Debug, Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// An empty log, and the subscriber that writes to it what is logged at `level` or above.
    pub fn new(level: LevelFilter) -> (Log, Dispatch) {
        LazyLock::force(&OTHER);
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_max_level(level).with_ansi(false).without_time();
        (log, Dispatch::new(subscriber.with_writer(move || writer.clone()).finish()))
    }

    /// The lines that contain `part`.
    pub fn lines(&self, part: &str) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().expect("no panic").clone()).expect("text");
        text.lines().filter(|line| line.contains(part)).map(str::to_owned).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
