//! One session of a client, as the recipes see it: requests that feed the lease, and what became of it.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::watch;

use super::lease::{Grant, Lease, Proof, Sent};
use super::requests::{Request, RequestLog};
use crate::backend::{self, Multi, Op, Reply, Watch};
use crate::types::{Acl, CreateMode, Stat};

/// What a session is good for at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Usable; the number grows with every connection.
    Connected(u64),
    /// Cut off, or past its lease: it may come back.
    Suspended,
    /// Over for good.
    Ended(EndReason),
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndReason {
    /// It expired, by the word of the client crate: its nodes are gone, unless the crate only guessed.
    Expired,
    /// We stopped believing in it: its nodes may stand until the server expires it.
    GivenUp,
    /// The server refused the credentials; its nodes may stand until the server expires it.
    Refused,
    /// The client was closed.
    Closed,
}

/// One session.
#[derive(Debug)]
pub(crate) struct Session {
    backend: Arc<dyn backend::Session>,
    lease: Lease,
    condition: watch::Sender<Condition>,
    log: Arc<RequestLog>,
    /// A node of this session's own, for heartbeats that only check it.
    own_nodes: Mutex<Vec<Arc<str>>>,
    contenders: AtomicUsize,
}

impl Session {
    pub(crate) fn new(backend: Arc<dyn backend::Session>, lease: Lease, log: Arc<RequestLog>) -> Self {
        Session {
            backend,
            lease,
            condition: watch::Sender::new(Condition::Connected(0)),
            log,
            own_nodes: Mutex::default(),
            contenders: AtomicUsize::new(0),
        }
    }

    pub(crate) fn id(&self) -> i64 {
        self.backend.id()
    }

    /// The id as the servers log it.
    pub(crate) fn label(&self) -> String {
        format!("{:#x}", self.id())
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.backend.timeout()
    }

    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    pub(crate) fn condition(&self) -> Condition {
        *self.condition.borrow()
    }

    pub(crate) fn conditions(&self) -> watch::Receiver<Condition> {
        self.condition.subscribe()
    }

    pub(crate) fn set_condition(&self, condition: Condition) {
        self.condition.send_replace(condition);
    }

    /// Ends all beliefs first, then tells.
    pub(crate) fn end(&self, reason: EndReason) {
        self.lease.end();
        self.set_condition(Condition::Ended(reason));
    }

