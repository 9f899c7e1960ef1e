//! The result of work that a user's closure does.

use std::error::Error;

/// The error of a user's work.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The result of a closure that works for a recipe: `()`, or a `Result<(), E>` whose error converts into a
/// [`BoxError`].
pub trait WorkResult {
    /// Converts the result into the one that the recipe reports.
    fn into_work_result(self) -> Result<(), BoxError>;
}

impl WorkResult for () {
    fn into_work_result(self) -> Result<(), BoxError> {
        Ok(())
    }
}

impl<E: Into<BoxError>> WorkResult for Result<(), E> {
    fn into_work_result(self) -> Result<(), BoxError> {
        self.map_err(Into::into)
    }
}
