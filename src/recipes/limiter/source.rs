//! Where the rate comes from if it is not fixed: user code, which may use the limiter that calls it.

use std::cell::RefCell;
use std::sync::Arc;

type Rate = dyn Fn() -> u64 + Send + Sync;

/// Returns the current rate when it is called.
pub(super) struct Source(Box<Rate>);

thread_local! {
    /// The sources that this thread is calling, each from within the previous one.
    static CALLING: RefCell<Vec<*const Source>> = const { RefCell::new(Vec::new()) };
}

/// Ends a call when dropped, even after a panic.
struct Calling;

impl Drop for Calling {
    fn drop(&mut self) {
        CALLING.with_borrow_mut(Vec::pop);
    }
}

impl Source {
    pub(super) fn new(rate: impl Fn() -> u64 + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Source(Box::new(rate)))
    }

    /// Returns the current rate. A source that asks the limiter for its rate gets the known rate, so there is no
    /// endless recursion.
    pub(super) fn rate(&self, known: u64) -> u64 {
        let this = std::ptr::from_ref(self);
        if CALLING.with_borrow(|calling| calling.contains(&this)) {
            return known;
        }
        CALLING.with_borrow_mut(|calling| calling.push(this));
        let _calling = Calling;
        (self.0)()
    }
}
