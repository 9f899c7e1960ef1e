//! The levers: what goes wrong, and what is done by hand.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::{Operation, Target, TestingServer};
use crate::backend;
use crate::backend::memory::Who;
use crate::client::{Client, Error};
use crate::path;
use crate::types::CreateMode;

/// What becomes of the request whose reply is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Loss {
    /// It was carried out.
    Applied,
    /// It never reached the server.
    NotApplied,
}

/// What a server has after a restart.
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

/// What goes wrong. A client that is not one of this server makes any of these panic.
impl TestingServer {
    /// Ends the session of the client at the servers: its connection is cut, and the client learns the rest when it has
    /// connected again. Whether there was one to end.
    ///
    /// That is what an administrator can do, and no clock foresees it: for the length of a message the old holder of a lock or a
    /// leadership believes in it beside the new one, and only a fence tells. To see who holds when a session runs out by
    /// itself, [`black_hole`](Self::black_hole) or [`freeze_client`](Self::freeze_client) the client for longer.
    pub fn expire_session(&self, client: &Client) -> bool {
        // A stranger is refused also without a session.
        self.group(client);
        client.session_id().is_some_and(|session| self.ensemble.expire_session(session))
    }

    /// Cuts the connection, once; the client connects again. How many connections were cut.
    pub fn disconnect(&self, target: impl Into<Target>) -> usize {
        self.ensemble.disconnect(self.who(target))
    }

    /// New connections are refused until [`heal`](Self::heal); those that stand are left alone.
    pub fn refuse(&self, target: impl Into<Target>) {
        self.ensemble.refuse(self.group(target), true);
    }

    /// Nothing comes through in either direction until [`heal`](Self::heal): no error either, as when a cable is pulled. What
    /// was sent meanwhile arrives late.
    pub fn black_hole(&self, target: impl Into<Target>) {
        self.ensemble.black_hole(self.group(target), true);
    }

    /// Every message takes so much longer, in whole milliseconds, until [`heal`](Self::heal). (Of 35 000 years the rest does not
    /// count.)
    pub fn delay(&self, target: impl Into<Target>, by: Duration) {
        self.ensemble.delay(self.group(target), by);
    }

    /// Ends every refusal, black hole and delay, and joins servers that were cut off. Replies still to be lost are not any
    /// more. Frozen clients stay frozen, a stopped server stays stopped.
    pub fn heal(&self) {
        self.ensemble.heal();
    }

    /// Loses the reply of the next request of that kind (of any), by cutting the connection. Several such wait for a request
    /// each.
    pub fn lose_next_reply(&self, target: impl Into<Target>, of: impl Into<Option<Operation>>, loss: Loss) {
        self.ensemble.lose_next_reply(self.who(target), of.into(), loss == Loss::Applied);
    }

    /// How many replies were lost by that lever so far.
    pub fn lost_replies(&self) -> u64 {
        self.ensemble.lost_replies()
    }

    /// All servers stop: connections break, new ones are refused, and time stands still for sessions.
    pub fn stop(&self) {
        self.ensemble.stop();
    }

    /// The servers start again, after a [`stop`](Self::stop) or at once.
    pub fn restart(&self, data: Data) {
        self.ensemble.stop();
        self.ensemble.start(data == Data::Kept);
    }

    /// Cuts server number `server` (from 0) off from the others: it serves old data for `serves_for`, then drops its clients.
    /// Until [`heal`](Self::heal).
    ///
    /// # Panics
    /// If there is no such server, or only one.
    #[track_caller]
    pub fn cut_off(&self, server: usize, serves_for: Duration) {
        self.assert_one_of_several(server, "cut off");
        self.ensemble.cut_off(server, serves_for);
    }

