//! The builder of a latch.

use std::sync::Arc;
use std::time::Duration;

use super::error::Error;
use super::task::{self, Options, Shared};
use super::{CloseMode, LeaderLatch};
use crate::client::Client;
use crate::contender::participants::check_id;

/// Configures a [`LeaderLatch`]; see [`LeaderLatch::builder`].
///
/// ```no_run
/// use zookeeper_recipes::Client;
/// use zookeeper_recipes::leader_latch::{CloseMode, Error, LeaderLatch};
///
/// # fn example(client: &Client) -> Result<(), Error> {
/// let latch = LeaderLatch::builder(client, "/my-service/leader")
///     .id("worker-7")
///     .close_mode(CloseMode::NotifyLeader)
///     .start()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing happens before start()"]
pub struct LeaderLatchBuilder {
    client: Client,
    path: String,
    id: String,
    options: Options,
}

impl LeaderLatchBuilder {
    pub(super) fn new(client: &Client, path: String) -> Self {
        LeaderLatchBuilder { client: client.clone(), path, id: String::new(), options: Options::default() }
    }

    /// Sets the id that other clients read of this participant, at most 65 536 bytes. Default: empty.
    #[doc(alias = "setId")]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// Lets other clients ask this participant to resign, through [`ask_to_resign`](super::ask_to_resign) and
    /// [`transfer`](super::transfer), and participants that have a lower number as [`priority`](Self::priority).
    /// Default: it cannot be asked.
    ///
    /// When a leader is asked, [`Leadership::on_revoke`](super::Leadership::on_revoke) resolves. It leads for `grace`
    /// more, or until [`LeaderLatch::resign`] is called. Then its leadership ends, listeners are notified, and the
    /// latch goes to the end of the line. With `Duration::ZERO` that happens at once; with `Duration::MAX` only your
    /// code decides. A participant that does not lead goes to the end of the line at once.
    ///
    /// This costs two requests more to enter and one more to leave, and a node beside the election:
    /// `<path>-requests/<node>-request`. The client must be allowed to create it there. If it is not, the latch takes
    /// part all the same, but cannot be asked, and the log says so.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use zookeeper_recipes::Client;
    /// use zookeeper_recipes::leader_latch::LeaderLatch;
    ///
    /// # async fn example(client: &Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let latch = LeaderLatch::builder(client, "/my-service/leader")
    ///     .id("worker-7")
    ///     .revocable(Duration::from_secs(10))
    ///     .start()?;
    /// let leadership = latch.wait_for_leadership().await?;
    /// tokio::select! {
    ///     _ = leadership.run(async { /* lead */ }) => {}
    ///     // The work is dropped at the await it is in. Clean up, then resign
    ///     // before the 10 s are over.
    ///     _ = leadership.on_revoke() => latch.resign(&leadership).await,
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "makeRevocable")]
    pub fn revocable(mut self, grace: Duration) -> Self {
        self.options.grace = Some(grace);
        self
    }

    /// Sets the priority of this participant: one with a lower number is to lead before it. Default: none, so that the
    /// order of arrival decides.
    ///
    /// The next in line goes to the end of the line as long as one with a lower number is behind it. So once the line
    /// has settled, the one with the lowest number leads next. If it is lower than that of the leader, and the leader
    /// is [`revocable`](Self::revocable), the leader is asked to resign; a leader that is not leads on.
    ///
    /// Priorities count among the participants that have one. Others, and those of Curator, keep their places: they
    /// neither step back nor are stepped back for. A participant that makes room for a [`transfer`](super::transfer)
    /// gives way to the chosen one and those that were before it, as long as they keep their places: they do not step
    /// back for it, and are not asked to resign. One that [resigns](LeaderLatch::resign) by itself, or is asked to by
    /// an [operator](super::ask_to_resign), gives way to all until it has led again: it still steps back for those with
    /// a lower number. One that resigns because a participant with a lower number has asked gives way to none.
    ///
    /// This costs two requests more for the next in line, three for those behind it, and none for the leader. The next
    /// in line lists the line whenever that changes. Until the best one is next, those before it go to the end of the
    /// line, one after the other: use few different numbers, such as 0 for one zone and 1 for another.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use zookeeper_recipes::Client;
    /// use zookeeper_recipes::leader_latch::{Error, LeaderLatch};
    ///
    /// # fn example(client: &Client, is_near_the_database: bool) -> Result<(), Error> {
    /// let latch = LeaderLatch::builder(client, "/my-service/leader")
    ///     .priority(if is_near_the_database { 0 } else { 1 })
    ///     .revocable(Duration::from_secs(10))
    ///     .start()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn priority(mut self, priority: u32) -> Self {
        self.options.priority = Some(priority);
        self
    }

    /// Sets what [`LeaderLatch::close`] does about listeners, and whether a latch that resigns waits for them. Default:
    /// [`CloseMode::Silent`].
    pub fn close_mode(mut self, mode: CloseMode) -> Self {
        self.options.close_mode = mode;
        self
    }

    /// Enters the election in the background and returns at once, even while there is no connection. It may be called
    /// outside a runtime, as the latch runs on the runtime of the client.
    ///
    /// # Errors
    /// [`Error::Client`] with [`ErrorKind::InvalidPath`](crate::ErrorKind::InvalidPath) if the path is malformed.
    /// [`Error::InvalidOption`] if the id is too long. [`Error::Closed`] if the client has been closed.
    pub fn start(self) -> Result<LeaderLatch, Error> {
        self.client.open_path(&self.path).map_err(|error| Error::client(&self.path, error))?;
        let path: Arc<str> = self.path.into();
        if let Err(why) = check_id(&self.id) {
            return Err(Error::InvalidOption { path, why });
        }
        let shared = Arc::new(Shared::new(path, self.id));
        let task = task::spawn(&self.client, &shared, self.options);
        Ok(LeaderLatch { client: self.client, shared, close_mode: self.options.close_mode, task })
    }
}
