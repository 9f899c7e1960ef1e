//! What the locks share: one guard, one error, and the calls that acquire.
//!
//! A function that works with a guard of any of them names the [`Guard`]:
//!
//! ```
//! use zookeeper_recipes::lock::{Guard, LockLost, Mode};
//!
//! async fn report(guard: &Guard<impl Mode>) -> Result<(), LockLost> {
//!     guard
//!         .run(async {
//!             println!("{} is held by {}", guard.path(), guard.node_path());
//!         })
//!         .await
//! }
//! ```
//!
//! The permits of a [semaphore](crate::semaphore) and the locks of a [multi-lock](crate::multi_lock) have guards of
//! their own.

mod calls;
mod error;
mod guard;

mod sealed {
    /// Keeps a trait from being implemented by other crates.
    pub trait Sealed {}
}

pub(crate) use self::calls::lock_calls;
pub use self::error::{Error, LockKind, LockLost};
pub use self::guard::{Exclusive, Guard, Mode, Read, Write};
