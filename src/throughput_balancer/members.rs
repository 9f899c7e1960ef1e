//! The members of a balancer, as any client can list them.

use futures::stream::{StreamExt, TryStreamExt};

use super::error::Error;

use super::record::Record;
use super::znodes::Paths;
use crate::client::session::Session;
use crate::client::{self, Client};
use crate::contender::participants;
use crate::{backend, leader_latch, path};

/// How many records are read at once.
pub(super) const AT_ONCE: usize = 256;

/// A member of a balancer, as its node says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct MemberInfo {
    /// The name of its node.
    pub id: String,
    /// The share it was given.
    pub throughput: u64,
    /// How much it counts.
    pub weight: u64,
    /// It should have at least so much.
    pub min: u64,
    /// It can use at most so much.
    pub max: Option<u64>,
    /// Whether it stands first in the line of leaders.
    pub is_leader: bool,
}

/// All members of the balancer at `base`, as [`ThroughputBalancer::members`](super::ThroughputBalancer::members): for operators,
/// who need not be members. Who leads can be followed by
/// [`leader_latch::observe_leader`](crate::leader_latch::observe_leader) of `<base>/leader`.
///
/// # Errors
/// [`Error::Client`]: with [`ErrorKind::InvalidPath`](crate::ErrorKind::InvalidPath) for a malformed path;
/// [`Error::Closed`] if the client was closed.
///
/// # Cancel safety
/// Cancel safe: it only reads.
pub async fn members(client: &Client, base: &str) -> Result<Vec<MemberInfo>, Error> {
    path::validate(base).map_err(|error| Error::client(base, error.into()))?;
    list(client, &Paths::new(client.core(), base)).await
}

pub(super) async fn list(client: &Client, paths: &Paths) -> Result<Vec<MemberInfo>, Error> {
    read(client, paths).await.map_err(|error| Error::client(&paths.base, error))
}

async fn read(client: &Client, paths: &Paths) -> Result<Vec<MemberInfo>, client::Error> {
    let leader = participants::leader(client, &paths.latch, leader_latch::BASE).await?.map(|leader| leader.id);
    let look = |session: &std::sync::Arc<Session>, _: &str| {
        let session = std::sync::Arc::clone(session);
        async move {
            let mut names = match session.list_children(&paths.members).await {
                Ok((names, _)) => names,
                Err(backend::Error::NoNode) => Vec::new(),
                Err(error) => return Err(error),
            };
            names.sort_unstable();
            let reads = futures::stream::iter(names).map(|name| {
                let session = &session;
                async move {
                    match session.get_data(&paths.member(&name)).await {
                        Ok((data, _)) => Ok(Record::parse(&data).ok().map(|record| (name, record))),
                        // Gone by now, or hidden from us.
                        Err(backend::Error::NoNode | backend::Error::NoAuth) => Ok(None),
                        Err(error) => Err(error),
                    }
                }
            });
            reads.buffered(AT_ONCE).try_collect::<Vec<_>>().await
        }
    };
    let found = client.core().read("list the members of", &paths.base, look).await?;
    let info = |(id, record): (String, Record)| MemberInfo {
        id,
        throughput: record.throughput,
        weight: record.weight,
        min: record.min,
        max: record.max,
        is_leader: leader.as_deref() == Some(&record.id),
    };
    Ok(found.into_iter().flatten().map(info).collect())
}
