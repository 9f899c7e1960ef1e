//! The data of the node, and how a call changes it.

use std::sync::Arc;

use super::error::Error;

/// A number is eight bytes, big-endian.
const BYTES: usize = size_of::<i64>();

/// Converts a number to the data of the node.
pub(super) fn encode(number: i64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// Converts the data of the node to its number. `None` if it is empty, which counts as if there were no node. Further
/// bytes are ignored, as in Curator.
pub(super) fn decode(path: &Arc<str>, data: &[u8]) -> Result<Option<i64>, Error> {
    match data.first_chunk::<BYTES>() {
        Some(bytes) => Ok(Some(i64::from_be_bytes(*bytes))),
        None if data.is_empty() => Ok(None),
        None => Err(Error::Corrupted { path: Arc::clone(path), bytes: data.to_vec() }),
    }
}

/// A change of the number.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change {
    Add(i64),
    Swap {
        expected: i64,
        new: i64,
    },
    Initialize(i64),
    /// Unconditional.
    Set(i64),
}

impl Change {
    /// Returns the number to write in place of `current`, or `None` if there is nothing to write. Fails if the sum
    /// overflows.
    pub(super) fn of(self, path: &Arc<str>, current: Option<i64>) -> Result<Option<i64>, Error> {
        match self {
            Change::Add(delta) => {
                let before = current.unwrap_or(0);
                let overflow = || Error::Overflow { path: Arc::clone(path), before, delta };
                before.checked_add(delta).map(Some).ok_or_else(overflow)
            }
            Change::Swap { expected, new } => Ok((current == Some(expected)).then_some(new)),
            Change::Initialize(new) => Ok(current.is_none().then_some(new)),
            Change::Set(new) => Ok(Some(new)),
        }
    }

    /// Returns the name of the operation, for errors.
    pub(super) fn verb(self) -> &'static str {
        match self {
            Change::Add(_) => "add to",
            Change::Swap { .. } => "compare and set",
            Change::Initialize(_) => "initialize",
            Change::Set(_) => "set",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_javas() {
        let path: Arc<str> = "/n".into();
        for (number, bytes) in [
            (0, [0; 8]),
            (1, [0, 0, 0, 0, 0, 0, 0, 1]),
            (-2, [255, 255, 255, 255, 255, 255, 255, 254]),
            (i64::MIN, [128, 0, 0, 0, 0, 0, 0, 0]),
        ] {
            assert_eq!(encode(number), bytes);
            assert_eq!(decode(&path, &bytes), Ok(Some(number)));
        }
        assert_eq!(decode(&path, b""), Ok(None));
        assert_eq!(decode(&path, &[0, 0, 0, 0, 0, 0, 0, 7, 9, 9]), Ok(Some(7)), "further bytes are ignored");
        for short in 1..8 {
            assert!(matches!(decode(&path, &vec![0; short]), Err(Error::Corrupted { .. })), "{short}");
        }
    }

    #[test]
    fn a_sum_that_does_not_fit_is_an_error() {
        let path: Arc<str> = "/n".into();
        assert_eq!(Change::Add(-1).of(&path, Some(i64::MIN + 1)), Ok(Some(i64::MIN)));
        let error = Change::Add(1).of(&path, Some(i64::MAX)).expect_err("too much");
        assert_eq!(error, Error::Overflow { path, before: i64::MAX, delta: 1 });
    }
}
