//! The set of partitions: numbers, names, or a node that operators change.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use super::name::check_partition;
use crate::util::path::{quoted, quoted_bytes};

/// How many partitions a set may have.
const MOST: u32 = 1_000_000;
/// What the node of a partition takes in a listing, besides the partition's name: what makes the node's name unique,
/// and the length.
const BYTES_OF_NODE: usize = 40;
/// What a name takes in a record besides itself: quotation marks and a comma. The record has each name twice.
const BYTES_IN_RECORD: usize = 3;
/// What is written together with a record, at most.
const BYTES_OF_REST: usize = 8_192;

/// The partitions that the members divide among themselves.
///
/// ```
/// use zookeeper_recipes::partition_assigner::Partitions;
///
/// let numbered = Partitions::from(0..256);
/// let named = Partitions::from(["eu", "us", "asia"]);
/// // Operators change this one while members work.
/// let listed = Partitions::node("/jobs/list");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partitions(pub(super) Source);

/// Where a set comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    Range(Range<u32>),
    Names(Vec<String>),
    /// The path of a node.
    Node(String),
}

impl Partitions {
    /// The partitions that the node at `path` names: a name or a range such as `0..256` in each line. Empty lines and
    /// lines that begin with `#` are left out. The node has to exist. The leader watches it; while it is missing or
    /// not valid, nothing changes, and [`Event::PartitionsInvalid`](super::Event::PartitionsInvalid) says why.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use zookeeper_recipes::partition_assigner::{PartitionAssigner, Partitions};
    /// use zookeeper_recipes::{Client, CreateMode};
    ///
    /// let client = Client::builder("localhost:2181").connect().await?;
    /// // Once, by an operator, who changes it later with `Client::set`.
    /// let list = "# all streams\n0..256\naudit\n";
    /// client.create("/my-service/streams", list, CreateMode::Persistent).await?;
    ///
    /// let member = PartitionAssigner::builder(&client, "/my-service/shards")
    ///     .partitions(Partitions::node("/my-service/streams"))
    ///     .join()
    ///     .await?;
    /// # member.leave().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn node(path: impl Into<String>) -> Self {
        Partitions(Source::Node(path.into()))
    }
}

impl From<Range<u32>> for Partitions {
    fn from(numbers: Range<u32>) -> Self {
        Partitions(Source::Range(numbers))
    }
}

impl<S: Into<String>> From<Vec<S>> for Partitions {
    fn from(names: Vec<S>) -> Self {
        names.into_iter().collect()
    }
}

impl<S: Into<String>, const N: usize> From<[S; N]> for Partitions {
    fn from(names: [S; N]) -> Self {
        names.into_iter().collect()
    }
}

impl<S: Into<String>> FromIterator<S> for Partitions {
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> Self {
        Partitions(Source::Names(names.into_iter().map(Into::into).collect()))
    }
}

/// A set of names.
pub(super) type Names = BTreeSet<Arc<str>>;

/// Returns the names of a set that does not depend on a node. The error says which value is wrong, and what is allowed.
pub(super) fn names(source: &Source, most_bytes: usize) -> Result<Option<Names>, String> {
    let mut names = Collected::default();
    match source {
        Source::Range(numbers) => names.add_range(numbers.clone())?,
        Source::Names(all) => all.iter().try_for_each(|name| names.add(name))?,
        Source::Node(_) => return Ok(None),
    }
    names.finish(most_bytes).map(Some)
}

/// Parses the data of a node. The error says what is wrong with it.
pub(super) fn parse(data: &[u8], most_bytes: usize) -> Result<Names, String> {
    let Ok(text) = std::str::from_utf8(data) else { return Err(format!("{} is not text", quoted_bytes(data))) };
    let mut names = Collected::default();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.split_once("..") {
            Some((start, end)) => match (start.trim().parse(), end.trim().parse()) {
                (Ok(start), Ok(end)) => names.add_range(start..end)?,
                _ => return Err(format!("{} is no range; must be two numbers, as in 0..256", quoted(line))),
            },
            None => names.add(line)?,
        }
    }
    names.finish(most_bytes)
}

#[derive(Default)]
struct Collected {
    names: Names,
}

impl Collected {
    fn add(&mut self, name: &str) -> Result<(), String> {
        check_partition(name)?;
        if self.names.insert(name.into()) { Ok(()) } else { Err(format!("partition {} occurs twice", quoted(name))) }
    }

    fn add_range(&mut self, numbers: Range<u32>) -> Result<(), String> {
        let count = numbers.end.saturating_sub(numbers.start);
        if count == 0 || count > MOST {
            return Err(format!("the range {numbers:?} has {count} partitions; must have 1 to {MOST}"));
        }
        numbers.into_iter().try_for_each(|number| self.add(&number.to_string()))
    }

    /// Checks that one answer of a server can list the nodes of all partitions, and that one request can write the
    /// record of a member that has them all.
    fn finish(self, most_bytes: usize) -> Result<Names, String> {
        if self.names.is_empty() {
            return Err("there are no partitions; must be at least one".into());
        }
        let listing: usize = self.names.iter().map(|name| name.len() + BYTES_OF_NODE).sum();
        // Quotation marks and backslashes take two bytes.
        let in_record = |name: &Arc<str>| 2 * (name.len() + name.matches(['"', '\\']).count() + BYTES_IN_RECORD);
        let record = self.names.iter().map(in_record).sum::<usize>() + BYTES_OF_REST;
        let bytes = listing.max(record);
        if bytes > most_bytes {
            let count = self.names.len();
            return Err(format!("{count} partitions take {bytes} bytes in one request; must be at most {most_bytes}"));
        }
        Ok(self.names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST_BYTES: usize = 1 << 20;

    fn listed(text: &str) -> Result<Vec<String>, String> {
        parse(text.as_bytes(), MOST_BYTES).map(|names| names.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_node_names_partitions_and_ranges() {
        assert_eq!(listed("# all\n2..4\n\n eu-west \n"), Ok(vec!["2".into(), "3".into(), "eu-west".into()]));
    }

    #[test]
    fn what_is_no_set_is_refused_with_the_value_and_what_is_allowed() {
        for (text, why) in [
            ("", "no partitions; must be at least one"),
            ("# nothing", "no partitions"),
            ("a\na", "\"a\" occurs twice"),
            ("1..3\n2", "\"2\" occurs twice"),
            ("3..1", "3..1 has 0 partitions"),
            ("0..2000000", "must have 1 to 1000000"),
            ("a..b", "\"a..b\" is no range"),
            ("a/b", "must not contain '/'"),
            (".", "must not contain \".\""),
        ] {
            let error = listed(text).expect_err(text);
            assert!(error.contains(why), "{error}");
        }
        assert!(parse(b"\xff", MOST_BYTES).expect_err("no text").contains("is not text"));
        let many = names(&Source::Range(0..30_000), MOST_BYTES).expect_err("too many");
        assert!(many.contains("30000 partitions take") && many.contains("must be at most 1048576"), "{many}");
        assert!(names(&Source::Range(0..10_000), MOST_BYTES).expect("fits").is_some_and(|names| names.len() == 10_000));
    }
}
