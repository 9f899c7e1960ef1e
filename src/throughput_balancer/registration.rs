//! A member's two nodes: its record, and next to it how far it follows. Both go with its session, together.

use std::sync::Arc;

use futures::stream::{StreamExt, TryStreamExt};

use super::paths::Paths;
use super::record::{Record, Stamp};
use crate::backend::{self, Multi, Op};
use crate::client::core::Core;
use crate::client::session::Session;
use crate::client::{Error, parents};
use crate::path::{join, split};
use crate::types::CreateMode;

/// How many records are read at once.
pub(super) const AT_ONCE: usize = 256;

/// What is needed to register, and what a member's nodes are.
#[derive(Debug, Clone)]
pub(super) struct Registrar {
    pub(super) core: Arc<Core>,
    pub(super) paths: Arc<Paths>,
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
    pub(super) acked: Stamp,
    /// A change of it that was handed over and not answered.
    intent: Option<Stamp>,
}

/// Why there is no registration.
#[derive(Debug)]
pub(super) enum Failed {
    SessionOver,
    Refused(Error),
}

impl Registrar {
    /// Creates both nodes, and the directories if they are missing. `in_doubt` if this session may have a node already, of an
    /// earlier try. Not to be dropped half way, but with its session: whoever gives up waits for it and then deletes them.
    pub(super) async fn register(
        &self,
        session: &Arc<Session>,
        record: Record,
        mut in_doubt: bool,
    ) -> Result<Registered, Failed> {
        let path = loop {
            let connection = session.connected().await.map_err(|_| Failed::SessionOver)?;
            let outcome = if in_doubt { self.find(session, &record.id).await } else { Ok(None) };
            let outcome = match outcome {
                Ok(Some(path)) => break path,
                Ok(None) => {
                    in_doubt = true;
                    self.create(session, &record).await
                }
                Err(error) => Err(error),
            };
            match outcome {
                Ok(path) => break path,
                Err(backend::Error::NoNode) => in_doubt = false,
                Err(error) => self.pass(session, connection, error).await?,
            }
        };
        let registered = Registered {
            session: Arc::clone(session),
            name: split(&path).1.to_owned(),
            record,
            version: 0,
            acked: Stamp::default(),
            intent: None,
        };
        loop {
            let connection = session.connected().await.map_err(|_| Failed::SessionOver)?;
            match self.create_ack(&registered, Stamp::default()).await {
                Ok(()) => return Ok(registered),
                Err(backend::Error::NoNode) => {
                    if let Err(error) = self.directories(session).await {
                        self.pass(session, connection, error).await?;
                    }
                }
                Err(error) => {
                    if let Err(failed) = self.pass(session, connection, error).await {
                        // What stays is found by the next try.
                        if let Err(error) = self.remove(session, &registered).await {
                            self.core.report(error);
                        }
                        return Err(failed);
                    }
                }
            }
        }
    }

    /// Waits for what passes by itself.
    async fn pass(&self, session: &Session, connection: u64, error: backend::Error) -> Result<(), Failed> {
        if !error.is_passing() {
            return Err(Failed::Refused(Error::from_backend("register at", &self.paths.base, error)));
        }
        session.connected_after_loss(connection).await.map(drop).map_err(|_| Failed::SessionOver)
    }

    async fn create(&self, session: &Arc<Session>, record: &Record) -> Result<String, backend::Error> {
        let (at, acls) = (self.paths.new_member(), &self.core.config.acls);
        match session.create(&at, &record.bytes(), CreateMode::EphemeralSequential, acls).await {
            Ok((path, _)) => Ok(path),
            Err(backend::Error::NoNode) => {
                self.directories(session).await?;
                Err(backend::Error::NoNode)
            }
            Err(error) => Err(error),
        }
    }

    /// All of them are persistent: names must not be given twice, also when nobody was there for a while.
    pub(super) async fn directories(&self, session: &Arc<Session>) -> Result<(), backend::Error> {
        let acls = &self.core.config.acls;
        for dir in [&self.paths.members, &self.paths.acks, &self.paths.config, &self.paths.epoch] {
            parents::create_persistent(session, dir, acls).await?;
        }
        Ok(())
    }

    /// Looks for a record whose create was not answered, the newest first. It counts only if our live session owns it.
    async fn find(&self, session: &Arc<Session>, id: &str) -> Result<Option<String>, backend::Error> {
        let dir = &self.paths.members;
        let (sync, list) = futures::join!(session.sync(dir), session.list_children(dir));
        sync?;
        let mut names = match list {
            Ok((names, _)) => names,
            Err(backend::Error::NoNode) => return Ok(None),
            Err(error) => return Err(error),
        };
        names.sort_unstable_by(|one, other| other.cmp(one));
        let mut reads = futures::stream::iter(names)
            .map(|name| async move {
                let path = join(dir, &name);
                match session.get_data(&path).await {
                    Ok((data, stat)) => {
                        let ours = stat.ephemeral_owner == session.id()
                            && Record::parse(&data).is_ok_and(|record| record.id == id);
                        Ok(ours.then_some(path))
                    }
                    // Gone by now, or hidden from us: our own may be read.
                    Err(backend::Error::NoNode | backend::Error::NoAuth) => Ok(None),
                    Err(error) => Err(error),
                }
            })
            .buffered(AT_ONCE);
        while let Some(found) = reads.try_next().await? {
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    async fn create_ack(&self, of: &Registered, stamp: Stamp) -> Result<(), backend::Error> {
        let (path, acls) = (self.paths.ack(&of.name, stamp), &self.core.config.acls);
        match of.session.create(&path, &[], CreateMode::Ephemeral, acls).await {
            // The name is nobody else's.
            Ok(_) | Err(backend::Error::NodeExists) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Says that everything up to `stamp` is followed. Repeated after a lost answer it comes to the same.
    pub(super) async fn acknowledge(&self, of: &mut Registered, stamp: Stamp) -> Result<(), backend::Error> {
        loop {
            let next = *of.intent.get_or_insert(stamp);
            let old = Op::Delete { path: self.paths.ack(&of.name, of.acked), version: None };
            let new = Op::Create {
                path: self.paths.ack(&of.name, next),
                data: Vec::new(),
                mode: CreateMode::Ephemeral,
                acls: self.core.config.acls.clone(),
            };
            match of.session.multi(vec![old, new]).await? {
                Multi::Committed(_) => {}
                // It was done before, or the old one was deleted by somebody.
                Multi::Refused { index: 0, error: backend::Error::NoNode } => self.create_ack(of, next).await?,
                Multi::Refused { error, .. } => return Err(error),
            }
            (of.acked, of.intent) = (next, None);
            if next >= stamp {
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

    /// Together if all are there and as they were read last, as usual; otherwise one by one. A node of somebody else, who was
    /// given the name after the directory was deleted by hand, is left alone.
    async fn delete(&self, session: &Arc<Session>, of: &Registered) -> Result<(), backend::Error> {
        let member = self.paths.member(&of.name);
        let acks = [Some(of.acked), of.intent].into_iter().flatten().map(|stamp| self.paths.ack(&of.name, stamp));
        let acks: Vec<String> = acks.collect();
        let together = std::iter::once((&member, Some(of.version))).chain(acks.iter().map(|ack| (ack, None)));
        let together = together.map(|(path, version)| Op::Delete { path: path.clone(), version }).collect();
        if let Multi::Committed(_) = session.multi(together).await? {
            return Ok(());
        }
        for path in acks.iter().chain([&member]) {
            delete_owned(session, path, of.session.id()).await?;
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
