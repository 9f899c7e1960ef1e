//! Who takes part, for anybody to see.

use futures::stream::{StreamExt, TryStreamExt};

use super::paths::Paths;
use super::record::Record;
use super::registration::AT_ONCE;
use crate::backend;
use crate::client::session::Session;
use crate::client::{Client, Error};
use crate::leader_latch::{self, LeaderLatch};

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

pub(super) async fn members(client: &Client, paths: &Paths, latch: &LeaderLatch) -> Result<Vec<MemberInfo>, Error> {
    let leader = match latch.leader().await {
        Ok(leader) => leader.map(|leader| leader.id),
        Err(leader_latch::Error::Client { error, .. }) => return Err(error),
        Err(_) => None,
    };
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
