//! The data of an item's node, in Curator's format: a version, a record for each item, an end mark.

/// Big-endian, like all numbers of the format.
const VERSION: u32 = 0x0001_0001;
const ITEM: u8 = 0x01;
const END: u8 = 0x02;
const HEAD_BYTES: usize = 4;
const RECORD_BYTES: usize = 5;

/// Why bytes are not the data of an item's node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    #[error("it is incomplete: it ends after {0} bytes")]
    Short(usize),
    #[error("its version is {0:#010x} instead of {VERSION:#010x}")]
    Version(u32),
    #[error("byte {at} is {found:#04x}, neither an item ({ITEM:#04x}) nor the end ({END:#04x})")]
    Code { at: usize, found: u8 },
    #[error("the item at byte {at} has a length of {length} bytes, but only {left} bytes are left")]
    Length { at: usize, length: i32, left: usize },
}

/// Encodes the items of one node.
pub(super) fn encode<I: AsRef<[u8]>>(items: &[I]) -> Vec<u8> {
    let bytes: usize = items.iter().map(|item| RECORD_BYTES + item.as_ref().len()).sum();
    let mut node = Vec::with_capacity(HEAD_BYTES + bytes + 1);
    node.extend(VERSION.to_be_bytes());
    for item in items {
        let item = item.as_ref();
        node.push(ITEM);
        // A longer item has been rejected before, by the size limit.
        node.extend(u32::try_from(item.len()).unwrap_or(u32::MAX).to_be_bytes());
        node.extend(item);
    }
    node.push(END);
    node
}

/// Decodes the items of a node; there may be none. They are slices of `node`, so no untrusted length causes an
/// allocation. Bytes after the end mark are ignored, as by Curator.
pub(super) fn decode(node: &[u8]) -> Result<Vec<&[u8]>, Malformed> {
    let short = Malformed::Short(node.len());
    let (head, mut rest) = node.split_first_chunk::<HEAD_BYTES>().ok_or_else(|| short.clone())?;
    let version = u32::from_be_bytes(*head);
    if version != VERSION {
        return Err(Malformed::Version(version));
    }
    let mut items = Vec::new();
    loop {
        let at = node.len() - rest.len();
        let (code, after) = rest.split_first().ok_or_else(|| short.clone())?;
        match *code {
            END => return Ok(items),
            ITEM => {}
            found => return Err(Malformed::Code { at, found }),
        }
        let (length, after) = after.split_first_chunk::<4>().ok_or_else(|| short.clone())?;
        let length = i32::from_be_bytes(*length);
        let cut = usize::try_from(length).ok().and_then(|length| after.split_at_checked(length));
        let (item, after) = cut.ok_or(Malformed::Length { at, length, left: after.len() })?;
        items.push(item);
        rest = after;
    }
}

/// Returns how many bytes the items of a node take, up to the end mark.
pub(super) fn length(node: &[u8]) -> Option<usize> {
    let items = decode(node).ok()?;
    Some(items.iter().map(|item| RECORD_BYTES + item.len()).sum::<usize>() + HEAD_BYTES + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// As Curator 5.9.1 wrote them.
    #[test]
    fn golden_vectors() {
        let none: [&[u8]; 0] = [];
        assert_eq!(hex(&encode(&[b"a"])), "0001000101000000016102");
        assert_eq!(hex(&encode(&[&b"a"[..], b"bc", b""])), "0001000101000000016101000000026263010000000002");
        assert_eq!(hex(&encode(&none)), "0001000102");
        assert_eq!(decode(&encode(&none)), Ok(vec![]));
    }

    #[test]
    fn each_fault_has_a_message() {
        let message = |node: &[u8]| decode(node).expect_err("malformed").to_string();
        assert!(message(&[]).contains("ends after 0 bytes"));
        assert!(message(&[0, 1, 0, 2, 2]).contains("0x00010002"));
        assert!(message(&[0, 1, 0, 1]).contains("ends after 4 bytes"));
        assert!(message(&[0, 1, 0, 1, 1, 0, 0]).contains("ends after 7 bytes"));
        assert_eq!(decode(&[0, 1, 0, 1, 3]), Err(Malformed::Code { at: 4, found: 3 }));
        let negative = [0, 1, 0, 1, 1, 0xff, 0xff, 0xff, 0xff, b'a', 2];
        assert_eq!(decode(&negative), Err(Malformed::Length { at: 4, length: -1, left: 2 }));
        // Two gigabytes that are not there are not asked for.
        let huge = [0, 1, 0, 1, 1, 0x7f, 0xff, 0xff, 0xff, b'a', 2];
        assert_eq!(decode(&huge), Err(Malformed::Length { at: 4, length: i32::MAX, left: 2 }));
    }

    #[test]
    fn what_comes_after_the_end_does_not_count() {
        let mut node = encode(&[b"a"]);
        node.extend(b"more");
        assert_eq!(decode(&node), Ok(vec![&b"a"[..]]));
    }

    proptest! {
        #[test]
        fn decoding_undoes_encoding(items in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..10)) {
            let node = encode(&items);
            prop_assert_eq!(decode(&node).expect("well formed"), items);
        }

        #[test]
        fn any_bytes_are_judged_without_a_panic(node in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = decode(&node);
        }

        #[test]
        fn what_was_cut_short_is_never_taken_for_whole(
            items in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..5),
            cut in any::<prop::sample::Index>(),
        ) {
            let node = encode(&items);
            prop_assert!(decode(&node[..cut.index(node.len())]).is_err());
        }

        #[test]
        fn a_byte_that_was_changed_is_judged_without_a_panic(
            items in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..5),
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let mut node = encode(&items);
            let at = at.index(node.len());
            node[at] = byte;
            if let Ok(found) = decode(&node) {
                prop_assert!(found.iter().map(|item| item.len()).sum::<usize>() < node.len());
            }
        }
    }
}
