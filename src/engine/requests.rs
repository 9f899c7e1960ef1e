//! The requests of a session. Checks their arguments, adds the chroot to paths, and strips it from answers.
//!
//! A request is handed over *when its method is called*, in the order of the calls. The returned future only waits for
//! the reply; dropping it does not cancel the request. While a session is not connected, a request is refused at once
//! ([`Error::NotConnected`]) and is never sent later.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
#[cfg(test)]
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::StreamExt;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::check;
use super::error::Error;
use super::events::{Event, PersistentEvent, PersistentWatch, Watch, WatchMode};
use super::ops::{Multi, Op, OpResult};
use super::outstanding::{Answer, WantedWatch};
use super::refusal::refusal;
use super::shared::{HeldWatch, Shared};
use super::watches::{Armed, Kind};
use crate::protocol::{
    AddWatchRequest, AnyResponse, CheckRequest, CreateRequest, CreateTtlRequest, DeleteRequest, ExistsRequest,
    GetAclRequest, GetChildren2Request, GetDataRequest, GetDataResponse, MultiOp, MultiReadRequest, MultiRequest,
    MultiResponse, MultiResult, OpCode, PlainCreateRequest, ReadOp, Request, SetDataRequest, SyncRequest,
};
use crate::util::path::Namespace;
use crate::util::znode::{Acl, CreateMode, Stat};

/// The outcome of one request, once its reply has arrived.
pub(crate) type Reply<T> = BoxFuture<'static, Result<T, Error>>;

/// The outcome of many reads: the data and the stat of each node, or the error of its read.
pub(crate) type ManyRead = Vec<Result<(Vec<u8>, Stat), Error>>;

/// One ZooKeeper session. Dropping it closes the session.
pub(crate) struct Session {
    shared: Arc<Shared>,
    id: i64,
    chroot: Namespace,
}

impl Session {
    pub(crate) fn new(shared: Arc<Shared>, id: i64, chroot: Option<&str>) -> Self {
        // A chroot that the connect string accepts is a valid path; without one the root is used.
        Session { shared, id, chroot: Namespace::new(chroot.unwrap_or("/")).unwrap_or_default() }
    }

    fn full(&self, path: &str) -> String {
        self.chroot.full(path)
    }

    /// Hands a request over, and extracts the result from its answer.
    fn request<T: Send + 'static>(
        &self,
        checked: Result<(), Error>,
        request: &impl Request,
        take: impl FnOnce(Result<AnyResponse, Error>) -> Result<T, Error> + Send + 'static,
    ) -> Reply<T> {
        match self.hand_over(checked, request, None) {
            Ok(answer) => async move { take(received(answer).await.outcome) }.boxed(),
            Err(error) => refused(error),
        }
    }

    /// Like `request`, for a request that arms a watch.
    fn watching<T: Send + 'static>(
        &self,
        kind: Kind,
        path: &str,
        full: &str,
        request: &impl Request,
        take: impl FnOnce(Result<AnyResponse, Error>) -> Result<T, Error> + Send + 'static,
    ) -> Reply<(T, HeldWatch)> {
        match self.hand_over(check::node(path), request, Some(WantedWatch { kind, path: Arc::from(full) })) {
            Ok(answer) => async move {
                let Answer { outcome, watch } = received(answer).await;
                let taken = take(outcome)?;
                Ok((taken, watch.ok_or_else(unexpected)?))
            }
            .boxed(),
            Err(error) => refused(error),
        }
    }

    fn hand_over(
        &self,
        checked: Result<(), Error>,
        request: &impl Request,
        watch: Option<WantedWatch>,
    ) -> Result<oneshot::Receiver<Answer<HeldWatch>>, Error> {
        let link = &self.shared.link;
        match checked {
            Ok(()) => link.hand_over(request, watch),
            Err(fault) => Err(if link.is_open() { fault } else { Error::NotConnected }),
        }
    }
}

/// Waits for the answer. Every request gets one.
async fn received(answer: oneshot::Receiver<Answer<HeldWatch>>) -> Answer<HeldWatch> {
    answer.await.unwrap_or(Answer { outcome: Err(Error::SessionEnded), watch: None })
}

fn refused<T: Send + 'static>(error: Error) -> Reply<T> {
    futures::future::ready(Err(error)).boxed()
}

fn unexpected() -> Error {
    Error::Other("received an answer of another kind of request".to_owned())
}

fn stat(answer: AnyResponse) -> Result<Stat, Error> {
    match answer {
        AnyResponse::Stat(stat) => Ok(stat),
        _ => Err(unexpected()),
    }
}

