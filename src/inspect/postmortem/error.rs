//! Why nothing can be told.

use std::io;
use std::path::{Path, PathBuf};

use crate::util::path::InvalidPath;

/// How many files an error names.
const SHOWN_FILES: usize = 3;

/// Why the files cannot be read at all. What is wrong with a part of them is a [`Damage`](super::Damage).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or directory cannot be read.
    #[error("{}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A directory, and `version-2` below it, contain neither logs nor snapshots.
    #[error(
        "{}: neither log.* nor snapshot.* in it, nor in version-2 below it; give the dataLogDir and dataDir of a \
        server, or files",
        directory.display()
    )]
    NoLogs {
        /// The directory.
        directory: PathBuf,
    },
    /// A file was written by another program.
    #[error(
        "{}: it begins with {found}, and a transaction log of ZooKeeper with ZKLG, a snapshot with ZKSN",
        file.display()
    )]
    Foreign {
        /// The file.
        file: PathBuf,
        /// Its first bytes.
        found: String,
    },
    /// A snapshot has lost its name, which has its last transaction.
    #[error(
        "{}: it looks like a snapshot, and must have the name that the server gave it: snapshot.ZXID",
        file.display()
    )]
    Unnamed {
        /// The file.
        file: PathBuf,
    },
    /// A file has another version of the format.
    #[error("{}: its format has version {version}, and this reads version 2, of ZooKeeper 3.0 to 3.9", file.display())]
    Version {
        /// The file.
        file: PathBuf,
        /// Its version.
        version: i32,
    },
    /// A log is compressed.
    #[error(
        "{}: it is compressed; unpack it first (only snapshots are read as gzip has compressed them)",
        file.display()
    )]
    Compressed {
        /// The file.
        file: PathBuf,
    },
    /// Two files have different transactions of one number.
    #[error(
        "{} and {} have different transactions {zxid:#x}: they are not of one ensemble, or one was begun again; give \
        the files of one",
        file.display(),
        other.display()
    )]
    Mixed {
        /// The one.
        file: PathBuf,
        /// The other.
        other: PathBuf,
        /// The number of the transactions.
        zxid: i64,
    },
    /// There is not a single transaction.
    #[error(
        "no transaction in {}; a server writes its log to dataLogDir, if its configuration has one",
        in_files(files)
    )]
    Empty {
        /// The logs that were found.
        files: Vec<PathBuf>,
    },
    /// The path of the nodes breaks a rule for paths.
    #[error("{0}")]
    InvalidPath(String),
}

impl Error {
    pub(super) fn io(file: &Path, source: io::Error) -> Error {
        Error::Io { file: file.to_owned(), source }
    }
}

impl From<InvalidPath> for Error {
    fn from(error: InvalidPath) -> Error {
        Error::InvalidPath(error.to_string())
    }
}

fn in_files(files: &[PathBuf]) -> String {
    let mut names: Vec<_> = files.iter().take(SHOWN_FILES).map(|file| file.display().to_string()).collect();
    if let Some(more) = files.len().checked_sub(SHOWN_FILES).filter(|more| *more > 0) {
        names.push(format!("{more} more"));
    }
    if names.is_empty() { "snapshots alone".to_owned() } else { names.join(", ") }
}
