//! Who works on which partition, as the members themselves report it.

use std::sync::Arc;

use recipes_examples::{Result, until};
use tokio::sync::watch;

use crate::MEMBERS;

/// The owner of each partition, by the numbers of members.
#[derive(Clone)]
pub(crate) struct Board {
    owners: Arc<watch::Sender<Vec<Option<usize>>>>,
    /// Two owners of one partition, if there were any.
    twice: Arc<watch::Sender<Option<String>>>,
}

impl Board {
    pub(crate) fn new(partitions: u32) -> Self {
        Board { owners: Arc::new(watch::Sender::new((0..partitions).map(|_| None).collect())), twice: Arc::default() }
    }

    /// Notes that `member` works on a partition, until the returned value is dropped.
    pub(crate) fn works(&self, member: usize, partition: usize) -> Working {
        self.owns(member, partition);
        Working { board: self.clone(), member, partition }
    }

    /// Notes that `member` owns a partition from now on.
    pub(crate) fn owns(&self, member: usize, partition: usize) {
        self.owners.send_modify(|owners| {
            if let Some(other) = owners[partition].replace(member).filter(|other| *other != member) {
                let (other, member) = (MEMBERS[other], MEMBERS[member]);
                self.twice.send_replace(Some(format!("{member} owns partition {partition}, and so does {other}")));
            }
        });
    }

    /// Notes that `member` no longer owns any partition: its process is stopped, or its client closes.
    pub(crate) fn leaves(&self, member: usize) {
        self.owners.send_modify(|owners| {
            owners.iter_mut().filter(|owner| **owner == Some(member)).for_each(|owner| *owner = None);
        });
    }

    /// Waits until each partition has an owner.
    pub(crate) async fn all_owned(&self) -> Result<()> {
        let mut owners = self.owners.subscribe();
        until(owners.wait_for(|owners| owners.iter().all(Option::is_some))).await??;
        Ok(())
    }

    /// Waits until the members own so many partitions each.
    pub(crate) async fn counts(&self, counts: &[usize]) -> Result<()> {
        let mut owners = self.owners.subscribe();
        let are_reached = |owners: &Vec<Option<usize>>| {
            let mut of_members = counts.iter().enumerate();
            of_members.all(|(member, count)| owners.iter().filter(|owner| **owner == Some(member)).count() == *count)
        };
        until(owners.wait_for(are_reached)).await??;
        Ok(())
    }

    /// Waits until `member` owns a partition.
    pub(crate) async fn owner_is(&self, partition: usize, member: usize) -> Result<()> {
        let mut owners = self.owners.subscribe();
        until(owners.wait_for(|owners| owners[partition] == Some(member))).await??;
        Ok(())
    }

    pub(crate) fn never_two(&self) -> Result<()> {
        self.twice.borrow().clone().map_or(Ok(()), |twice| Err(twice.into()))
    }

    /// Returns the owner of each partition.
    pub(crate) fn owners(&self) -> Vec<Option<usize>> {
        self.owners.borrow().clone()
    }

    /// Returns how many partitions each member owns.
    pub(crate) fn owned(&self) -> Vec<usize> {
        let owners = self.owners.borrow();
        (0..MEMBERS.len()).map(|member| owners.iter().filter(|owner| **owner == Some(member)).count()).collect()
    }
}

/// A member works on a partition.
pub(crate) struct Working {
    board: Board,
    member: usize,
    partition: usize,
}

impl Drop for Working {
    fn drop(&mut self) {
        self.board.owners.send_if_modified(|owners| {
            // A member that was stopped learns late that it owns nothing any more.
            let is_owner = owners[self.partition] == Some(self.member);
            if is_owner {
                owners[self.partition] = None;
            }
            is_owner
        });
    }
}
