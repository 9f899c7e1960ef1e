//! The levers: faults, and changes by hand.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::{Loss, Operation, Target, TestingServer};
use crate::client::{Client, Error};
use crate::engine::refusal;
use crate::protocol::{ErrorCode, OpCode};
use crate::testing::ensemble::Who;
use crate::util::path;
use crate::util::znode::CreateMode;

/// What the servers keep after a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Data {
    /// All nodes and sessions.
    Kept,
    /// Neither nodes nor sessions.
    Lost,
}

impl TestingServer {
    fn group(&self, target: impl Into<Target>) -> Option<u32> {
        target.into().process(&self.scheduler).map(|process| process.id)
    }

    fn who(&self, target: impl Into<Target>) -> Who {
        self.group(target).map_or(Who::All, Who::Group)
    }
}

/// Faults. A method that takes a client or a `Listening` panics if it does not belong to this server.
impl TestingServer {
    /// Ends the session of the client at the servers. Returns whether there was one.
    ///
    /// The connection is cut, and the client learns of the end when it reconnects. An administrator can do the same,
    /// and no lease covers it: until then, the old holder of a lock or a leadership believes that it still holds it,
    /// although there may be a new holder, and only a fence helps. To test a session that expires by itself, apply
    /// [`black_hole`](Self::black_hole) or [`freeze_client`](Self::freeze_client) for longer than its session timeout.
    ///
    /// ```
    /// use zookeeper_recipes::testing::TestingServer;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), zookeeper_recipes::Error> {
    /// let server = TestingServer::start();
    /// let client = server.client().await?;
    /// let old = client.session_id();
    /// assert!(server.expire_session(&client));
    /// server
    ///     .until(|| client.session_id().is_some_and(|id| Some(id) != old))
    ///     .await;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "KillSession")]
    pub fn expire_session(&self, client: &Client) -> bool {
        // Panics for a client of another server, even if it has no session.
        self.group(client);
        client.session_id().is_some_and(|session| self.ensemble.expire_session(session))
    }

    /// Ends the session with this id at the servers, as [`expire_session`](Self::expire_session) does. Returns whether
    /// there was one. It may belong to a client in another process; [`sessions`](Self::sessions) lists those, too.
    #[doc(alias = "KillSession")]
    pub fn expire_session_id(&self, session: i64) -> bool {
        self.ensemble.expire_session(session)
    }

    /// Cuts connections once; the clients reconnect. Returns how many connections were cut.
    pub fn disconnect(&self, target: impl Into<Target>) -> usize {
        self.ensemble.disconnect(self.who(target))
    }

    /// Refuses new connections until [`heal`](Self::heal). Existing connections are left alone.
    pub fn refuse(&self, target: impl Into<Target>) {
        self.ensemble.refuse(self.group(target), true);
    }

    /// Holds back all messages in both directions until [`heal`](Self::heal).
    ///
    /// There is no error, as when a cable is unplugged. What is sent in the meantime arrives late.
    pub fn black_hole(&self, target: impl Into<Target>) {
        self.ensemble.black_hole(self.group(target), true);
    }

    /// Delays every message by `by`, in whole milliseconds, until [`heal`](Self::heal). (Capped at about 35,000 years.)
    pub fn delay(&self, target: impl Into<Target>, by: Duration) {
        self.ensemble.delay(self.group(target), by);
    }

    /// Makes reads of kind `of` ([`Exists`](Operation::Exists), [`GetData`](Operation::GetData) or
    /// [`List`](Operation::List)) fail at this node until [`heal`](Self::heal), as if the answer were too large or
    /// could not be decoded. The connection is kept. The path is the servers', without any client's namespace.
    ///
    /// # Panics
    /// If `of` is another kind of request.
    #[track_caller]
    pub fn fail_reads(&self, path: &str, of: Operation) {
        let is_read = matches!(of, Operation::Exists | Operation::GetData | Operation::List);
        assert!(is_read, "{of:?} cannot be made to fail; only Exists, GetData and List can");
        self.ensemble.fail(path, of);
    }

    /// Ends every refusal, black hole, delay and failure, and reconnects servers that were cut off.
    ///
    /// Calls of [`lose_next_reply`](Self::lose_next_reply) that are still pending are cancelled. Frozen clients stay
    /// frozen, and stopped servers stay stopped.
    pub fn heal(&self) {
        self.ensemble.heal();
    }

