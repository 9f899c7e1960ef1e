//! A member's pair of nodes: its record and its acknowledgement. They are created together and end with its session.

use std::sync::Arc;

use crate::client::core::Core;
use crate::client::session::Session;
use crate::client::{Error, parents};
use crate::engine::{self, Multi, Op};
use crate::layout::throughput_balancer::{Decision, Paths, member_name};
use crate::throughput_balancer::record::Record;
use crate::util::znode::CreateMode;

/// Creates, moves and deletes the nodes of members.
#[derive(Debug, Clone)]
pub(in crate::recipes::throughput_balancer) struct Registrar {
    pub(in crate::recipes::throughput_balancer) core: Arc<Core>,
    pub(in crate::recipes::throughput_balancer) paths: Arc<Paths>,
}

/// A member's nodes on one session.
#[derive(Debug)]
pub(super) struct Registered {
    pub(super) session: Arc<Session>,
    pub(super) name: String,
    /// The record that was written or read last, and the version of its node.
    pub(super) record: Record,
    pub(super) version: i32,
    /// What the second node acknowledges.
    pub(super) acked: Decision,
    /// The next acknowledgement, if it was sent and not answered.
    intent: Option<Decision>,
}

impl Registered {
    /// Returns the name that events use for the member.
    pub(super) fn display_name(&self) -> String {
        self.record.display_name(&self.name)
    }
}

/// Why there is no registration.
#[derive(Debug)]
pub(super) enum Failed {
    SessionOver,
    /// The nodes may exist, and have to be removed before the next attempt.
    Refused(Error, Option<Box<Registered>>),
}

impl Registrar {
    /// Creates both nodes in one transaction, and the directories if they are missing.
    ///
    /// The name is drawn first. So after a lost answer the same create is sent again, and one read of the node shows
    /// whose it is, however many members register at once.
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
            registered.name = match session.retry_while_transient(|| self.draw_name(session)).await {
                Ok(name) => name,
                Err(error) => return Err(self.failed(error, None)),
            };
            match session.retry_while_transient(|| self.create(&registered)).await {
                Ok(true) => return Ok(registered),
                // A node of that name exists, or one of ours was deleted by hand: delete what is left of ours and draw
                // another name.
                Ok(false) => match session.retry_while_transient(|| self.delete_owned(session, &registered)).await {
                    Ok(()) => {}
                    Err(error) => return Err(self.failed(error, Some(registered))),
                },
                Err(error) => return Err(self.failed(error, Some(registered))),
            }
        }
    }

    fn failed(&self, error: engine::Error, left: Option<Registered>) -> Failed {
        match error {
            engine::Error::SessionEnded => Failed::SessionOver,
            error => Failed::Refused(Error::from_engine("register at", &self.paths.base, error), left.map(Box::new)),
        }
    }

    /// Returns a name that no other member has: the directory counts its writes.
    async fn draw_name(&self, session: &Arc<Session>) -> Result<String, engine::Error> {
        loop {
            match session.set_data(&self.paths.members, &[], None).await {
                Ok(stat) => return Ok(member_name(stat.version.wrapping_sub(1).cast_unsigned())),
                Err(engine::Error::NoNode) => self.directories(session).await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Creates the nodes. Returns whether they are ours.
    async fn create(&self, of: &Registered) -> Result<bool, engine::Error> {
        let member = self.paths.member(&of.name);
        loop {
            let record = self.create_op(member.clone(), of.record.bytes());
            let ack = self.create_op(self.paths.ack(&of.name, of.acked), Vec::new());
            match of.session.multi(vec![record, ack]).await? {
                Multi::Committed(_) => return Ok(true),
                Multi::Refused { error: engine::Error::NoNode, .. } => self.directories(&of.session).await?,
                Multi::Refused { error: engine::Error::NodeExists, .. } => {
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

    /// Creates all directories. They are persistent, because names must not be reused even if all members have left.
    pub(in crate::recipes::throughput_balancer) async fn directories(
        &self,
        session: &Arc<Session>,
    ) -> Result<(), engine::Error> {
        let acls = &self.core.config.acls;
        for dir in [&self.paths.members, &self.paths.acks, &self.paths.config, &self.paths.epoch] {
            parents::create_persistent(session, dir, acls).await?;
        }
        Ok(())
    }

    async fn create_ack(&self, of: &Registered, decision: Decision) -> Result<(), engine::Error> {
        let (path, acls) = (self.paths.ack(&of.name, decision), &self.core.config.acls);
        match of.session.create(&path, &[], CreateMode::Ephemeral, acls).await {
            // No other member has the name.
            Ok(_) | Err(engine::Error::NodeExists) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Acknowledges everything up to `decision`. Repeating it after a lost answer has the same result.
    pub(super) async fn acknowledge(&self, of: &mut Registered, decision: Decision) -> Result<(), engine::Error> {
        loop {
            let next = *of.intent.get_or_insert(decision);
            let old = Op::Delete { path: self.paths.ack(&of.name, of.acked), version: None };
            let new = self.create_op(self.paths.ack(&of.name, next), Vec::new());
            match of.session.multi(vec![old, new]).await? {
                Multi::Committed(_) => {}
                // An earlier request has moved the node, or it was deleted by hand.
                Multi::Refused { index: 0, error: engine::Error::NoNode } => self.create_ack(of, next).await?,
                Multi::Refused { error, .. } => return Err(error),
            }
            (of.acked, of.intent) = (next, None);
            if next >= decision {
                return Ok(());
            }
        }
    }

    /// Deletes both nodes. Returns when they are gone or the session is over.
    pub(super) async fn remove(&self, session: &Arc<Session>, of: &Registered) -> Result<(), Error> {
        match session.retry_while_transient(|| self.delete(session, of)).await {
            Ok(()) | Err(engine::Error::SessionEnded) => Ok(()),
            Err(error) => Err(Error::from_engine("delete the nodes of a member in", &self.paths.base, error)),
        }
    }

    /// Deletes all nodes in one transaction if they are unchanged since the last read; otherwise one by one.
    async fn delete(&self, session: &Arc<Session>, of: &Registered) -> Result<(), engine::Error> {
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

    /// Deletes what is left of both nodes, but not a node of another member, which may have the same name after the
    /// directory was deleted by hand.
    async fn delete_owned(&self, session: &Arc<Session>, of: &Registered) -> Result<(), engine::Error> {
        let acks = [Some(of.acked), of.intent].into_iter().flatten().map(|decision| self.paths.ack(&of.name, decision));
        for path in acks.chain([self.paths.member(&of.name)]) {
            delete_owned(session, &path, of.session.id()).await?;
        }
        Ok(())
    }
}

/// Deletes a node that this session owns, if there is one.
async fn delete_owned(session: &Arc<Session>, path: &str, owner: i64) -> Result<(), engine::Error> {
    loop {
        let outcome = match session.exists(path).await? {
            Some(stat) if stat.ephemeral_owner == owner => session.delete(path, Some(stat.version)).await,
            _ => return Ok(()),
        };
        match outcome {
            Ok(()) | Err(engine::Error::NoNode) => return Ok(()),
            // A leader has just written it.
            Err(engine::Error::BadVersion) => {}
            Err(error) => return Err(error),
        }
    }
}
