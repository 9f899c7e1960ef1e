//! One session of a client, as the recipes see it: its requests, which are counted, and its condition.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use super::lease::{Grant, Lease};
use super::requests::{Request, RequestLog};
use super::runtime::Runtime;
use crate::engine::{self, ManyRead, Multi, Op, PersistentWatch, Reply, Watch, WatchMode};
use crate::util::random::Random;
use crate::util::znode::{Acl, CreateMode, Stat};

/// The time for each contender in [`Session::spread_out`].
const SPREAD: Duration = Duration::from_micros(500);

/// Whether a session can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Usable. The number grows with every connection.
    Connected(u64),
    /// Disconnected, or past its lease; it may recover.
    Suspended,
    /// Ended permanently.
    Ended(EndReason),
}

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndReason {
    /// The servers reported that it expired: its nodes are gone.
    Expired,
    /// The client had no contact for so long that the servers must have expired it, or it ended for no given reason.
    GivenUp,
    /// The servers opened another session instead, as servers do that cannot resume one. Its nodes remain until they
    /// expire it.
    Replaced,
    /// The server refused the credentials; its nodes may remain until the server expires it.
    Refused,
    /// The client was closed.
    Closed,
}

impl EndReason {
    /// Returns its name, for the metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            EndReason::Expired => "expired",
            EndReason::GivenUp => "given_up",
            EndReason::Replaced => "replaced",
            EndReason::Refused => "refused",
            EndReason::Closed => "closed",
        }
    }
}

/// One session.
#[derive(Debug)]
pub(crate) struct Session {
    engine: Arc<engine::Session>,
    lease: Arc<Lease>,
    condition: watch::Sender<Condition>,
    log: Arc<RequestLog>,
    runtime: Runtime,
    /// Whether nothing may be written.
    read_only: bool,
    contenders: AtomicUsize,
}

impl Session {
    pub(crate) fn new(
        engine: Arc<engine::Session>,
        lease: Arc<Lease>,
        log: &Arc<RequestLog>,
        runtime: &Runtime,
        read_only: bool,
    ) -> Self {
        Session {
            engine,
            lease,
            condition: watch::Sender::new(Condition::Connected(0)),
            log: Arc::clone(log),
            runtime: runtime.clone(),
            read_only,
            contenders: AtomicUsize::new(0),
        }
    }

    pub(crate) fn id(&self) -> i64 {
        self.engine.id()
    }

    /// Returns the id of the latest transaction that an answer to this session has named.
    pub(crate) fn latest_zxid(&self) -> i64 {
        self.engine.latest_zxid()
    }

    /// Returns the id as the servers log it.
    pub(crate) fn label(&self) -> String {
        format!("{:#x}", self.id())
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.lease.timeout()
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

    /// Ends the lease first, then publishes the condition.
    pub(crate) fn end(&self, reason: EndReason) {
        self.lease.end();
        self.set_condition(Condition::Ended(reason));
    }

    pub(crate) fn close(&self) -> futures::future::BoxFuture<'static, ()> {
        self.engine.close()
    }

    /// Hands over several requests. If the connection has nothing else to send, they leave in one write.
    pub(crate) fn together<T>(&self, hand_over: impl FnOnce() -> T) -> T {
        let _corked = Corked::new(&self.engine);
        hand_over()
    }

    /// Waits until the session is connected; returns the reason if it has ended instead.
    ///
    /// A connection counts once a quorum has confirmed it. The lease records a loss at once, the condition a moment
    /// later. If this did not check the lease too, a request could leave on the next connection before a quorum has
    /// confirmed it, and a deposed leader could answer it.
    pub(crate) async fn connected(&self) -> Result<u64, EndReason> {
        let mut conditions = self.conditions();
        loop {
            match *conditions.borrow_and_update() {
                Condition::Connected(connection) if self.lease.is_settled() => return Ok(connection),
                Condition::Ended(reason) => return Err(reason),
                // The condition changes when the loss is handled.
                Condition::Connected(_) | Condition::Suspended => {}
            }
            if conditions.changed().await.is_err() {
                return Err(EndReason::Closed);
            }
        }
    }

