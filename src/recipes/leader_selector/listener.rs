//! The listeners of a selector, which lead when they are elected.

use crate::contender::leadership::Leadership;
use crate::util::boxed::boxed_listener;
pub use crate::util::work::{BoxError, WorkResult};

/// Leads when it is elected. A closure `Fn(Leadership) -> Future` is a listener too; its future may return any
/// [`WorkResult`].
///
/// ```no_run
/// use zookeeper_recipes::leader_selector::{
///     BoxError, LeaderSelectorListener, Leadership,
/// };
///
/// struct Worker;
///
/// impl LeaderSelectorListener for Worker {
///     async fn take_leadership(
///         &self,
///         leadership: Leadership,
///     ) -> Result<(), BoxError> {
///         println!("{} leads", leadership.id());
///         Ok(())
///     }
/// }
/// ```
#[doc(alias = "LeaderSelectorListenerAdapter")]
pub trait LeaderSelectorListener: Send + Sync + 'static {
    /// Leads. The leadership lasts until this returns.
    ///
    /// If it is lost or interrupted first, [`leadership.lost()`](Leadership::lost) resolves. After the [grace
    /// period](super::LeaderSelectorBuilder::grace_period) the future is dropped at the await it is in. The next call
    /// follows only after that.
    ///
    /// An error or a panic ends the term as well. [`outcomes`](super::LeaderSelector::outcomes) reports it.
    #[doc(alias = "takeLeadership")]
    fn take_leadership(&self, leadership: Leadership) -> impl Future<Output = Result<(), BoxError>> + Send;
}

impl<F, Fut> LeaderSelectorListener for F
where
    F: Fn(Leadership) -> Fut + Send + Sync + 'static,
    Fut: Future + Send,
    Fut::Output: WorkResult,
{
    async fn take_leadership(&self, leadership: Leadership) -> Result<(), BoxError> {
        self(leadership).await.into_work_result()
    }
}

boxed_listener! {
    /// Holds a [`LeaderSelectorListener`] of any type, for a collection of listeners or one that is chosen at run time.
    ///
    /// To use one listener at several paths, put it in an [`Arc`](std::sync::Arc): that is a listener too.
    ///
    /// ```no_run
    /// use zookeeper_recipes::Client;
    /// use zookeeper_recipes::leader_selector::{
    ///     BoxLeaderSelectorListener, Error, LeaderSelector, Leadership,
    /// };
    ///
    /// # fn example(client: &Client, dry_run: bool) -> Result<(), Error> {
    /// let listener = if dry_run {
    ///     let show = |leadership: Leadership| async move {
    ///         println!("would lead {}", leadership.path());
    ///     };
    ///     BoxLeaderSelectorListener::new(show)
    /// } else {
    ///     let lead = |leadership: Leadership| async move {
    ///         leadership.run(async { /* lead */ }).await
    ///     };
    ///     BoxLeaderSelectorListener::new(lead)
    /// };
    /// let selector = LeaderSelector::builder(client, "/my-service/leader")
    ///     .start(listener)?;
    /// # Ok(())
    /// # }
    /// ```
    pub struct BoxLeaderSelectorListener: LeaderSelectorListener {
        fn take_leadership(&self, leadership: Leadership) -> Result<(), BoxError>;
    }
}
