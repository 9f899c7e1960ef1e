//! The number of permits: fixed, or read from a node.

use std::sync::Arc;

use futures::future::{FutureExt, OptionFuture, TryFutureExt, join};

use crate::client::core::Core;
use crate::client::session::Session;
use crate::client::{Error, ErrorKind};
use crate::engine::{self, Reply, Watch};
use crate::util::wait::fired;
use crate::util::znode::Stat;

/// Where the number of permits comes from.
#[derive(Debug, Clone)]
pub(super) enum Permits {
    Fixed(u32),
    /// The node at this path on the server has it, in the format of Curator's `SharedCount`.
    From(Arc<str>),
}

/// What a look at the leases has shown.
#[derive(Debug)]
pub(super) struct Look {
    /// The names of all leases.
    pub(super) leases: Vec<String>,
    /// The number of permits in force. A negative number means none.
    permits: i64,
}

impl Look {
    /// Returns whether there are permits for all leases and `more`.
    pub(super) fn has_room_for(&self, more: usize) -> bool {
        i64::try_from(self.leases.len() + more).is_ok_and(|all| all <= self.permits)
    }
}

/// The watches of a caller that waits until a look would show something else. They are one-shot: an event uses one up.
#[derive(Debug, Default)]
pub(super) struct Watches {
    leases: Option<Watch>,
    permits: Option<Watch>,
}

impl Watches {
    /// Resolves when the leases or the number of permits have changed.
    pub(super) async fn changed(&mut self) {
        tokio::select! {
            biased;
            _ = fired(&mut self.leases) => self.leases = None,
            _ = fired(&mut self.permits) => self.permits = None,
        }
    }
}

/// Reads the leases and the number of permits in one flight. Arms those of `watches` that are not armed. Returns `None`
/// if the request failed because of the connection.
///
/// The list comes first, then the number, on one connection. So for each admitted caller there was a moment during its
/// call, not before its list, at which all admitted callers, including it, were within the number in force. That is the
/// moment at which it read the number; or, if others with later lists have been admitted by then, the moment at which
/// the last of those read it, as that one has counted all. If the number is lowered in between, it is exceeded by no
/// more than that. Both answers are at least as new as the leases that this session created before.
pub(super) async fn look(
    core: &Core,
    session: &Arc<Session>,
    dir: &str,
    permits: &Permits,
    watches: Option<&mut Watches>,
) -> Result<Option<Look>, Error> {
    let (arms, arms_permits) = match &watches {
        Some(watches) => (watches.leases.is_none(), watches.permits.is_none()),
        None => (false, false),
    };
    let (listed, read) = session.together(|| {
        let listed = list(session, dir, arms);
        let read = match permits {
            Permits::Fixed(_) => None,
            Permits::From(path) => Some(read(session, path, arms_permits)),
        };
        (listed, read)
    });
    let (listed, read) = join(listed, OptionFuture::from(read)).await;
    let (leases, watch) = match listed {
        Ok(listed) => listed,
        // No participant has created a lease yet.
        Err(engine::Error::NoNode) => (Vec::new(), None),
        Err(error) if error.is_transient() => return Ok(None),
        Err(error) => return Err(Error::from_engine("count the leases at", dir, error)),
    };
    let (permits, permits_watch) = match (permits, read) {
        (Permits::From(path), Some(read)) => {
            let path = core.config.namespace.strip(path);
            match read {
                Ok((data, watch)) => (number(path, &data)?, watch),
                Err(error) if error.is_transient() => return Ok(None),
                Err(engine::Error::NoNode) => {
                    let why = "there is no such node; create it with the number of permits, as SharedCount does";
                    return Err(Error::at(ErrorKind::NoNode, READS, path, why));
                }
                Err(error) => return Err(Error::from_engine(READS, path, error)),
            }
        }
        (Permits::Fixed(permits), _) => (i64::from(*permits), None),
        (Permits::From(_), None) => return Ok(None),
    };
    if let Some(watches) = watches {
        watches.leases = watches.leases.take().or(watch);
        watches.permits = watches.permits.take().or(permits_watch);
    }
    Ok(Some(Look { leases, permits }))
}

const READS: &str = "read the number of permits from";

fn list(session: &Session, dir: &str, arms: bool) -> Reply<(Vec<String>, Option<Watch>)> {
    if arms {
        session.watch_children(dir).map_ok(|(names, _, watch): (_, Stat, _)| (names, Some(watch))).boxed()
    } else {
        session.list_children(dir).map_ok(|(names, _)| (names, None)).boxed()
    }
}

fn read(session: &Session, path: &str, arms: bool) -> Reply<(Vec<u8>, Option<Watch>)> {
    if arms {
        session.watch_data(path).map_ok(|(data, _, watch)| (data, Some(watch))).boxed()
    } else {
        session.get_data(path).map_ok(|(data, _)| (data, None)).boxed()
    }
}

/// Returns the number that Curator's `SharedCount` has written: four bytes, the most significant first.
fn number(path: &str, data: &[u8]) -> Result<i64, Error> {
    let bytes: [u8; 4] = data.try_into().map_err(|_| {
        let why = format!(
            "its data has {} bytes; a count has four bytes, as Curator's SharedCount writes it, the most significant \
             first",
            data.len()
        );
        Error::at(ErrorKind::Other, READS, path, why)
    })?;
    Ok(i64::from(i32::from_be_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_four_bytes_the_most_significant_first() {
        assert_eq!(number("/count", &[0, 0, 0, 7]).expect("a count"), 7);
        assert_eq!(number("/count", &[0xff, 0xff, 0xff, 0xff]).expect("a count"), -1);
        assert_eq!(number("/count", &[0x7f, 0xff, 0xff, 0xff]).expect("a count"), i64::from(i32::MAX));
        for data in [&b""[..], b"7", b"abc", b"abcde", &[0; 8]] {
            let error = number("/count", data).expect_err("not a count");
            assert!(error.to_string().contains(&format!("{} bytes", data.len())), "{error}");
        }
    }

    #[test]
    fn there_is_room_up_to_the_number_in_force_and_none_below_one() {
        let look = |leases: usize, permits| Look { leases: vec![String::new(); leases], permits };
        assert!(look(2, 3).has_room_for(1));
        assert!(!look(3, 3).has_room_for(1));
        assert!(look(3, 3).has_room_for(0));
        assert!(!look(1, 0).has_room_for(0) && !look(0, -1).has_room_for(0));
    }
}