fn found(outcome: Result<AnyResponse, Error>) -> Result<Option<Stat>, Error> {
    match outcome {
        Ok(answer) => stat(answer).map(Some),
        Err(Error::NoNode) => Ok(None),
        Err(error) => Err(error),
    }
}

fn data(outcome: Result<AnyResponse, Error>) -> Result<(Vec<u8>, Stat), Error> {
    match outcome? {
        AnyResponse::GetData(found) => Ok(content(found)),
        _ => Err(unexpected()),
    }
}

fn content(found: GetDataResponse) -> (Vec<u8>, Stat) {
    (found.data.map(Vec::from).unwrap_or_default(), found.stat)
}

fn children(outcome: Result<AnyResponse, Error>) -> Result<(Vec<String>, Stat), Error> {
    match outcome? {
        AnyResponse::GetChildren2(found) => Ok((found.children, found.stat)),
        _ => Err(unexpected()),
    }
}

fn any_version(version: Option<i32>) -> i32 {
    version.unwrap_or(-1)
}

/// Returns a step with its full path. Uses create on servers that lack create2.
fn step<'a>(op: &'a Op, full: &'a str, has_create2: bool) -> MultiOp<'a> {
    match op {
        Op::Check { version, .. } => MultiOp::Check(CheckRequest { path: full, version: any_version(*version) }),
        Op::Create { data, mode: CreateMode::PersistentTtl(ttl), acls, .. } => {
            MultiOp::CreateTtl(CreateTtlRequest::new(full, data, acls, *ttl))
        }
        Op::Create { data, mode, acls, .. } => match MultiOp::create(CreateRequest::new(full, data, acls, *mode)) {
            MultiOp::Create2(create) if !has_create2 => MultiOp::Create(create),
            step => step,
        },
        Op::SetData { data, version, .. } => {
            MultiOp::SetData(SetDataRequest { path: full, data: Some(data), version: any_version(*version) })
        }
        Op::Delete { version, .. } => MultiOp::Delete(DeleteRequest { path: full, version: any_version(*version) }),
    }
}

fn path_of(op: &Op) -> &str {
    match op {
        Op::Check { path, .. } | Op::Create { path, .. } | Op::SetData { path, .. } | Op::Delete { path, .. } => path,
    }
}

fn committed(response: MultiResponse, needs: OpCode, chroot: &Namespace) -> Result<Multi, Error> {
    if let Some((index, code)) = response.refused() {
        return Ok(Multi::Refused { index, error: refusal(code, needs) });
    }
    let results = response.results.into_iter().map(|result| match result {
        MultiResult::Check => Ok(OpResult::Check),
        MultiResult::Create(created) => Ok(OpResult::Create { path: chroot.strip(&created.path).to_owned() }),
        MultiResult::Create2(created) => Ok(OpResult::Create { path: chroot.strip(&created.path).to_owned() }),
        MultiResult::SetData(stat) => Ok(OpResult::SetData { stat }),
        MultiResult::Delete => Ok(OpResult::Delete),
        MultiResult::GetData(_) | MultiResult::GetChildren(_) | MultiResult::Error(_) => Err(unexpected()),
    });
    results.collect::<Result<_, _>>().map(Multi::Committed)
}

/// Returns the results of `count` reads.
fn read(response: MultiResponse, count: usize) -> Result<ManyRead, Error> {
    let results = response.results.into_iter().map(|result| match result {
        MultiResult::GetData(found) => Ok(Ok(content(found))),
        MultiResult::Error(code) if !code.is_ok() => Ok(Err(refusal(code, OpCode::GetData))),
        _ => Err(unexpected()),
    });
    let results: ManyRead = results.collect::<Result<_, _>>()?;
    if results.len() == count { Ok(results) } else { Err(unexpected()) }
}

