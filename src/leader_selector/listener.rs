//! The listeners of a selector, which lead when they are elected.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::contender::leadership::Leadership;

/// The error of a listener.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Leads when it is elected. A closure `Fn(Leadership) -> Future` is a listener too; its future may return any
/// [`TermResult`].
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

/// The result of a closure that leads: `()`, or a `Result<(), E>` whose error converts into a [`BoxError`].
pub trait TermResult {
    /// Converts the result into the one that the selector reports.
    fn into_term_result(self) -> Result<(), BoxError>;
}

impl TermResult for () {
    fn into_term_result(self) -> Result<(), BoxError> {
        Ok(())
    }
}

impl<E: Into<BoxError>> TermResult for Result<(), E> {
    fn into_term_result(self) -> Result<(), BoxError> {
        self.map_err(Into::into)
    }
}

impl<F, Fut> LeaderSelectorListener for F
where
    F: Fn(Leadership) -> Fut + Send + Sync + 'static,
    Fut: Future + Send,
    Fut::Output: TermResult,
{
    async fn take_leadership(&self, leadership: Leadership) -> Result<(), BoxError> {
        self(leadership).await.into_term_result()
    }
}

impl<L: LeaderSelectorListener + ?Sized> LeaderSelectorListener for Arc<L> {
    fn take_leadership(&self, leadership: Leadership) -> impl Future<Output = Result<(), BoxError>> + Send {
        (**self).take_leadership(leadership)
    }
}

/// Holds a [`LeaderSelectorListener`] of any type, for a collection of listeners or one that is chosen at run time.
///
/// To use one listener at several paths, put it in an [`Arc`]: that is a listener too.
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
pub struct BoxLeaderSelectorListener(Box<dyn BoxedListener>);

/// A listener whose future has one type, as only such a trait can be a `dyn`.
trait BoxedListener: Send + Sync {
    fn lead(&self, leadership: Leadership) -> BoxFuture<'_, Result<(), BoxError>>;
}

impl<L: LeaderSelectorListener> BoxedListener for L {
    fn lead(&self, leadership: Leadership) -> BoxFuture<'_, Result<(), BoxError>> {
        self.take_leadership(leadership).boxed()
    }
}

impl BoxLeaderSelectorListener {
    /// Boxes `listener`.
    pub fn new(listener: impl LeaderSelectorListener) -> Self {
        BoxLeaderSelectorListener(Box::new(listener))
    }
}

impl LeaderSelectorListener for BoxLeaderSelectorListener {
    fn take_leadership(&self, leadership: Leadership) -> impl Future<Output = Result<(), BoxError>> + Send {
        self.0.lead(leadership)
    }
}

impl fmt::Debug for BoxLeaderSelectorListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxLeaderSelectorListener").finish_non_exhaustive()
    }
}