    /// Server number `server` (from 0) was the leader, is cut off, and the others elect another leader. For `serves_for` it
    /// does not know: it answers syncs by itself, takes up sessions again, and serves old data; then it drops its clients.
    /// Until [`heal`](Self::heal).
    ///
    /// The new leader counts the time of every session from this moment, with the timeout that was granted when the session was
    /// opened; all clients of the other servers lose their connections. What the deposed leader has heard since is void.
    ///
    /// A real leader steps down by itself within 1.5 ticks of the moment at which its successor begins, and that is what
    /// [`Heartbeat::Sync`](crate::Heartbeat::Sync) relies on: for longer, use
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
        assert!(servers > 1 && server < servers, "server {server} cannot be {what}: there are {servers}");
    }

    /// Connections made from now on are granted session timeouts within `timeouts`, by all servers (`minSessionTimeout` and
    /// `maxSessionTimeout`). In whole milliseconds; by default 2 to 20 ticks. [`heal`](Self::heal) leaves it as it is.
    ///
    /// Also a session that exists is granted another timeout when its client connects again, as after a restart with another
    /// configuration:
    ///
    /// ```
    /// use std::time::Duration;
    /// use zookeeper_recipes::testing::TestingServer;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), zookeeper_recipes::Error> {
    /// let server = TestingServer::start();
    /// let client = server.client().await?; // wants 10 s
    /// server.grant(Duration::from_secs(4)..=Duration::from_secs(6));
    /// assert_eq!(server.sessions()[0].timeout, Duration::from_secs(10));
    /// server.disconnect(&client);
    /// server.until(|| server.sessions()[0].timeout == Duration::from_secs(6)).await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// If the range is empty.
    #[track_caller]
    pub fn grant(&self, timeouts: RangeInclusive<Duration>) {
        assert!(!timeouts.is_empty(), "{timeouts:?} is empty");
        self.ensemble.grant(None, &timeouts);
    }

    /// As [`grant`](Self::grant), for server number `server` (from 0) alone.
    ///
    /// # Panics
    /// If the range is empty, or there is no such server.
    #[track_caller]
    pub fn grant_by(&self, server: usize, timeouts: RangeInclusive<Duration>) {
        let servers = self.ensemble.servers();
        assert!(server < servers, "there is no server {server}: there are {servers}");
        assert!(!timeouts.is_empty(), "{timeouts:?} is empty");
        self.ensemble.grant(Some(server), &timeouts);
    }

    /// Stops the process of the client, as SIGSTOP does: its tasks and what [`spawn`](Self::spawn) runs beside them stand still,
    /// while the clock, the servers and all others go on. When the last handle on the server goes, it goes on: nobody could
    /// thaw it any more.
    pub fn freeze_client(&self, client: &Client) {
        if let Some(group) = self.group(client) {
            self.scheduler.freeze(group);
            self.ensemble.freeze(group);
        }
    }

    /// Ends that, as SIGCONT does.
    pub fn thaw_client(&self, client: &Client) {
        if let Some(group) = self.group(client) {
            self.ensemble.thaw(group);
            self.scheduler.thaw(group);
        }
    }

    /// Whether the client is frozen.
    pub fn is_frozen(&self, client: &Client) -> bool {
        self.group(client).is_some_and(|group| self.scheduler.is_frozen(group))
    }

    /// From now on nobody may read or change the node, nor create or delete below it, as with an ACL that grants nothing.
    pub fn deny(&self, path: &str) {
        self.ensemble.deny(path);
    }

    /// Ends that.
    pub fn allow(&self, path: &str) {
        self.ensemble.allow(path);
    }
}

/// Done by hand: at once, by nobody's session, whatever the ACLs. Paths are the servers', without any client's namespace.
impl TestingServer {
    /// Creates a node; its path, with its number if `mode` is sequential. An ephemeral mode makes a persistent one, as there
    /// is no session.
    ///
    /// # Errors
    /// What a server would say.
    pub fn create_by_hand(&self, path: &str, data: impl AsRef<[u8]>, mode: CreateMode) -> Result<String, Error> {
        by_hand("create", path, |path| self.ensemble.create_by_hand(path, data.as_ref(), mode))
    }

    /// Changes the data of a node.
    ///
    /// # Errors
    /// What a server would say.
    pub fn set_data_by_hand(&self, path: &str, data: impl AsRef<[u8]>) -> Result<(), Error> {
        by_hand("set the data of", path, |path| self.ensemble.set_data_by_hand(path, data.as_ref()))
    }

    /// Deletes a node, whoever owns it.
    ///
    /// # Errors
    /// What a server would say.
    pub fn delete_by_hand(&self, path: &str) -> Result<(), Error> {
        by_hand("delete", path, |path| self.ensemble.delete_by_hand(path))
    }

    /// The next sequential child of `path` gets the number `next`. What it is worth: counters end at 2147483647.
    ///
    /// # Errors
    /// What a server would say.
    pub fn set_sequence(&self, path: &str, next: i32) -> Result<(), Error> {
        by_hand("set the counter of", path, |path| self.ensemble.set_sequence(path, next))
    }
}

fn by_hand<T>(doing: &'static str, at: &str, act: impl FnOnce(&str) -> Result<T, backend::Error>) -> Result<T, Error> {
    path::validate(at)?;
    act(at).map_err(|error| Error::from_backend(doing, at, error))
}
