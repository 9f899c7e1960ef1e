//! Finds the logs and snapshots that were named, or are in directories that were.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use super::error::Error;
use crate::protocol::{LOG_MAGIC, SNAPSHOT_MAGIC};

/// The directory in which the servers keep their files, below the one that they are configured with.
const VERSION: &str = "version-2";
const LOG: &str = "log.";
const SNAPSHOT: &str = "snapshot.";
/// The first bytes of a file that gzip has compressed.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// How many bytes show what a file is.
const SHOWN_BYTES: usize = 8;

/// A file with the transaction that its name has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) path: PathBuf,
    /// Of a log the first transaction in it, of a snapshot the last one before it; 0 if the name has none.
    pub(super) zxid: i64,
    /// Whether a user has named the file, and not its directory.
    pub(super) is_explicit: bool,
}

/// The files, the snapshots by their transactions.
#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) logs: Vec<Named>,
    pub(super) snapshots: Vec<Named>,
}

impl Files {
    pub(super) fn find(named: &[PathBuf]) -> Result<Files, Error> {
        let mut files = Files::default();
        for path in named {
            let is_directory = fs::metadata(path).map_err(|error| Error::io(path, error))?.is_dir();
            if is_directory { files.add_directory(path)? } else { files.add_file(path)? }
        }
        files.snapshots.sort_by_key(|snapshot| snapshot.zxid);
        Ok(files)
    }

    /// Returns the paths of the logs.
    pub(super) fn log_paths(&self) -> Vec<PathBuf> {
        self.logs.iter().map(|log| log.path.clone()).collect()
    }

    fn add_directory(&mut self, path: &Path) -> Result<(), Error> {
        let before = self.logs.len() + self.snapshots.len();
        self.add_contents(path)?;
        let below = path.join(VERSION);
        if below.is_dir() {
            self.add_contents(&below)?;
        }
        if self.logs.len() + self.snapshots.len() == before {
            return Err(Error::NoLogs { directory: path.to_owned() });
        }
        Ok(())
    }

    fn add_contents(&mut self, directory: &Path) -> Result<(), Error> {
        let failed = |error| Error::io(directory, error);
        for entry in fs::read_dir(directory).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            // There may be a directory of that name, with files that a person has kept.
            let Some(name) = name.filter(|_| path.is_file()) else { continue };
            if let Some(zxid) = zxid_of(name, LOG) {
                self.logs.push(Named { path, zxid, is_explicit: false });
            } else if let Some(zxid) = zxid_of(name, SNAPSHOT) {
                self.snapshots.push(Named { path, zxid, is_explicit: false });
            }
        }
        Ok(())
    }

    /// Adds a file by its contents, whatever its name: a copy may have another one.
    fn add_file(&mut self, path: &Path) -> Result<(), Error> {
        let first = first_bytes(path).map_err(|error| Error::io(path, error))?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let zxid = zxid_of(&name, SNAPSHOT).or_else(|| zxid_of(&name, LOG)).unwrap_or_default();
        let named = Named { path: path.to_owned(), zxid, is_explicit: true };
        if first.starts_with(&GZIP) && zxid_of(&name, SNAPSHOT).is_none() {
            return Err(Error::Compressed { file: path.to_owned() });
        }
        let is_snapshot = first.starts_with(&SNAPSHOT_MAGIC) || first.starts_with(&GZIP);
        if is_snapshot && zxid_of(&name, SNAPSHOT).is_none() {
            return Err(Error::Unnamed { file: path.to_owned() });
        }
        if !is_snapshot && !first.starts_with(&LOG_MAGIC) && first.iter().any(|byte| *byte != 0) {
            return Err(Error::Foreign { file: path.to_owned(), found: format!("\"{}\"", first.escape_ascii()) });
        }
        if is_snapshot {
            self.snapshots.push(named)
        } else {
            self.logs.push(named)
        }
        Ok(())
    }
}

fn first_bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut first = Vec::new();
    File::open(path)?.take(SHOWN_BYTES as u64).read_to_end(&mut first)?;
    Ok(first)
}

/// Returns the transaction in the name of a file: hexadecimal digits, before an extension if it is compressed.
fn zxid_of(name: &str, prefix: &str) -> Option<i64> {
    let digits = name.strip_prefix(prefix)?.split('.').next()?;
    u64::from_str_radix(digits, 16).ok().map(u64::cast_signed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transaction_in_the_name_of_a_file() {
        assert_eq!(zxid_of("log.100000001", LOG), Some(0x1_0000_0001));
        assert_eq!(zxid_of("snapshot.0", SNAPSHOT), Some(0));
        assert_eq!(zxid_of("snapshot.1f.gz", SNAPSHOT), Some(0x1f));
        for other in ["log.", "log", "log.x", "log.old.1", "snapshot.1f"] {
            assert_eq!(zxid_of(other, LOG), None, "{other}");
        }
    }
}
