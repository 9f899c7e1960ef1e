//! Panics of code outside this library.

use std::any::Any;
use std::panic::AssertUnwindSafe;

/// Returns the message of a panic.
pub(crate) fn panic_text(panic: Box<dyn Any + Send>) -> String {
    let panic = match panic.downcast::<String>() {
        Ok(text) => return *text,
        Err(panic) => panic,
    };
    match panic.downcast::<&'static str>() {
        Ok(text) => (*text).to_owned(),
        Err(panic) => {
            // A payload can be any value, even one that panics when it is dropped. The payload of that second panic is
            // never dropped.
            if let Err(again) = std::panic::catch_unwind(AssertUnwindSafe(|| drop(panic))) {
                std::mem::forget(again);
            }
            "no message".to_owned()
        }
    }
}

/// Runs code that calls a user's code. Returns the message if it panicked.
pub(crate) fn caught<T>(act: impl FnOnce() -> T) -> Result<T, String> {
    std::panic::catch_unwind(AssertUnwindSafe(act)).map_err(panic_text)
}
