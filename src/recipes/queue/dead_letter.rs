//! Dead letters: items that could not be handled, with the reason. A node holds a few lines of text, an empty line, and
//! the unchanged bytes of the item.

use futures::stream::{StreamExt, TryStreamExt};

use super::envelope;
use super::error::Error;
use super::transaction::{Refused, Transaction};
use crate::client::core::Core;
use crate::client::{self, ErrorKind};
use crate::engine::{self, Op};
use crate::layout::queue::{self, Key, Paths};
use crate::util::panic::caught;
use crate::util::path::join;
use crate::util::serializer::Serializer;
use crate::util::znode::CreateMode;

/// A reason is meant to be read by people; a longer one is truncated.
const MOST_REASON_BYTES: usize = 2_000;
/// How many letters are read concurrently.
const AT_ONCE: usize = 16;
const END_OF_HEAD: &[u8] = b"\n\n";

/// The steps of a retry, as a refusal names them.
const DELETE_LETTER: usize = 0;
const CREATE_ITEM: usize = 1;

/// An item that could not be handled; see [`DistributedQueue::dead_letters`](super::DistributedQueue::dead_letters).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The name of its node.
    pub name: String,
    /// The name that the item had in the queue.
    pub item: String,
    /// The number of its deliveries that failed, or ended with their sessions.
    pub attempts: u32,
    /// The reason why it became a dead letter.
    pub reason: String,
    /// The data of the item's node.
    pub data: Vec<u8>,
}

impl DeadLetter {
    /// Decodes the items.
    ///
    /// # Errors
    /// A description of why they cannot be decoded.
    pub fn items<S: Serializer>(&self, serializer: &S) -> Result<Vec<S::Item>, String> {
        items(serializer, &self.data)
    }

    fn read(name: &str, node: &[u8]) -> Option<DeadLetter> {
        let end = node.windows(END_OF_HEAD.len()).position(|bytes| bytes == END_OF_HEAD)?;
        let head = String::from_utf8_lossy(&node[..end]);
        let line = |key: &str| head.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
        Some(DeadLetter {
            name: name.to_owned(),
            item: line("item")?.to_owned(),
            attempts: line("attempts")?.parse().ok()?,
            reason: line("reason")?.to_owned(),
            data: node[end + END_OF_HEAD.len()..].to_vec(),
        })
    }
}

/// Returns the data of a dead letter's node.
pub(super) fn letter(item: &str, attempts: u32, reason: &str, data: &[u8]) -> Vec<u8> {
    let reason = one_line(reason);
    let mut node = format!("item: {item}\nattempts: {attempts}\nreason: {reason}\n\n").into_bytes();
    node.extend(data);
    node
}

/// Returns the reason as one line, because an empty line ends the head, and truncates it.
pub(super) fn one_line(reason: &str) -> String {
    let mut reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    reason.truncate((0..=MOST_REASON_BYTES).rev().find(|at| reason.is_char_boundary(*at)).unwrap_or(0));
    reason
}

/// Decodes the items of a node. A panic of the serializer counts as an error: a consumer must survive the items of
/// other processes.
pub(super) fn items<S: Serializer>(serializer: &S, data: &[u8]) -> Result<Vec<S::Item>, String> {
    let records = envelope::decode(data).map_err(|error| error.to_string())?;
    let item = |record| {
        let item = caught(|| serializer.deserialize(record).map_err(|error| error.to_string()));
        item.unwrap_or_else(|panic| Err(format!("the serializer panicked: {panic}")))
    };
    records.into_iter().map(item).collect()
}

/// Lists the children of a node of the queue. The node may not exist before the first put, but the root must.
pub(super) async fn children(core: &Core, path: &str) -> Result<Vec<String>, client::Error> {
    match core.read("list", path, |session, path| session.list_children(path)).await {
        Err(error) if error.kind() == ErrorKind::NoNode => core.check_root().await.map(|()| Vec::new()),
        listed => listed.map(|(names, _)| names),
    }
}

/// Reads all dead letters, the oldest first.
pub(super) async fn list(core: &Core, paths: &Paths) -> Result<Vec<DeadLetter>, Error> {
    let path = paths.dead_letters();
    let failed = |error| Error::client(&paths.path, error);
    let names = children(core, &path).await.map_err(failed)?;
    let letters = futures::stream::iter(queue::letters(names)).map(|name| async move {
        match core.read("read", &paths.dead_letter(&name), |session, path| session.get_data(path)).await {
            Ok((node, _)) => Ok(DeadLetter::read(&name, &node)),
            Err(error) if error.kind() == ErrorKind::NoNode => Ok(None),
            Err(error) => Err(failed(error)),
        }
    });
    letters.buffered(AT_ONCE).try_filter_map(|letter| async { Ok(letter) }).try_collect().await
}

/// Moves the item of a dead letter into the queue again, as a new item.
pub(super) async fn retry(core: &Core, paths: &Paths, letter: &DeadLetter) -> Result<(), Error> {
    // Its time has come before, or it would not have been delivered.
    let key = Key::of(&letter.item).unwrap_or_default().without_time();
    let steps = vec![
        Op::Delete { path: join(&paths.dead, &letter.name), version: None },
        Op::Create {
            path: paths.new_item(&key),
            data: letter.data.clone(),
            mode: CreateMode::PersistentSequential,
            acls: core.config.acls.clone(),
        },
    ];
    let path = paths.dead_letter(&letter.name);
    let transaction = Transaction { core, doing: "retry", path: &path, directory: &paths.items, steps };
    let judge = |step: usize, error: &engine::Error, in_doubt: &mut bool| {
        // The letter is still there if it was not the first step that was refused.
        *in_doubt &= step == DELETE_LETTER;
        match (step, error) {
            // A copy whose answer was lost deleted it, and created the item with that.
            (DELETE_LETTER, engine::Error::NoNode) if *in_doubt => Refused::Done(()),
            // Nothing was ever put, or the directory has been deleted since.
            (CREATE_ITEM, engine::Error::NoNode) => Refused::NoDirectory,
            _ => Refused::Other,
        }
    };
    transaction.commit((), judge).await.map_err(|error| Error::client(&paths.path, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::serializer::Utf8;

    #[test]
    fn a_letter_is_read_as_it_was_written_whatever_the_item_holds() {
        let data = envelope::encode(&["a\n\nb", ""]);
        let node = letter("queue-0000000007", 3, "it\nfailed\r\n badly", &data);
        let read = DeadLetter::read("letter-queue-0000000007-0000000000", &node).expect("a letter");
        assert_eq!((&*read.item, read.attempts, &*read.reason), ("queue-0000000007", 3, "it failed badly"));
        assert_eq!(read.data, data);
        assert_eq!(read.items(&Utf8).expect("text"), ["a\n\nb", ""]);
    }

    #[test]
    fn a_long_reason_is_cut_and_an_item_of_any_bytes_is_kept() {
        let node = letter("queue-0000000007", 0, &"ü".repeat(3_000), &[0xff, b'\n', b'\n']);
        let read = DeadLetter::read("x", &node).expect("a letter");
        assert_eq!(read.reason.len(), MOST_REASON_BYTES);
        assert_eq!(read.data, [0xff, b'\n', b'\n']);
        assert!(read.items(&Utf8).is_err());
    }

    #[test]
    fn what_is_no_letter_is_none() {
        for node in [&b""[..], b"\n\n", b"item: a\n\n", b"item: a\nattempts: x\nreason: b\n\n"] {
            assert_eq!(DeadLetter::read("x", node), None);
        }
    }
}