    /// Loses the reply to the next request of kind `of` (any kind if `None`). `loss` determines how.
    ///
    /// Each call applies to one request: several calls lose several replies.
    pub fn lose_next_reply(&self, target: impl Into<Target>, of: impl Into<Option<Operation>>, loss: Loss) {
        self.ensemble.lose_next_reply(self.who(target), of.into(), loss);
    }

    /// Returns how many replies [`lose_next_reply`](Self::lose_next_reply) has lost so far.
    pub fn lost_replies(&self) -> u64 {
        self.ensemble.lost_replies()
    }

    /// Stops all servers: connections break, new ones are refused, and session timeouts do not advance.
    pub fn stop(&self) {
        self.ensemble.stop();
    }

    /// Starts the servers again, after a [`stop`](Self::stop) or while they run.
    pub fn restart(&self, data: Data) {
        self.ensemble.stop();
        self.ensemble.start(data == Data::Kept);
    }

    /// Cuts server number `server` (from 0) off from the others, until [`heal`](Self::heal) or
    /// [`restart`](Self::restart).
    ///
    /// It serves old data for `serves_for`, then drops its clients.
    ///
    /// # Panics
    /// If there is no such server, or only one.
    #[track_caller]
    pub fn cut_off(&self, server: usize, serves_for: Duration) {
        self.assert_one_of_several(server, "cut off");
        self.ensemble.cut_off(server, serves_for);
    }

    /// Cuts server number `server` (from 0), which is assumed to be the leader, off from the others, which elect
    /// another leader. Lasts until [`heal`](Self::heal) or [`restart`](Self::restart).
    ///
    /// For `serves_for` the old leader does not notice: it answers syncs by itself, resumes sessions, and serves old
    /// data. Then it drops its clients.
    ///
    /// The new leader restarts the time of every session at this moment, with the timeout that was granted when the
    /// session was opened. All clients of the other servers lose their connections. What only the deposed leader hears
    /// from then on does not count.
    ///
    /// A real leader steps down by itself within 1.5 ticks after its successor starts, and
    /// [`Heartbeat::Sync`](crate::Heartbeat::Sync) relies on that. For longer times, use
    /// [`Heartbeat::Quorum`](crate::Heartbeat::Quorum).
    ///
    /// # Panics
    /// If there is no such server, or only one.
    #[track_caller]
    pub fn depose_leader(&self, server: usize, serves_for: Duration) {
        self.assert_one_of_several(server, "deposed");
        self.ensemble.depose(server, serves_for);
    }

    #[track_caller]
    fn assert_one_of_several(&self, server: usize, what: &str) {
        let servers = self.ensemble.servers();
        assert!(servers > 1 && server < servers, "server {server} cannot be {what} in an ensemble of {servers}");
    }

    /// Sets the session timeouts that all servers grant to connections from now on (`minSessionTimeout` and
    /// `maxSessionTimeout`). In whole milliseconds; by default 2 to 20 ticks. [`heal`](Self::heal) does not change it.
    ///
    /// An existing session is granted a new timeout, too, when its client reconnects, as after a restart with another
    /// configuration:
    ///
    /// ```
    /// use std::time::Duration;
    /// use zookeeper_recipes::testing::TestingServer;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), zookeeper_recipes::Error> {
    /// let server = TestingServer::start();
    /// let client = server.client().await?; // asks for 10 s
    /// server.grant_timeouts(Duration::from_secs(4)..=Duration::from_secs(6));
    /// let timeout = || server.sessions()[0].timeout;
    /// assert_eq!(timeout(), Duration::from_secs(10));
    /// server.disconnect(&client);
    /// server.until(|| timeout() == Duration::from_secs(6)).await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// If the range is empty.
    #[doc(alias = "minSessionTimeout")]
    #[doc(alias = "maxSessionTimeout")]
    #[track_caller]
    pub fn grant_timeouts(&self, timeouts: RangeInclusive<Duration>) {
        assert!(!timeouts.is_empty(), "{timeouts:?} is empty");
        self.ensemble.grant(None, &timeouts);
    }

