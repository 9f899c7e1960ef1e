//! A receiver of a state that changes.

use std::fmt;

use tokio::sync::watch;

/// Follows the state of a latch, a selector, a share or a persistent node.
///
/// It returns copies and holds no lock between two calls, so it can be kept and used anywhere.
///
/// ```no_run
/// # use zookeeper_recipes::leader_latch::LeaderLatch;
/// # async fn example(latch: LeaderLatch) {
/// // Ends when the latch is closed.
/// let mut state = latch.state();
/// println!("now {:?}", state.get());
/// while let Ok(next) = state.changed().await {
///     println!("then {next:?}");
/// }
/// # }
/// ```
pub struct StateReceiver<T> {
    states: watch::Receiver<T>,
    /// Whether this is the last state.
    is_last: fn(&T) -> bool,
}

/// The latch, selector, share or node has ended, so its state no longer changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the state no longer changes: its recipe has ended")]
pub struct StateEnded;

impl<T: Clone> StateReceiver<T> {
    pub(crate) fn new(states: watch::Receiver<T>, is_last: fn(&T) -> bool) -> Self {
        StateReceiver { states, is_last }
    }

    /// Returns the latest state.
    pub fn get(&self) -> T {
        self.states.borrow().clone()
    }

    /// Returns whether the state has changed since the last call of [`changed`](Self::changed),
    /// [`wait_for`](Self::wait_for) or [`mark_unchanged`](Self::mark_unchanged), or since this receiver was created.
    pub fn has_changed(&self) -> bool {
        self.states.borrow().has_changed()
    }

    /// Marks the current state as seen: [`changed`](Self::changed) waits for the next change after this call.
    pub fn mark_unchanged(&mut self) {
        self.states.mark_unchanged();
    }

    /// Waits until the state has changed since the last call of this method, of [`wait_for`](Self::wait_for) or of
    /// [`mark_unchanged`](Self::mark_unchanged), or since this receiver was created. Returns the latest state; states
    /// between two calls are skipped.
    ///
    /// # Errors
    /// [`StateEnded`] if the last state was seen: the recipe is closed, or its runtime has ended.
    ///
    /// # Cancel safety
    /// Cancel safe: a change that was not returned is returned by the next call.
    pub async fn changed(&mut self) -> Result<T, StateEnded> {
        if (self.is_last)(&self.states.borrow()) && !self.has_changed() {
            return Err(StateEnded);
        }
        self.states.changed().await.map_err(|_| StateEnded)?;
        Ok(self.states.borrow_and_update().clone())
    }

    /// Waits until `condition` holds for the latest state, and returns that state. Returns at once if it holds now.
    ///
    /// # Errors
    /// [`StateEnded`] if it does not hold for the last state.
    ///
    /// # Cancel safety
    /// Cancel safe: it only waits.
    pub async fn wait_for(&mut self, mut condition: impl FnMut(&T) -> bool) -> Result<T, StateEnded> {
        loop {
            // The condition runs without the channel's lock: it may call the recipe.
            let state = self.states.borrow_and_update().clone();
            if condition(&state) {
                return Ok(state);
            }
            if (self.is_last)(&state) {
                return Err(StateEnded);
            }
            self.states.changed().await.map_err(|_| StateEnded)?;
        }
    }
}

impl<T> Clone for StateReceiver<T> {
    fn clone(&self) -> Self {
        StateReceiver { states: self.states.clone(), is_last: self.is_last }
    }
}

impl<T: fmt::Debug> fmt::Debug for StateReceiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StateReceiver").field(&*self.states.borrow()).finish()
    }
}
