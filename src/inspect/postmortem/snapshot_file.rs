//! Reads a snapshot, one node at a time.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;

use adler2::Adler32;
use bytes::{Buf, Bytes, BytesMut};
use flate2::read::MultiGzDecoder;

use crate::protocol::{
    Decode, END_OF_NODES, FORMAT, FileHeader, Problem, Reader, SNAPSHOT_MAGIC, SnapshotAcl, SnapshotNode,
    SnapshotSession,
};

/// How much is read at a time.
const CHUNK_BYTES: usize = 1 << 16;
/// The largest node that is read, in bytes.
const MOST_BYTES: usize = 128 << 20;
/// The first bytes of a file that gzip has compressed.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// What a snapshot contains.
pub(super) trait Visit {
    fn session(&mut self, session: &SnapshotSession);
    fn node(&mut self, path: &str, node: SnapshotNode);
}

/// Why a snapshot cannot be read to its end.
#[derive(Debug)]
pub(super) struct Broken {
    /// The byte, of the contents if the file is compressed.
    pub(super) offset: u64,
    pub(super) reason: String,
}

/// Reads a whole snapshot. The contents count only if this succeeds, as the checksum comes at the end.
pub(super) fn read(file: &Path, visit: &mut impl Visit) -> Result<(), Broken> {
    let failed = |error: io::Error| Broken { offset: 0, reason: error.to_string() };
    let mut input = BufReader::new(File::open(file).map_err(failed)?);
    let mut first = [0; 2];
    let is_compressed = input.read_exact(&mut first).is_ok() && first == GZIP;
    input.rewind().map_err(failed)?;
    if is_compressed { contents(MultiGzDecoder::new(input), visit) } else { contents(input, visit) }
}

pub(super) fn contents(input: impl Read, visit: &mut impl Visit) -> Result<(), Broken> {
    let mut from = Source { input, window: Bytes::new(), at: 0, sum: Adler32::new() };
    let header: FileHeader = from.next()?;
    if header.magic.to_be_bytes() != SNAPSHOT_MAGIC {
        let reason = "it does not begin with ZKSN: no snapshot, or one that snappy has compressed, which is not read";
        return Err(from.broken(reason));
    }
    if header.version != FORMAT {
        return Err(from.broken(format!("it has version {} of the format, and this reads version 2", header.version)));
    }
    for _ in 0..from.next::<i32>()? {
        visit.session(&from.next()?);
    }
    for _ in 0..from.next::<i32>()? {
        from.next::<SnapshotAcl>()?;
    }
    loop {
        let path: String = from.next()?;
        if path == END_OF_NODES {
            break;
        }
        visit.node(&path, from.next()?);
    }
    let sum = i64::from(from.sum.checksum());
    if from.next::<i64>()? == sum { Ok(()) } else { Err(from.broken("its checksum is not that of its bytes")) }
}

/// The bytes of a snapshot, of which only a part is in memory.
struct Source<R> {
    input: R,
    window: Bytes,
    at: u64,
    sum: Adler32,
}

impl<R: Read> Source<R> {
    /// Decodes a record, and reads on as long as it is not whole.
    fn next<T: for<'a> Decode<'a>>(&mut self) -> Result<T, Broken> {
        loop {
            let from = &mut Reader::new(&self.window);
            let decoded = T::decode(from);
            let end = from.position();
            let error = match decoded {
                Ok(record) => {
                    self.sum.write_slice(&self.window[..end]);
                    self.window.advance(end);
                    self.at += end as u64;
                    return Ok(record);
                }
                Err(error) => error,
            };
            let is_cut = matches!(error.problem, Problem::Truncated { .. } | Problem::Length { length: 0.., .. });
            if !is_cut {
                return Err(self.broken(error.to_string()));
            }
            if self.window.len() > MOST_BYTES {
                return Err(self.broken(format!("a record of more than {MOST_BYTES} bytes")));
            }
            if self.fill().map_err(|error| self.broken(error.to_string()))? == 0 {
                return Err(self.broken("it ends early: the server has not finished it"));
            }
        }
    }

    /// Reads as much again as there is, at least a chunk. Returns how many bytes there were.
    fn fill(&mut self) -> io::Result<usize> {
        let wanted = self.window.len().max(CHUNK_BYTES);
        let mut next = Vec::new();
        let read = self.input.by_ref().take(wanted as u64).read_to_end(&mut next)?;
        let mut window = BytesMut::from(&self.window[..]);
        window.extend_from_slice(&next);
        self.window = window.freeze();
        Ok(read)
    }

    fn broken(&self, reason: impl Into<String>) -> Broken {
        Broken { offset: self.at, reason: reason.into() }
    }
}