    pub(crate) fn close(&self) -> futures::future::BoxFuture<'static, ()> {
        self.backend.close()
    }

    /// Waits until the session is connected; the reason if it is over instead.
    pub(crate) async fn connected(&self) -> Result<u64, EndReason> {
        let mut conditions = self.conditions();
        loop {
            match *conditions.borrow_and_update() {
                Condition::Connected(connection) => return Ok(connection),
                Condition::Ended(reason) => return Err(reason),
                Condition::Suspended => {}
            }
            if conditions.changed().await.is_err() {
                return Err(EndReason::Closed);
            }
        }
    }

    /// As [`connected`](Self::connected), and waits as well until the lease is valid: a process that stood still for longer
    /// than its session lives does not know that yet, nor that its connection is dead.
    pub(crate) async fn proven(&self) -> Result<u64, EndReason> {
        let mut conditions = self.conditions();
        loop {
            // Made before the lease is looked at, so no extension is missed.
            let extended = self.lease.extended();
            conditions.mark_unchanged();
            let connection = self.connected().await?;
            if self.lease.is_proven() {
                return Ok(connection);
            }
            tokio::select! {
                biased;
                _ = conditions.changed() => {}
                () = extended => {}
            }
        }
    }

    /// Waits, after a request failed for want of a connection, until a retry makes sense.
    pub(crate) async fn connected_after_loss(&self, connection: u64) -> Result<u64, EndReason> {
        self.loss_known(connection).await;
        self.connected().await
    }

    /// Waits, after a request failed for want of a connection, until the session's condition tells of the loss: that takes
    /// a moment.
    pub(crate) async fn loss_known(&self, connection: u64) {
        let mut conditions = self.conditions();
        let changed = conditions.wait_for(|condition| *condition != Condition::Connected(connection));
        // A server that cuts a single request off (too large, overloaded) may leave the condition as it is.
        let _ = tokio::time::timeout(self.lease.tick(), changed).await;
    }

    /// Counts one more in the lines of this session, so that a reconnect is not answered by all of them at once.
    pub(crate) fn contender(self: &Arc<Self>) -> Contending {
        self.contenders.fetch_add(1, Ordering::Relaxed);
        Contending(Arc::clone(self))
    }

    pub(crate) fn contenders(&self) -> usize {
        self.contenders.load(Ordering::Relaxed)
    }

    pub(crate) fn add_own_node(&self, path: &Arc<str>) {
        self.own_nodes.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(path));
    }

    pub(crate) fn remove_own_node(&self, path: &str) {
        let mut nodes = self.own_nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = nodes.iter().position(|node| &**node == path) {
            nodes.swap_remove(index);
        }
    }

    /// A sync that keeps the lease.
    pub(crate) fn heartbeat(self: &Arc<Self>) -> Answer<()> {
        let sent = self.send(Request::Heartbeat);
        self.answer(sent, Proof::Leader, self.backend.sync("/"))
    }

    /// As [`heartbeat`](Self::heartbeat), but a quorum must have seen it: a multi that checks a node of our own. A plain
    /// one while there is none.
    pub(crate) fn quorum_heartbeat(self: &Arc<Self>) -> Answer<()> {
        let node = self.own_nodes.lock().unwrap_or_else(PoisonError::into_inner).last().cloned();
        let Some(node) = node else { return self.heartbeat() };
        let sent = self.send(Request::Heartbeat);
        let reply = self.backend.multi(vec![Op::Check { path: node.to_string(), version: None }]);
        // Whether the check held is the business of whoever watches the node.
        self.answer(sent, Proof::Leader, Box::pin(async move { reply.await.map(drop) }))
    }

    pub(crate) fn create(
        self: &Arc<Self>,
        path: &str,
        data: &[u8],
        mode: CreateMode,
        acls: &[Acl],
    ) -> Answer<(String, Stat)> {
        let sent = self.send(Request::Create);
        self.answer(sent, Proof::Leader, self.backend.create(path, data, mode, acls))
    }

    pub(crate) fn delete(self: &Arc<Self>, path: &str, version: Option<i32>) -> Answer<()> {
        let sent = self.send(Request::Delete);
        self.answer(sent, Proof::Leader, self.backend.delete(path, version))
    }

    pub(crate) fn exists(self: &Arc<Self>, path: &str) -> Answer<Option<Stat>> {
        let sent = self.send(Request::Read);
        self.answer(sent, Proof::Follower, self.backend.exists(path))
    }

    pub(crate) fn watch_exists(self: &Arc<Self>, path: &str) -> Answer<(Option<Stat>, Watch)> {
        let sent = self.send(Request::Watch);
        self.answer(sent, Proof::Follower, self.backend.watch_exists(path))
    }

    pub(crate) fn get_data(self: &Arc<Self>, path: &str) -> Answer<(Vec<u8>, Stat)> {
        let sent = self.send(Request::Read);
        self.answer(sent, Proof::Follower, self.backend.get_data(path))
    }

    pub(crate) fn watch_data(self: &Arc<Self>, path: &str) -> Answer<(Vec<u8>, Stat, Watch)> {
        let sent = self.send(Request::Watch);
        self.answer(sent, Proof::Follower, self.backend.watch_data(path))
    }

    pub(crate) fn set_data(self: &Arc<Self>, path: &str, data: &[u8], version: Option<i32>) -> Answer<Stat> {
        let sent = self.send(Request::SetData);
        self.answer(sent, Proof::Leader, self.backend.set_data(path, data, version))
    }

    pub(crate) fn list_children(self: &Arc<Self>, path: &str) -> Answer<(Vec<String>, Stat)> {
        let sent = self.send(Request::List);
        self.answer(sent, Proof::Follower, self.backend.list_children(path))
    }

    pub(crate) fn watch_children(self: &Arc<Self>, path: &str) -> Answer<(Vec<String>, Stat, Watch)> {
        let sent = self.send(Request::Watch);
        self.answer(sent, Proof::Follower, self.backend.watch_children(path))
    }

    pub(crate) fn multi(self: &Arc<Self>, ops: Vec<Op>) -> Answer<Multi> {
        let sent = self.send(Request::Multi);
        self.answer(sent, Proof::Leader, self.backend.multi(ops))
    }

    pub(crate) fn sync(self: &Arc<Self>, path: &str) -> Answer<()> {
        let sent = self.send(Request::Sync);
        self.answer(sent, Proof::Leader, self.backend.sync(path))
    }

    fn send(&self, request: Request) -> Sent {
        self.log.count(request);
        self.lease.sent()
    }

    fn answer<T>(self: &Arc<Self>, sent: Sent, proof: Proof, reply: Reply<T>) -> Answer<T> {
        Answer { session: Arc::clone(self), sent, proof, reply }
    }

    /// What an owned node of this session lets one believe, if the lease is valid now.
    pub(crate) fn grant(&self) -> Option<Grant> {
        self.lease.grant()
    }
}

/// One contender of a session; see [`Session::contender`].
#[derive(Debug)]
pub(crate) struct Contending(Arc<Session>);

impl Drop for Contending {
    fn drop(&mut self) {
        self.0.contenders.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The wait for the reply to a request that was handed over; the reply counts as evidence for the lease.
#[must_use = "the request was sent; its outcome should be looked at"]
pub(crate) struct Answer<T> {
    session: Arc<Session>,
    sent: Sent,
    proof: Proof,
    reply: Reply<T>,
}

impl<T> std::fmt::Debug for Answer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer").field("sent", &self.sent).finish_non_exhaustive()
    }
}

impl<T> Future for Answer<T> {
    type Output = Result<T, backend::Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = self.reply.as_mut().poll(cx);
        if let Poll::Ready(outcome) = &polled {
            let answered = match outcome {
                Ok(_) => true,
                Err(error) => error.is_verdict(),
            };
            if answered {
                self.session.lease.answered(self.sent, self.proof);
            }
        }
        polled
    }
}
