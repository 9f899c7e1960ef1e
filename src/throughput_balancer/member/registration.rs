//! A member's pair of nodes: its record, and its acknowledgement. They come, and go with its session, together.

use std::sync::Arc;

use crate::backend::{self, Multi, Op};
use crate::client::core::Core;
use crate::client::session::Session;
use crate::client::{Error, parents};
use crate::throughput_balancer::record::{Decision, Record};
use crate::throughput_balancer::znodes::{Paths, member_name};
use crate::types::CreateMode;

/// Creates, moves and deletes the nodes of members.
#[derive(Debug, Clone)]
pub(in crate::throughput_balancer) struct Registrar {
    pub(in crate::throughput_balancer) core: Arc<Core>,
    pub(in crate::throughput_balancer) paths: Arc<Paths>,
}

/// A member's nodes on one session.
#[derive(Debug)]
pub(super) struct Registered {
    pub(super) session: Arc<Session>,
    pub(super) name: String,
    /// The record that was written, or read last, and the version of its node.
    pub(super) record: Record,
    pub(super) version: i32,
    /// What the second node says.
    pub(super) acked: Decision,
    /// A change of it that was sent and not answered.
    intent: Option<Decision>,
}

/// Why there is no registration.
#[derive(Debug)]
pub(super) enum Failed {
    SessionOver,
    /// The nodes may exist, and have to be removed before the next try.
    Refused(Error, Option<Box<Registered>>),
}

impl Registrar {
    /// Creates both nodes in one transaction, and the directories if they are missing.
    ///
    /// The name is drawn first. So after a lost answer the same create is sent again, and one look at the node tells whose it
    /// is, however many members register at once.
    pub(super) async fn register(&self, session: &Arc<Session>, record: Record) -> Result<Registered, Failed> {
        let mut registered = Registered {
            session: Arc::clone(session),
            name: String::new(),
            record,
            version: 0,
            acked: Decision::default(),
            intent: None,
        };
        loop {
            registered.name = match session.retry_while_passing(|| self.draw_name(session)).await {
                Ok(name) => name,
                Err(error) => return Err(self.failed(error, None)),
            };
            match session.retry_while_passing(|| self.create(&registered)).await {
                Ok(true) => return Ok(registered),
                // A node of that name exists, or one of ours was deleted by hand: what is ours goes, and another name is drawn.
                Ok(false) => match session.retry_while_passing(|| self.delete_owned(session, &registered)).await {
                    Ok(()) => {}
                    Err(error) => return Err(self.failed(error, Some(registered))),
                },
                Err(error) => return Err(self.failed(error, Some(registered))),
            }
        }
    }

    fn failed(&self, error: backend::Error, left: Option<Registered>) -> Failed {
        match error {
            backend::Error::SessionEnded => Failed::SessionOver,
            error => Failed::Refused(Error::from_backend("register at", &self.paths.base, error), left.map(Box::new)),
        }
    }

