//! Reads and changes numbers in Curator's formats.

use std::fmt::Display;

use clap::{ArgGroup, Args, ValueEnum};
use serde::Serialize;
use zookeeper_recipes::atomic_long::DistributedAtomicLong;
use zookeeper_recipes::shared_value::{self, SharedCount};
use zookeeper_recipes::{Client, ErrorKind};

use crate::commands::{failed, missing};
use crate::connection::path;
use crate::ending::{Ending, Status};
use crate::output::{Output, note};

/// What is counted.
#[derive(Args, Debug)]
#[command(group(ArgGroup::new("change").args(["set", "add"])))]
pub struct Options {
    /// The path of the number
    #[arg(value_parser = path)]
    path: String,
    /// Set it to N
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    set: Option<i64>,
    /// Add N, which may be negative, to it
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    add: Option<i64>,
    /// The format, if the node is missing, or its bytes could also be text [default: long for a new node]
    #[arg(long = "as", value_name = "FORMAT", requires = "change")]
    format: Option<Format>,
}

/// How a number is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum Format {
    /// Four bytes: a SharedCount, or a DistributedAtomicInteger
    Int,
    /// Eight bytes: a DistributedAtomicLong
    Long,
}

/// A number.
#[derive(Serialize)]
struct Counted<'a> {
    path: &'a str,
    number: i64,
    format: Format,
}

impl Options {
    /// Returns whether it changes nothing.
    pub fn only_looks(&self) -> bool {
        self.set.is_none() && self.add.is_none()
    }
}

/// Changes the number if asked to, and prints it.
pub async fn count(client: &Client, output: Output, options: &Options) -> Result<Ending, Ending> {
    let path = options.path.as_str();
    let (number, format) = match read(client, path).await? {
        // As for DistributedAtomicLong.
        Some(data) if options.only_looks() && data.is_empty() => (0, Format::Long),
        Some(data) if options.only_looks() => {
            if number_in(&data).is_some() && is_text(&data) {
                note(format_args!("{path} has the text {:?}, read as a number", String::from_utf8_lossy(&data)));
            }
            number_in(&data).ok_or_else(|| Ending::because(Status::No, format_args!("{path} {}", no_number(&data))))?
        }
        None if options.only_looks() => return Err(missing(client, path).await),
        found => {
            let format = format_of(found.as_deref(), options.format).map_err(|why| {
                let why = format!("{path} {why}; nothing was written");
                Ending::because(Status::No, why)
            })?;
            let number = match format {
                Format::Int => change_int(client, options).await?,
                Format::Long => change_long(client, options).await?,
            };
            (number, format)
        }
    };
    output.print(number, &Counted { path, number, format }).await?;
    Ok(Ending::Success)
}

async fn read(client: &Client, path: &str) -> Result<Option<Vec<u8>>, Ending> {
    match client.get(path).await {
        Err(error) if error.kind() == ErrorKind::NoNode => Ok(None),
        read => read.map(|(data, _)| Some(data)).map_err(|error| failed(error.kind(), error)),
    }
}

fn number_in(data: &[u8]) -> Option<(i64, Format)> {
    if let Ok(four) = data.try_into() {
        return Some((i32::from_be_bytes(four).into(), Format::Int));
    }
    data.try_into().ok().map(|eight| (i64::from_be_bytes(eight), Format::Long))
}

/// Returns whether bytes could also be text.
fn is_text(data: &[u8]) -> bool {
    data.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ')
}

fn no_number(data: &[u8]) -> String {
    format!("has {} bytes, which is not a number: a SharedCount has 4, a DistributedAtomicLong 8", data.len())
}

/// Returns the format of a number that is to be changed. The user decides about a node that is missing or empty, and
/// about bytes that could be text.
fn format_of(data: Option<&[u8]>, said: Option<Format>) -> Result<Format, String> {
    let data = data.unwrap_or_default();
    match (number_in(data), said) {
        (None, said) if data.is_empty() => Ok(said.unwrap_or(Format::Long)),
        (None, _) => Err(no_number(data)),
        (Some((_, format)), Some(said)) if said != format => {
            Err(format!("has {} bytes, which does not fit the format of --as", data.len()))
        }
        (Some(_), None) if is_text(data) => {
            Err(format!("has the text {:?}: use --as if it is a number", String::from_utf8_lossy(data)))
        }
        (Some((_, format)), _) => Ok(format),
    }
}

async fn change_int(client: &Client, options: &Options) -> Result<i64, Ending> {
    let too_much = |n: &dyn Display| Ending::failed(format_args!("{}: {n} does not fit in four bytes", options.path));
    let of = |error: shared_value::Error| failed(error.kind(), error);
    let fits = |n: i64| i32::try_from(n).map_err(|_| too_much(&n));
    let (set, add) = (options.set.map(fits).transpose()?, options.add.map(fits).transpose()?);
    // The seed is written only if there is no node, or it is empty.
    let count = SharedCount::count(client, &options.path).seed(set.unwrap_or(0)).start().await.map_err(of)?;
    let written = match (set, add) {
        (Some(number), _) => Some(count.set(number).await.map_err(of)?),
        (None, add) => count.update(|now| now.checked_add(add.unwrap_or(0))).await.map_err(of)?,
    };
    let written = written.ok_or_else(|| too_much(&"the sum"))?;
    Ok((*written.value()).into())
}

async fn change_long(client: &Client, options: &Options) -> Result<i64, Ending> {
    let long = DistributedAtomicLong::new(client, &options.path).map_err(|error| failed(error.kind(), error))?;
    let changed = match options.set {
        Some(number) => long.set(number).await.map(|()| number),
        None => long.add(options.add.unwrap_or(0)).await.map(|added| added.after),
    };
    changed.map_err(|error| failed(error.kind(), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_bytes_and_eight_are_numbers_as_in_java() {
        assert_eq!(number_in(&[0xff; 4]), Some((-1, Format::Int)));
        assert_eq!(number_in(&[0, 0, 0, 0, 0, 0, 1, 0]), Some((256, Format::Long)));
        for length in [0, 1, 3, 5, 7, 9] {
            assert_eq!(number_in(&vec![0; length]), None, "{length}");
        }
    }

    #[test]
    fn what_may_be_a_text_is_changed_only_if_it_is_said_to_be_a_number() {
        assert_eq!(format_of(None, None), Ok(Format::Long));
        assert_eq!(format_of(Some(b""), Some(Format::Int)), Ok(Format::Int));
        assert_eq!(format_of(Some(&[0; 4]), None), Ok(Format::Int));
        assert_eq!(format_of(Some(b"host"), Some(Format::Int)), Ok(Format::Int));
        for (data, said, why) in [
            (&b"host"[..], None, "the text \"host\""),
            (b"a b c d ", None, "the text"),
            (&[0; 4], Some(Format::Long), "does not fit the format"),
            (b"hello", Some(Format::Int), "has 5 bytes"),
        ] {
            let error = format_of(Some(data), said).expect_err("it is not changed");
            assert!(error.contains(why), "{error}");
        }
    }
}