/// Returns the one-shot watch that the caller gets.
fn one_shot(HeldWatch { armed, hold }: HeldWatch) -> Result<Watch, Error> {
    let Armed::Once(fired) = armed else { return Err(unexpected()) };
    let event = async move {
        let arrived = fired.await.unwrap_or_else(|_| (Event::SessionEnded, Instant::now()));
        drop(hold);
        arrived
    };
    Ok(Watch::new(event.boxed()))
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("id", &format_args!("{:#x}", self.id)).finish()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Session {
    pub(crate) fn id(&self) -> i64 {
        self.id
    }

    /// Returns the session timeout that the servers granted on the latest connection.
    #[cfg(test)] // Other code has it from the lease.
    pub(crate) fn timeout(&self) -> Duration {
        self.shared.timeout()
    }

    /// Returns the latest zxid that an answer to this session carried: the tree is at least as new as that.
    pub(crate) fn latest_zxid(&self) -> i64 {
        self.shared.zxid.load(Ordering::Relaxed)
    }

    /// Resolves with the created path (with its sequence number) and the stat of the node.
    pub(crate) fn create(&self, path: &str, data: &[u8], mode: CreateMode, acls: &[Acl]) -> Reply<(String, Stat)> {
        let chroot = self.chroot.clone();
        let (checked, full) = (check::create(path, mode, acls.is_empty()), self.full(path));
        let take = move |outcome: Result<AnyResponse, Error>| match outcome? {
            AnyResponse::Create2(created) => Ok((chroot.strip(&created.path).to_owned(), created.stat)),
            _ => Err(unexpected()),
        };
        match mode {
            CreateMode::PersistentTtl(ttl) => {
                self.request(checked, &CreateTtlRequest::new(&full, data, acls, ttl), take)
            }
            _ => {
                let request = CreateRequest::new(&full, data, acls, mode);
                if request.op() == OpCode::Create2 && self.shared.link.lacks(OpCode::Create2) {
                    return self.create_then_stat(checked, request);
                }
                self.request(checked, &request, take)
            }
        }
    }

    /// Creates a node on servers that lack create2, then reads its stat.
    fn create_then_stat(&self, checked: Result<(), Error>, request: CreateRequest<'_>) -> Reply<(String, Stat)> {
        let (shared, chroot) = (Arc::clone(&self.shared), self.chroot.clone());
        let created = self.request(checked, &PlainCreateRequest(request), |outcome| match outcome? {
            AnyResponse::Create(created) => Ok(created.path),
            _ => Err(unexpected()),
        });
        async move {
            let full = created.await?;
            let looked = match shared.link.hand_over(&ExistsRequest { path: &full, watch: false }, None) {
                Ok(looked) => received(looked).await.outcome.and_then(stat),
                Err(error) => Err(error),
            };
            // The node was created, even if the read failed, was never sent or found no node. The caller must check, as
            // after a lost answer.
            let stat = looked.map_err(|_| Error::ConnectionLoss)?;
            Ok((chroot.strip(&full).to_owned(), stat))
        }
        .boxed()
    }

    pub(crate) fn delete(&self, path: &str, version: Option<i32>) -> Reply<()> {
        let request = DeleteRequest { path: &self.full(path), version: any_version(version) };
        self.request(check::delete(path), &request, |outcome| outcome.map(drop))
    }

    pub(crate) fn exists(&self, path: &str) -> Reply<Option<Stat>> {
        self.request(check::node(path), &ExistsRequest { path: &self.full(path), watch: false }, found)
    }

    pub(crate) fn watch_exists(&self, path: &str) -> Reply<(Option<Stat>, Watch)> {
        let full = self.full(path);
        let request = ExistsRequest { path: &full, watch: true };
        let reply = self.watching(Kind::Data, path, &full, &request, found);
        reply.map(|answer| answer.and_then(|(found, watch)| Ok((found, one_shot(watch)?)))).boxed()
    }

    pub(crate) fn get_data(&self, path: &str) -> Reply<(Vec<u8>, Stat)> {
        self.request(check::node(path), &GetDataRequest { path: &self.full(path), watch: false }, data)
    }

    /// Returns the length of the root of the connect string.
    pub(crate) fn root_len(&self) -> usize {
        self.chroot.full("").len()
    }

    /// Reads many nodes in one request. Each read may fail on its own. Needs servers from 3.6 on, as persistent watches
    /// do.
    pub(crate) fn get_many(&self, paths: &[String]) -> Reply<ManyRead> {
        let checked = paths.iter().try_for_each(|path| check::node(path));
        let (count, full): (_, Vec<_>) = (paths.len(), paths.iter().map(|path| self.full(path)).collect());
        let reads = full.iter().map(|path| ReadOp::Data(GetDataRequest { path, watch: false })).collect();
        self.request(checked, &MultiReadRequest { reads }, move |outcome| match outcome? {
            AnyResponse::Multi(response) => read(response, count),
            _ => Err(unexpected()),
        })
    }

    pub(crate) fn watch_data(&self, path: &str) -> Reply<(Vec<u8>, Stat, Watch)> {
        let full = self.full(path);
        let reply = self.watching(Kind::Data, path, &full, &GetDataRequest { path: &full, watch: true }, data);
        reply.map(|answer| answer.and_then(|((data, stat), watch)| Ok((data, stat, one_shot(watch)?)))).boxed()
    }

    pub(crate) fn set_data(&self, path: &str, data: &[u8], version: Option<i32>) -> Reply<Stat> {
        let request = SetDataRequest { path: &self.full(path), data: Some(data), version: any_version(version) };
        self.request(check::node(path), &request, |outcome| stat(outcome?))
    }

    pub(crate) fn list_children(&self, path: &str) -> Reply<(Vec<String>, Stat)> {
        self.request(check::node(path), &GetChildren2Request { path: &self.full(path), watch: false }, children)
    }

    pub(crate) fn watch_children(&self, path: &str) -> Reply<(Vec<String>, Stat, Watch)> {
        let full = self.full(path);
        let request = GetChildren2Request { path: &full, watch: true };
        let reply = self.watching(Kind::Child, path, &full, &request, children);
        reply.map(|answer| answer.and_then(|((names, stat), watch)| Ok((names, stat, one_shot(watch)?)))).boxed()
    }

    /// Reads an ACL. The server may hide the hash of a digest from a session that may not change the ACL.
    pub(crate) fn get_acl(&self, path: &str) -> Reply<(Vec<Acl>, Stat)> {
        self.request(check::node(path), &GetAclRequest { path: &self.full(path) }, |outcome| match outcome? {
            AnyResponse::GetAcl(found) => Ok((found.acl, found.stat)),
            _ => Err(unexpected()),
        })
    }

    pub(crate) fn multi(&self, ops: Vec<Op>) -> Reply<Multi> {
        let checked = ops.iter().try_for_each(check::op);
        if ops.is_empty() && self.shared.link.is_open() {
            return futures::future::ready(Ok(Multi::Committed(Vec::new()))).boxed();
        }
        let paths: Vec<String> = ops.iter().map(|op| self.full(path_of(op))).collect();
        let has_create2 = !self.shared.link.lacks(OpCode::Create2);
        let ops = ops.iter().zip(&paths).map(|(op, full)| step(op, full, has_create2)).collect();
        let (request, chroot) = (MultiRequest { ops }, self.chroot.clone());
        let needs = request.needs();
        self.request(checked, &request, move |outcome| match outcome? {
            AnyResponse::Multi(response) => committed(response, needs, &chroot),
            _ => Err(unexpected()),
        })
    }

    pub(crate) fn sync(&self, path: &str) -> Reply<()> {
        let request = SyncRequest { path: &self.full(path) };
        self.request(check::node(path), &request, |outcome| outcome.map(drop))
    }

    /// Arms a persistent watch. Fails with [`Error::Unimplemented`] on servers before 3.6.
    pub(crate) fn watch_persistent(&self, path: &str, mode: WatchMode) -> Reply<PersistentWatch> {
        let (full, chroot) = (self.full(path), self.chroot.clone());
        let request = AddWatchRequest { path: &full, mode: mode.into() };
        let reply = self.watching(mode.into(), path, &full, &request, |outcome| outcome.map(drop));
        async move {
            let ((), HeldWatch { armed, hold }) = reply.await?;
            let Armed::Persistent(queue) = armed else { return Err(unexpected()) };
            let events = futures::stream::poll_fn(move |cx| {
                // Keeps the watch while the stream exists.
                let _ = &hold;
                queue.poll_next(cx)
            });
            Ok(events
                .map(move |event| match event {
                    PersistentEvent::Node { path, event } => {
                        PersistentEvent::Node { path: chroot.strip(&path).to_owned(), event }
                    }
                    PersistentEvent::Resync => PersistentEvent::Resync,
                })
                .boxed())
        }
        .boxed()
    }

    /// Holds back the requests that are handed over until [`uncork`](Self::uncork) was called as often, so that they
    /// are written together.
    pub(crate) fn cork(&self) {
        self.shared.link.cork();
    }

    /// Undoes one [`cork`](Self::cork).
    pub(crate) fn uncork(&self) {
        self.shared.link.uncork();
    }

    /// Closes the session after all requests that were handed over. Those that are not answered before the connection
    /// ends or a session timeout passes fail with [`Error::SessionEnded`]. Resolves when the server has closed the
    /// session, or must have expired it.
    pub(crate) fn close(&self) -> BoxFuture<'static, ()> {
        self.shared.close();
        self.shared.ended().boxed()
    }
}