    /// Returns a name that no other member has: the directory counts its writes.
    async fn draw_name(&self, session: &Arc<Session>) -> Result<String, backend::Error> {
        loop {
            match session.set_data(&self.paths.members, &[], None).await {
                Ok(stat) => return Ok(member_name(stat.version.wrapping_sub(1).cast_unsigned())),
                Err(backend::Error::NoNode) => self.directories(session).await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether the nodes are ours now.
    async fn create(&self, of: &Registered) -> Result<bool, backend::Error> {
        let member = self.paths.member(&of.name);
        loop {
            let record = self.create_op(member.clone(), of.record.bytes());
            let ack = self.create_op(self.paths.ack(&of.name, of.acked), Vec::new());
            match of.session.multi(vec![record, ack]).await? {
                Multi::Committed(_) => return Ok(true),
                Multi::Refused { error: backend::Error::NoNode, .. } => self.directories(&of.session).await?,
                Multi::Refused { error: backend::Error::NodeExists, .. } => {
                    let found = of.session.exists(&member).await?;
                    return Ok(found.is_some_and(|stat| stat.ephemeral_owner == of.session.id()));
                }
                Multi::Refused { error, .. } => return Err(error),
            }
        }
    }

    fn create_op(&self, path: String, data: Vec<u8>) -> Op {
        Op::Create { path, data, mode: CreateMode::Ephemeral, acls: self.core.config.acls.clone() }
    }

    /// Creates all directories, which are persistent: names must not be given twice, also after all members have left.
    pub(in crate::throughput_balancer) async fn directories(
        &self,
        session: &Arc<Session>,
    ) -> Result<(), backend::Error> {
        let acls = &self.core.config.acls;
        for dir in [&self.paths.members, &self.paths.acks, &self.paths.config, &self.paths.epoch] {
            parents::create_persistent(session, dir, acls).await?;
        }
        Ok(())
    }

    async fn create_ack(&self, of: &Registered, decision: Decision) -> Result<(), backend::Error> {
        let (path, acls) = (self.paths.ack(&of.name, decision), &self.core.config.acls);
        match of.session.create(&path, &[], CreateMode::Ephemeral, acls).await {
            // No other member has the name.
            Ok(_) | Err(backend::Error::NodeExists) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Says that everything up to `decision` is followed. Repeated after a lost answer it comes to the same.
    pub(super) async fn acknowledge(&self, of: &mut Registered, decision: Decision) -> Result<(), backend::Error> {
        loop {
            let next = *of.intent.get_or_insert(decision);
            let old = Op::Delete { path: self.paths.ack(&of.name, of.acked), version: None };
            let new = self.create_op(self.paths.ack(&of.name, next), Vec::new());
            match of.session.multi(vec![old, new]).await? {
                Multi::Committed(_) => {}
                // It was done before, or the old one was deleted by hand.
                Multi::Refused { index: 0, error: backend::Error::NoNode } => self.create_ack(of, next).await?,
                Multi::Refused { error, .. } => return Err(error),
            }
            (of.acked, of.intent) = (next, None);
            if next >= decision {
                return Ok(());
            }
        }
    }

    /// Deletes both nodes and returns when they are gone, or the session is over.
    pub(super) async fn remove(&self, session: &Arc<Session>, of: &Registered) -> Result<(), Error> {
        while let Ok(connection) = session.connected().await {
            match self.delete(session, of).await {
                Ok(()) => return Ok(()),
                Err(error) if error.is_passing() => {
                    // The next round looks at what came of it.
                    let _ = session.connected_after_loss(connection).await;
                }
                Err(error) => {
                    return Err(Error::from_backend("delete the nodes of a member in", &self.paths.base, error));
                }
            }
        }
        Ok(())
    }

    /// Together if all are there and as they were read last, as usual; otherwise one by one.
    async fn delete(&self, session: &Arc<Session>, of: &Registered) -> Result<(), backend::Error> {
        let member = self.paths.member(&of.name);
        let acks = [Some(of.acked), of.intent].into_iter().flatten().map(|decision| self.paths.ack(&of.name, decision));
        let acks: Vec<String> = acks.collect();
        let together = std::iter::once((&member, Some(of.version))).chain(acks.iter().map(|ack| (ack, None)));
        let together = together.map(|(path, version)| Op::Delete { path: path.clone(), version }).collect();
        match session.multi(together).await? {
            Multi::Committed(_) => Ok(()),
            Multi::Refused { .. } => self.delete_owned(session, of).await,
        }
    }

    /// Deletes what there is of both nodes. A node of another member, which was given the name after the directory was deleted
    /// by hand, is left alone.
    async fn delete_owned(&self, session: &Arc<Session>, of: &Registered) -> Result<(), backend::Error> {
        let acks = [Some(of.acked), of.intent].into_iter().flatten().map(|decision| self.paths.ack(&of.name, decision));
        for path in acks.chain([self.paths.member(&of.name)]) {
            delete_owned(session, &path, of.session.id()).await?;
        }
        Ok(())
    }
}

/// Deletes a node that this session owns, if there is one.
async fn delete_owned(session: &Arc<Session>, path: &str, owner: i64) -> Result<(), backend::Error> {
    loop {
        let outcome = match session.exists(path).await? {
            Some(stat) if stat.ephemeral_owner == owner => session.delete(path, Some(stat.version)).await,
            _ => return Ok(()),
        };
        match outcome {
            Ok(()) | Err(backend::Error::NoNode) => return Ok(()),
            // A leader has written it just now.
            Err(backend::Error::BadVersion) => {}
            Err(error) => return Err(error),
        }
    }
}
