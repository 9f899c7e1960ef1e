//! The size of queue items and how many of them are in flight, the same in each column.

/// How the other columns put one item.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Put {
    Create,
    /// Like ours: also counts the puts of the producer.
    Transaction,
}

/// The bytes that Curator writes around an item of seven bytes.
pub(crate) const ITEM: &[u8] = b"\x00\x01\x00\x01\x01\x00\x00\x00\x07payload\x02";
/// The data of a claim, as long as the id of a consumer.
pub(crate) const HOLDER: &[u8] = b"00000000-0000-0000-0000-000000000000";
/// How many items a consumer holds at a time.
pub(crate) const IN_HAND: usize = 32;
/// How many creates share a transaction, and how many transactions are in flight.
pub(crate) const TRANSACTION: (usize, usize) = (64, 4);

/// Returns the sizes of the transactions for `items`.
pub(crate) fn transactions(items: usize) -> impl Iterator<Item = usize> {
    (0..items).step_by(TRANSACTION.0).map(move |from| TRANSACTION.0.min(items - from))
}

/// Returns the path of an item's claim, beside the directory of the items.
pub(crate) fn claim(dir: &str, name: &str) -> String {
    format!("{dir}-claims/{name}")
}

/// Returns the path of the node whose version a transaction of puts increases.
pub(crate) fn producer(dir: &str) -> String {
    format!("{dir}-producer")
}
