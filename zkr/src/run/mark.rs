//! The mark of a command that may still run, in the data of the lock's directory.
//!
//! The lease of a lock covers a session that ends because its process cannot be heard. It does not cover one that an
//! administrator ends, or a node that is deleted by hand: the lock is free at once, and the command, which has been
//! told to end, still runs. So each holder writes a mark before its command starts and removes it when the command is
//! over; and one that finds a mark waits for that, for a session timeout of the former holder at most. By then the
//! former command has ended, or its keeper has killed it by the clock.
//!
//! Only `zkr` looks at marks. Curator leaves the data of a lock's directory alone.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::sleep;
use zookeeper_recipes::{Client, Error, ErrorKind};

use super::lease_file::Moment;

/// How often a mark of another one is looked at.
const INTERVAL: Duration = Duration::from_millis(50);

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Data {
    /// The fencing token of the holder.
    zkr_runs_for: i64,
    /// After how long at most its command is over, in milliseconds after it has lost the lock.
    over_within_ms: u64,
}

/// What a node has as its data.
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
    /// Waits until the command of a former holder is over, and marks that one of this holder may run. Returns `None`
    /// where marks cannot be written: the node has other data, or this client may not write it.
    ///
    /// `waiting` is called when there is something to wait for, with the time that it takes at most.
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
        let mut told = false;
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
                    Err(error) if may_be_repeated(&error) => {}
                    Err(error) => return Err(error),
                },
            }
        }
    }

    /// Removes the mark, unless another holder has replaced it.
    pub async fn remove(self, client: &Client, path: &str) -> Result<(), Error> {
        loop {
            match client.set(path, "", Some(self.version)).await {
                // With a lost answer, it is removed now or it was before.
                Err(error) if error.kind() == ErrorKind::OutcomeUnknown => {}
                Err(error) if matches!(error.kind(), ErrorKind::BadVersion | ErrorKind::NoNode) => return Ok(()),
                Err(error) => return Err(error),
                Ok(_) => return Ok(()),
            }
        }
    }
}

/// Whether another look tells what to do: another one has written, or the answer was lost.
fn may_be_repeated(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::BadVersion | ErrorKind::OutcomeUnknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_found() {
        let own = Data { zkr_runs_for: 77, over_within_ms: 10_000 };
        let data = serde_json::to_vec(&own).expect("JSON");
        assert_eq!(data, br#"{"zkr_runs_for":77,"over_within_ms":10000}"#);
        assert_eq!(Found::of(&data), Found::Mark(own));
    }

    #[test]
    fn other_data_is_left_alone() {
        assert_eq!(Found::of(b""), Found::Nothing);
        for data in [b"10.0.0.1".as_slice(), b"{}", b"\xff", b"7"] {
            assert_eq!(Found::of(data), Found::Other);
        }
    }
}
