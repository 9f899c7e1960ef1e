//! Lists the members of a balancer, for any client.

use std::fmt;

use futures::stream::{StreamExt, TryStreamExt};

use super::error::Error;
use super::record::Record;
use crate::client::session::Session;
use crate::client::{self, Client};
use crate::contender::participants;
use crate::engine;
use crate::layout::line;
use crate::layout::throughput_balancer::Paths;
use crate::util::path;

/// How many records are read at once.
pub(super) const AT_ONCE: usize = 256;

/// A member of a balancer, as described by its node.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # use zookeeper_recipes::Client;
/// # let client = Client::builder("localhost:2181").connect().await?;
/// use zookeeper_recipes::throughput_balancer::members;
///
/// for member in members(&client, "/my-service/throughput").await? {
///     println!("{}: {}", member.id, member.throughput);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct MemberInfo {
    /// The [id](super::ThroughputBalancerBuilder::id) that its user has set, or the name of its node.
    pub id: String,
    /// The name of its node.
    pub node: String,
    /// The share that it was given.
    pub throughput: u64,
    /// How much it counts compared with the others.
    pub weight: u64,
    /// The least that it should have.
    pub min: u64,
    /// The most that it can use; `None` if there is no limit.
    pub max: Option<u64>,
    /// Whether its node is the first one in the election.
    pub is_leader: bool,
}

impl fmt::Display for MemberInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (weight {}, min {}", self.id, self.throughput, self.weight, self.min)?;
        if let Some(max) = self.max {
            write!(f, ", max {max}")?;
        }
        f.write_str(if self.is_leader { ", leading)" } else { ")" })
    }
}

/// Lists all members of the balancer at `base`, as [`ThroughputBalancer::members`](super::ThroughputBalancer::members)
/// does.
///
/// For operators, who need not be members. To follow who leads, use
/// [`leader_latch::observe_leader`](crate::leader_latch::observe_leader) on `<base>/leader`.
///
/// # Errors
/// [`Error::Client`] if a request failed, with [`ErrorKind::InvalidPath`](crate::ErrorKind::InvalidPath) for a
/// malformed path. [`Error::Closed`] if the client was closed.
///
/// # Cancel safety
/// Cancel safe: it only reads.
pub async fn members(client: &Client, base: &str) -> Result<Vec<MemberInfo>, Error> {
    path::validate(base).map_err(|error| Error::client(base, error.into()))?;
    list(client, &Paths::new(base, |path| client.core().full_path(path))).await
}

pub(super) async fn list(client: &Client, paths: &Paths) -> Result<Vec<MemberInfo>, Error> {
    read(client, paths).await.map_err(|error| Error::client(&paths.base, error))
}

async fn read(client: &Client, paths: &Paths) -> Result<Vec<MemberInfo>, client::Error> {
    let leader = participants::leader(client, &paths.latch, line::LATCH).await?.map(|leader| leader.id);
    let look = |session: &std::sync::Arc<Session>, _: &str| {
        let session = std::sync::Arc::clone(session);
        async move {
            let mut names = match session.list_children(&paths.members).await {
                Ok((names, _)) => names,
                Err(engine::Error::NoNode) => Vec::new(),
                Err(error) => return Err(error),
            };
            names.sort_unstable();
            let reads = futures::stream::iter(names).map(|name| {
                let session = &session;
                async move {
                    match session.get_data(&paths.member(&name)).await {
                        Ok((data, _)) => Ok(Record::parse(&data).ok().map(|record| (name, record))),
                        // It is deleted by now, or this client may not read it.
                        Err(engine::Error::NoNode | engine::Error::NoAuth) => Ok(None),
                        Err(error) => Err(error),
                    }
                }
            });
            reads.buffered(AT_ONCE).try_collect::<Vec<_>>().await
        }
    };
    let found = client.core().read("list the members of", &paths.base, look).await?;
    let info = |(node, record): (String, Record)| MemberInfo {
        id: record.label.clone().unwrap_or_else(|| node.clone()),
        node,
        throughput: record.throughput,
        weight: record.weight,
        min: record.min,
        max: record.max,
        is_leader: leader.as_deref() == Some(&record.id),
    };
    Ok(found.into_iter().flatten().map(info).collect())
}
