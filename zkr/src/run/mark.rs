//! The mark of a command that may still run, in the data of the lock's directory.
//!
//! The lease of a lock covers a session that ends because the servers do not hear from its process. It does not cover a
//! session that an administrator ends, or a node that is deleted by hand: the lock is free at once, and the command,
//! which has been told to end, still runs. So each holder writes a mark before its command starts, and removes it when
//! the command is over. A holder that finds a mark waits until it is removed, at most for a session timeout of the
//! former holder. By then the former command has ended, or its keeper has killed it by the clock.
//!
//! Only `zkr` looks at marks. Curator leaves the data of a lock's directory alone.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::sleep;
use zookeeper_recipes::{Client, Error, ErrorKind};

use super::lease_file::Moment;

/// How often another holder's mark is checked, and how long a write waits after one without a known outcome.
const INTERVAL: Duration = Duration::from_millis(50);
/// After how many writes without a known outcome a call fails.
const ATTEMPTS: u32 = 5;

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Data {
    /// The fencing token of the holder.
    zkr_runs_for: i64,
    /// Within how many milliseconds after the loss of the lock the holder's command is over.
    over_within_ms: u64,
}

/// What the data of a node is.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    Mark(Data),
    /// Data of another program, which is left alone.
    Other,
}

/// A mark that this process has written.
#[derive(Debug)]
pub struct Mark {
    version: i32,
}

impl Found {
    fn of(data: &[u8]) -> Found {
        match serde_json::from_slice(data) {
            Ok(mark) => Found::Mark(mark),
            Err(_) if data.is_empty() => Found::Nothing,
            Err(_) => Found::Other,
        }
    }
}

impl Mark {
    /// Waits until the command of a former holder is over, and marks that a command of this holder may run. Returns
    /// `None` if marks cannot be written: the node has other data, or this client may not write it.
    ///
    /// Calls `waiting` if there is something to wait for, with the longest time that this can take.
    pub async fn set(
        client: &Client,
        path: &str,
        token: i64,
        timeout: Duration,
        waiting: impl Fn(Duration),
    ) -> Result<Option<Mark>, Error> {
        let over_within_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let own = Data { zkr_runs_for: token, over_within_ms };
        let data = serde_json::to_vec(&own).unwrap_or_default();
        let held_since = Moment::now();
        let (mut told, mut unknown) = (false, Attempts::default());
        loop {
            let (found, stat) = client.get(path).await?;
            match Found::of(&found) {
                Found::Other => return Ok(None),
                // The answer to the write was lost.
                Found::Mark(mark) if mark == own => return Ok(Some(Mark { version: stat.version })),
                Found::Mark(Data { over_within_ms, .. })
                    if Moment::now() < held_since.after(Duration::from_millis(over_within_ms)) =>
                {
                    if !std::mem::replace(&mut told, true) {
                        waiting(Duration::from_millis(over_within_ms));
                    }
                    sleep(INTERVAL).await;
                }
                Found::Nothing | Found::Mark(_) => match client.set(path, &data, Some(stat.version)).await {
                    Ok(stat) => return Ok(Some(Mark { version: stat.version })),
                    Err(error) if error.kind() == ErrorKind::NoAuth => return Ok(None),
                    // Another client has written.
                    Err(error) if error.kind() == ErrorKind::BadVersion => {}
                    Err(error) => unknown.pause_after(error).await?,
                },
            }
        }
    }

    /// Removes the mark, unless another holder has replaced it.
    pub async fn remove(self, client: &Client, path: &str) -> Result<(), Error> {
        let mut unknown = Attempts::default();
        loop {
            match client.set(path, "", Some(self.version)).await {
                // It was removed before, by a write whose answer was lost.
                Err(error) if matches!(error.kind(), ErrorKind::BadVersion | ErrorKind::NoNode) => return Ok(()),
                Err(error) => unknown.pause_after(error).await?,
                Ok(_) => return Ok(()),
            }
        }
    }
}

/// The writes of one call that had no known outcome.
#[derive(Debug, Default)]
struct Attempts(u32);

impl Attempts {
    /// Waits before the next attempt. Returns the error of a write that was refused, or that was the last attempt.
    async fn pause_after(&mut self, error: Error) -> Result<(), Error> {
        self.0 += 1;
        if error.kind() != ErrorKind::OutcomeUnknown || self.0 == ATTEMPTS {
            return Err(error);
        }
        sleep(INTERVAL).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use zookeeper_recipes::CreateMode;
    use zookeeper_recipes::testing::{Loss, Operation, TestingServer};

    use super::*;

    #[test]
    fn what_is_written_is_found() {
        let own = Data { zkr_runs_for: 77, over_within_ms: 10_000 };
        let data = serde_json::to_vec(&own).expect("JSON");
        assert_eq!(data, br#"{"zkr_runs_for":77,"over_within_ms":10000}"#);
        assert_eq!(Found::of(&data), Found::Mark(own));
    }

    #[tokio::test(start_paused = true)]
    async fn a_mark_whose_write_has_no_known_outcome_each_time_is_an_error() {
        let timeout = Duration::from_secs(10);
        for (lost, outcome) in [(ATTEMPTS - 1, None), (ATTEMPTS, Some(ErrorKind::OutcomeUnknown))] {
            let server = TestingServer::start();
            let client = server.client().await.expect("a client");
            client.create("/lock", "", CreateMode::Persistent).await.expect("created");
            let lose = || (0..lost).for_each(|_| server.lose_next_reply(&client, Operation::SetData, Loss::NotApplied));
            lose();
            let set = Mark::set(&client, "/lock", 7, timeout, |_| {}).await;
            assert_eq!(set.as_ref().err().map(Error::kind), outcome);
            let Ok(mark) = set else { continue };
            lose();
            mark.expect("it may be written").remove(&client, "/lock").await.expect("removed");
            assert_eq!(server.get("/lock").as_deref(), Some(&b""[..]));
        }
    }

    #[test]
    fn other_data_is_left_alone() {
        assert_eq!(Found::of(b""), Found::Nothing);
        for data in [b"10.0.0.1".as_slice(), b"{}", b"\xff", b"7"] {
            assert_eq!(Found::of(data), Found::Other);
        }
    }
}
