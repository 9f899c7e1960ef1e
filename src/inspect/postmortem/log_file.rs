//! Reads one transaction log, one transaction at a time.

use std::io::{self, Read};

use adler2::Adler32;
use bytes::Bytes;

use crate::protocol::{Decode, END_OF_TXN, FILE_HEADER_BYTES, FORMAT, FileHeader, LOG_MAGIC, Reader, Txn, TxnHeader};

/// The longest transaction that is read. Servers write none that is longer than their `jute.maxbuffer`, which is 1 MB
/// unless it is configured, and only little longer than a request.
const MOST_BYTES: u32 = 128 << 20;

/// The bytes before each transaction: its checksum and its length.
const PREFIX_BYTES: usize = 12;

/// A log that is being read.
#[derive(Debug)]
pub(super) struct LogReader<R> {
    input: R,
    /// The offset of the next transaction.
    at: u64,
    has_ended: bool,
}

/// What a file is, by its first bytes.
#[derive(Debug)]
pub(super) enum Opened<R> {
    Log(LogReader<R>),
    /// A server has created it and not written to it.
    Empty,
    /// It has another version of the format.
    Version(i32),
    /// These are the first bytes.
    Foreign(Vec<u8>),
}

/// What comes next in a log.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Txn(Txn),
    /// A transaction that is whole, but of a kind or form that is not known.
    Unreadable {
        header: Option<TxnHeader>,
        reason: String,
    },
    /// The rest cannot be read. Nothing comes after it.
    Damaged(String),
    /// There is nothing more, or the last transaction was not written to its end.
    End,
}

impl<R: Read> LogReader<R> {
    pub(super) fn open(mut input: R) -> io::Result<Opened<R>> {
        let head = read_up_to(&mut input, FILE_HEADER_BYTES)?;
        let is_whole = head.len() == FILE_HEADER_BYTES;
        if head.iter().all(|byte| *byte == 0) || (!is_whole && LOG_MAGIC.starts_with(&head[..head.len().min(4)])) {
            return Ok(Opened::Empty);
        }
        let head = Bytes::from(head);
        match FileHeader::from_frame(&head) {
            Ok(header) if header.magic.to_be_bytes() != LOG_MAGIC => Ok(Opened::Foreign(head.to_vec())),
            Ok(header) if header.version != FORMAT => Ok(Opened::Version(header.version)),
            Ok(_) => Ok(Opened::Log(LogReader { input, at: FILE_HEADER_BYTES as u64, has_ended: false })),
            Err(_) => Ok(Opened::Foreign(head.to_vec())),
        }
    }

    /// Returns the offset of what is read next. After damage, it is where the damage begins.
    pub(super) fn offset(&self) -> u64 {
        self.at
    }

    pub(super) fn next(&mut self) -> io::Result<Entry> {
        if self.has_ended {
            return Ok(Entry::End);
        }
        let entry = self.read()?;
        self.has_ended = matches!(entry, Entry::Damaged(_) | Entry::End);
        Ok(entry)
    }

    fn read(&mut self) -> io::Result<Entry> {
        let prefix = read_up_to(&mut self.input, PREFIX_BYTES)?;
        let Some((checksum, length)) = checksum_and_length(&prefix) else { return Ok(Entry::End) };
        // Zeros from here on, or from within the checksum, which a crash leaves.
        if length == 0 {
            let damage = || Entry::Damaged("zeros in place of a length, and other bytes after them".to_owned());
            return Ok(if self.rest_is_zero()? { Entry::End } else { damage() });
        }
        if length > MOST_BYTES {
            return Ok(Entry::Damaged(format!("{} is no length of a transaction", length.cast_signed())));
        }
        let mut body = Vec::new();
        // One byte more: the mark at the end.
        let wanted = u64::from(length) + 1;
        self.input.by_ref().take(wanted).read_to_end(&mut body)?;
        let is_marked = body.len() as u64 == wanted && body.last() == Some(&END_OF_TXN);
        if !is_marked {
            return self.without_mark(checksum, &body);
        }
        body.pop();
        if u64::from(adler2::adler32_slice(&body)) != checksum {
            return Ok(Entry::Damaged("its checksum is not that of its bytes".to_owned()));
        }
        self.at += PREFIX_BYTES as u64 + wanted;
        Ok(decode(body.into()))
    }

    /// Tells an unfinished transaction at the end, which a crash leaves, from damage.
    fn without_mark(&mut self, checksum: u64, body: &[u8]) -> io::Result<Entry> {
        if has_shorter(checksum, body) {
            return Ok(Entry::Damaged("its length is not that of its bytes".to_owned()));
        }
        let damage = || Entry::Damaged("the mark at its end is missing, and other bytes follow".to_owned());
        Ok(if self.rest_is_zero()? { Entry::End } else { damage() })
    }

    fn rest_is_zero(&mut self) -> io::Result<bool> {
        let mut chunk = vec![0; 1 << 16];
        loop {
            match self.input.read(&mut chunk)? {
                0 => return Ok(true),
                read if chunk[..read].iter().any(|byte| *byte != 0) => return Ok(false),
                _ => {}
            }
        }
    }
}

fn decode(body: Bytes) -> Entry {
    match Txn::decode(&body) {
        Ok(txn) => Entry::Txn(txn),
        Err(error) => {
            let header = TxnHeader::decode(&mut Reader::new(&body)).ok();
            Entry::Unreadable { header, reason: format!("{error}; was it written by a later version of ZooKeeper?") }
        }
    }
}

fn checksum_and_length(prefix: &[u8]) -> Option<(u64, u32)> {
    let (checksum, length) = prefix.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*checksum), u32::from_be_bytes(*length.first_chunk()?)))
}

/// Returns whether a shorter transaction with this checksum and the mark at its end is there: then the length is wrong.
fn has_shorter(checksum: u64, body: &[u8]) -> bool {
    let mut adler = Adler32::new();
    let mut rest = body;
    while let Some(mark) = rest.iter().position(|byte| *byte == END_OF_TXN) {
        adler.write_slice(&rest[..mark]);
        // The sum of no bytes is 1, and is in no log.
        if u64::from(adler.checksum()) == checksum {
            return true;
        }
        adler.write_slice(&[END_OF_TXN]);
        rest = &rest[mark + 1..];
    }
    false
}

/// Reads so many bytes, or all that there are.
fn read_up_to(input: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(length);
    input.take(length as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}
