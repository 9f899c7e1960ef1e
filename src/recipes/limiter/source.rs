//! Where the rate comes from if it is not fixed: user code, which may use the limiter that asks.

use std::cell::RefCell;
use std::sync::Arc;

type Rate = dyn Fn() -> u64 + Send + Sync;

/// Returns the rate whenever it is needed.
pub(super) struct Source(Box<Rate>);

thread_local! {
    /// The sources that this thread is asking, each from within the one before.
    static ASKING: RefCell<Vec<*const Source>> = const { RefCell::new(Vec::new()) };
}

/// Ends a question when dropped, also after a panic.
struct Asking;

impl Drop for Asking {
    fn drop(&mut self) {
        ASKING.with_borrow_mut(Vec::pop);
    }
}

impl Source {
    pub(super) fn new(rate: impl Fn() -> u64 + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Source(Box::new(rate)))
    }

    /// Returns the rate now. A source that asks for itself gets the rate that is known, instead of being asked without
    /// end.
    pub(super) fn rate(&self, known: u64) -> u64 {
        let this = std::ptr::from_ref(self);
        if ASKING.with_borrow(|asking| asking.contains(&this)) {
            return known;
        }
        ASKING.with_borrow_mut(|asking| asking.push(this));
        let _asking = Asking;
        (self.0)()
    }
}
