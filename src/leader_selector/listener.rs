//! Who leads when elected.

use std::error::Error;

use crate::contender::leadership::Leadership;

/// An error of a listener's own.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// What leads when elected. Closures `Fn(Leadership) -> Future` are listeners too, whose future may return anything that is a
/// [`TermResult`].
pub trait LeaderSelectorListener: Send + Sync + 'static {
    /// Leads: the leadership lasts until this returns. When it is lost or interrupted first,
    /// [`leadership.lost()`](Leadership::lost) resolves, and after the
    /// [grace period](super::LeaderSelectorBuilder::grace_period) the future is dropped at the await it is in. It is never
    /// called again before that. An error (or a panic) ends the term as well and is told by
    /// [`outcomes`](super::LeaderSelector::outcomes).
    fn take_leadership(&self, leadership: Leadership) -> impl Future<Output = Result<(), BoxError>> + Send;
}

/// What the future of a closure that leads may return: nothing, or a result whatever its error.
pub trait TermResult {
    /// The result as the selector takes it.
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