    /// Sets the session timeouts that server number `server` (from 0) grants, as
    /// [`grant_timeouts`](Self::grant_timeouts) does for all.
    ///
    /// # Panics
    /// If the range is empty, or there is no such server.
    #[track_caller]
    pub fn grant_timeouts_by(&self, server: usize, timeouts: RangeInclusive<Duration>) {
        let servers = self.ensemble.servers();
        assert!(server < servers, "there is no server {server} in an ensemble of {servers}");
        assert!(!timeouts.is_empty(), "{timeouts:?} is empty");
        self.ensemble.grant(Some(server), &timeouts);
    }

    /// Sets the longest request that the servers read from now on, in bytes. On a longer request a server closes the
    /// connection without an answer, as ZooKeeper does. Default 1 048 575, as in ZooKeeper. [`heal`](Self::heal) does
    /// not change it.
    #[doc(alias = "jute.maxbuffer")]
    pub fn max_buffer(&self, bytes: usize) {
        self.ensemble.max_buffer(bytes);
    }

    /// Stops the process of the client, as SIGSTOP does.
    ///
    /// Its tasks and those of [`spawn`](Self::spawn) stop, while the clock, the servers and all other clients continue.
    /// Dropping the last handle to the server thaws the client, because nothing else could.
    #[doc(alias = "SIGSTOP")]
    pub fn freeze_client(&self, client: &Client) {
        if let Some(group) = self.group(client) {
            self.scheduler.freeze(group);
        }
    }

    /// Resumes the process of the client, as SIGCONT does.
    #[doc(alias = "SIGCONT")]
    pub fn thaw_client(&self, client: &Client) {
        if let Some(group) = self.group(client) {
            self.scheduler.thaw(group);
        }
    }

    /// Returns whether the client is frozen.
    pub fn is_frozen(&self, client: &Client) -> bool {
        self.group(client).is_some_and(|group| self.scheduler.is_frozen(group))
    }

    /// Denies all access to the node: no client may read or change it, or create or delete nodes below it, as with an
    /// ACL that grants nothing.
    pub fn deny(&self, path: &str) {
        self.ensemble.deny(path);
    }

    /// Ends a [`deny`](Self::deny).
    pub fn allow(&self, path: &str) {
        self.ensemble.allow(path);
    }
}

/// Changes by hand: made at once, without a session, and regardless of ACLs. Paths are the servers', without any
/// client's namespace.
impl TestingServer {
    /// Creates a node. Returns its path, with its number if `mode` is sequential. An ephemeral mode creates a
    /// persistent node, because there is no session.
    ///
    /// # Errors
    /// The error that a server would return.
    pub fn create_by_hand(&self, path: &str, data: impl AsRef<[u8]>, mode: CreateMode) -> Result<String, Error> {
        by_hand("create", path, |path| self.ensemble.create_by_hand(path, data.as_ref(), mode))
    }

    /// Changes the data of a node.
    ///
    /// # Errors
    /// The error that a server would return.
    pub fn set_data_by_hand(&self, path: &str, data: impl AsRef<[u8]>) -> Result<(), Error> {
        by_hand("set the data of", path, |path| self.ensemble.set_data_by_hand(path, data.as_ref()))
    }

    /// Deletes a node, whichever session owns it.
    ///
    /// # Errors
    /// The error that a server would return.
    pub fn delete_by_hand(&self, path: &str) -> Result<(), Error> {
        by_hand("delete", path, |path| self.ensemble.delete_by_hand(path))
    }

    /// Sets the number of the next sequential child of `path`, to test the end of the counter at 2147483647.
    ///
    /// # Errors
    /// The error that a server would return.
    pub fn set_sequence(&self, path: &str, next: i32) -> Result<(), Error> {
        by_hand("set the counter of", path, |path| self.ensemble.set_sequence(path, next))
    }

    /// Sets the version of the data of `path`, to test how versions wrap around: after 2147483647 comes -2147483648,
    /// and after -1, which means any version in a request, comes 0.
    ///
    /// # Errors
    /// The error that a server would return.
    pub fn set_version(&self, path: &str, version: i32) -> Result<(), Error> {
        by_hand("set the version of", path, |path| self.ensemble.set_version(path, version))
    }
}

fn by_hand<T>(doing: &'static str, at: &str, act: impl FnOnce(&str) -> Result<T, ErrorCode>) -> Result<T, Error> {
    path::validate(at)?;
    act(at).map_err(|code| Error::from_engine(doing, at, refusal(code, OpCode::Error)))
}