    /// Waits as [`connected`](Self::connected) does, and also until the lease is valid. A process that was paused past
    /// the end of its session does not know yet that the session is over and the connection dead.
    pub(crate) async fn connected_with_lease(&self) -> Result<u64, EndReason> {
        let mut conditions = self.conditions();
        loop {
            // Created before the lease is read, so no extension is missed.
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

    /// Waits until the session's condition no longer shows this connection: it is lost, or may be.
    pub(crate) async fn disconnected(&self, connection: u64) {
        // The sender is in the session.
        let _ = self.conditions().wait_for(|condition| *condition != Condition::Connected(connection)).await;
    }

    /// Returns whether it has ended.
    pub(crate) fn is_over(&self) -> bool {
        matches!(*self.conditions().borrow(), Condition::Ended(_))
    }

    /// Waits until the session has ended.
    pub(crate) async fn ended(&self) {
        let _ = self.conditions().wait_for(|condition| matches!(condition, Condition::Ended(_))).await;
    }

    /// Waits until a watch that was set on this connection fires, or the connection may be lost, and the watch with it.
    pub(crate) async fn changed(&self, watch: Watch, connection: u64) {
        tokio::select! {
            biased;
            _ = watch => {}
            () = self.disconnected(connection) => {}
        }
    }

    /// Waits until a retry makes sense, after a request on `connection` failed because of the connection.
    pub(crate) async fn wait_to_reconnect(&self, connection: u64) -> Result<u64, EndReason> {
        self.wait_for_disconnect(connection).await;
        self.connected().await
    }

    /// Waits until the session's condition shows the loss of `connection`, on which a request has failed. This takes a
    /// moment; it waits for at most a tick.
    pub(crate) async fn wait_for_disconnect(&self, connection: u64) {
        // A server that rejects a single request (too large, overloaded) may leave the condition unchanged.
        tokio::select! {
            biased;
            () = self.disconnected(connection) => {}
            has_slept = self.sleep(self.lease.tick()) => {
                if !has_slept {
                    // Without its runtime the session is about to end.
                    self.disconnected(connection).await;
                }
            }
        }
    }

    /// See [`Runtime::sleep`].
    pub(crate) async fn sleep(&self, duration: Duration) -> bool {
        self.runtime.sleep(duration).await
    }

    /// Runs `attempt` while there is a connection, until it succeeds or fails with an error that is not transient.
    /// After a transient error it runs again once the loss is known, or after a tick if the connection stays. Returns
    /// [`engine::Error::SessionEnded`] if the session ends first; no other error that it returns is transient.
    pub(crate) async fn retry_while_transient<T, Fut>(
        &self,
        mut attempt: impl FnMut() -> Fut,
    ) -> Result<T, engine::Error>
    where
        Fut: Future<Output = Result<T, engine::Error>>,
    {
        loop {
            let Ok(connection) = self.connected().await else { return Err(engine::Error::SessionEnded) };
            match attempt().await {
                Err(error) => self.wait_if_transient(error, connection).await?,
                outcome => return outcome,
            }
        }
    }

    /// Waits until the session's condition shows the loss of `connection`, for at most a tick, if `error` is transient;
    /// otherwise returns the error. The caller then calls [`connected`](Self::connected) before it retries.
    pub(crate) async fn wait_if_transient(&self, error: engine::Error, connection: u64) -> Result<(), engine::Error> {
        if !error.is_transient() {
            return Err(error);
        }
        self.wait_for_disconnect(connection).await;
        Ok(())
    }

    /// Counts one more contender or cache of this session. The count sets how far [`spread_out`](Self::spread_out)
    /// spreads their requests after a reconnect.
    pub(crate) fn contender(self: &Arc<Self>) -> Contending {
        self.contenders.fetch_add(1, Ordering::Relaxed);
        Contending(Arc::clone(self))
    }

    pub(crate) fn contenders(&self) -> usize {
        self.contenders.load(Ordering::Relaxed)
    }

    /// Waits for a random time, so that not all contenders send requests at once after a reconnect: a hundred of them
    /// take 50 ms. A single one does not wait.
    pub(crate) async fn spread_out(&self, random: &Random) {
        let contenders = self.contenders();
        if contenders > 1 {
            let spread = SPREAD * u32::try_from(contenders).unwrap_or(u32::MAX);
            self.sleep(spread.mul_f64(random.unit())).await;
        }
    }

    /// Sends the request that extends the lease: a sync, or a transaction that changes nothing when only a quorum's
    /// answer is proof.
    pub(crate) fn heartbeat(&self) -> Reply<()> {
        if !self.lease.needs_quorum() {
            return self.log.record(Request::Heartbeat, self.engine.sync("/"));
        }
        let reply = self.engine.multi(vec![Op::Check { path: "/".to_owned(), version: None }]);
        let outcome = async move {
            match reply.await? {
                // A transaction that the ensemble decided to refuse has been through the quorum as well.
                Multi::Refused { error, .. } if !error.is_verdict() => Err(error),
                _ => Ok(()),
            }
        };
        self.log.record(Request::Heartbeat, Box::pin(outcome))
    }

    pub(crate) fn create(&self, path: &str, data: &[u8], mode: CreateMode, acls: &[Acl]) -> Reply<(String, Stat)> {
        self.write(Request::Create, || self.engine.create(path, data, mode, acls))
    }

    pub(crate) fn delete(&self, path: &str, version: Option<i32>) -> Reply<()> {
        self.write(Request::Delete, || self.engine.delete(path, version))
    }

    pub(crate) fn exists(&self, path: &str) -> Reply<Option<Stat>> {
        self.log.record(Request::Read, self.engine.exists(path))
    }

    pub(crate) fn watch_exists(&self, path: &str) -> Reply<(Option<Stat>, Watch)> {
        self.log.record(Request::Watch, self.engine.watch_exists(path))
    }

    pub(crate) fn get_data(&self, path: &str) -> Reply<(Vec<u8>, Stat)> {
        self.log.record(Request::Read, self.engine.get_data(path))
    }

    /// Returns the length of the root of the connect string, which the engine puts before each path.
    pub(crate) fn root_len(&self) -> usize {
        self.engine.root_len()
    }

    /// Reads many nodes in one request; each read may fail by itself. Servers support this since 3.6, the version that
    /// also brought persistent watches.
    pub(crate) fn get_many(&self, paths: &[String]) -> Reply<ManyRead> {
        self.log.record(Request::Read, self.engine.get_many(paths))
    }

    /// Reads the data of a node as the ensemble knows it: after a sync, because a server may lag.
    pub(crate) async fn get_data_synced(&self, path: &str) -> Result<(Vec<u8>, Stat), engine::Error> {
        let (synced, read) = self.together(|| (self.sync(path), self.get_data(path)));
        let (synced, read) = futures::join!(synced, read);
        synced.and(read)
    }

    pub(crate) fn watch_data(&self, path: &str) -> Reply<(Vec<u8>, Stat, Watch)> {
        self.log.record(Request::Watch, self.engine.watch_data(path))
    }

    pub(crate) fn set_data(&self, path: &str, data: &[u8], version: Option<i32>) -> Reply<Stat> {
        self.write(Request::SetData, || self.engine.set_data(path, data, version))
    }

    pub(crate) fn list_children(&self, path: &str) -> Reply<(Vec<String>, Stat)> {
        self.log.record(Request::List, self.engine.list_children(path))
    }

    pub(crate) fn watch_children(&self, path: &str) -> Reply<(Vec<String>, Stat, Watch)> {
        self.log.record(Request::Watch, self.engine.watch_children(path))
    }

    pub(crate) fn watch_persistent(&self, path: &str, mode: WatchMode) -> Reply<PersistentWatch> {
        self.log.record(Request::Watch, self.engine.watch_persistent(path, mode))
    }

    pub(crate) fn get_acl(&self, path: &str) -> Reply<(Vec<Acl>, Stat)> {
        self.log.record(Request::Read, self.engine.get_acl(path))
    }

    pub(crate) fn multi(&self, ops: Vec<Op>) -> Reply<Multi> {
        self.write(Request::Multi, || self.engine.multi(ops))
    }

    /// Waits until the server has caught up with the leader. A read-only server, which only a client that only reads
    /// uses, has no leader, and nothing newer.
    pub(crate) fn sync(&self, path: &str) -> Reply<()> {
        let synced = self.log.record(Request::Sync, self.engine.sync(path));
        if !self.read_only {
            return synced;
        }
        Box::pin(async move {
            match synced.await {
                Err(engine::Error::ReadOnly) => Ok(()),
                outcome => outcome,
            }
        })
    }

    /// Sends a request that writes, unless the client only reads.
    fn write<T: Send + 'static>(&self, request: Request, send: impl FnOnce() -> Reply<T>) -> Reply<T> {
        if self.read_only {
            return Box::pin(std::future::ready(Err(engine::Error::ReadOnly)));
        }
        self.log.record(request, send())
    }

    /// Returns a grant to rely on an owned node of this session, if the lease is valid now.
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

/// Uncorks the session when dropped, also after a panic.
struct Corked<'a>(&'a engine::Session);

impl<'a> Corked<'a> {
    fn new(session: &'a engine::Session) -> Self {
        session.cork();
        Corked(session)
    }
}

impl Drop for Corked<'_> {
    fn drop(&mut self) {
        self.0.uncork();
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use futures::FutureExt;

    use crate::client::Client;
    use crate::engine::{Loss, Observer};
    use crate::testing::TestingServer;

    #[tokio::test(start_paused = true)]
    async fn a_loss_counts_before_the_condition_shows_it() {
        let server = TestingServer::start();
        let client = Client::builder_for_testing(&server).connect().await.expect("a client");
        let session = client.core().connected_session().await.expect("a session");
        assert!(session.connected().now_or_never().is_some());
        let now = client.core().clock.now();
        session.lease().disconnected(Loss { at: now, last_contact: now });
        assert!(session.connected().now_or_never().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_transient_error_is_followed_by_another_attempt() {
        use crate::engine::Error::{ConnectionLoss, NoNode, SessionEnded, Throttled};

        let server = TestingServer::start();
        let client = Client::builder_for_testing(&server).connect().await.expect("a client");
        let session = client.core().connected_session().await.expect("a session");
        let mut outcomes = [Err(Throttled), Err(ConnectionLoss), Ok(1), Err(NoNode), Ok(2)].into_iter();
        let mut attempt = || std::future::ready(outcomes.next().expect("no more attempts than that"));
        assert_eq!(session.retry_while_transient(&mut attempt).await, Ok(1));
        assert_eq!(session.retry_while_transient(&mut attempt).await, Err(NoNode));
        session.end(crate::client::session::EndReason::GivenUp);
        assert_eq!(session.retry_while_transient(&mut attempt).await, Err(SessionEnded));
        assert_eq!(outcomes.next(), Some(Ok(2)), "nothing is attempted without a session");
    }
}
