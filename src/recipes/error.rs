//! What the errors of all recipes have in common.

/// Implements for a recipe's `Error`, which has the variants `Client { path, error }` and `Closed { path }`: `kind`,
/// `is_retryable`, `is_lost` and the conversion from an error of the client.
///
/// The kinds of the other variants are named; whether a call may be retried, and whether something is lost, follows
/// from the kind, except for the variants that are listed.
macro_rules! recipe_error {
    (
        kind { $($variant:pat => $kind:expr,)* }
        $(retryable { $($retried:pat => $retryable:expr,)* })?
        $(#[$lost_doc:meta])*
        lost { $($gone:pat => $lost:expr,)* }
    ) => {
        impl Error {
            /// Returns the kind of the error, for code that decides how to react.
            pub fn kind(&self) -> ErrorKind {
                match self {
                    Error::Client { error, .. } => error.kind(),
                    Error::Closed { .. } => ErrorKind::Closed,
                    $($variant => $kind,)*
                }
            }

            /// Returns whether the same call may succeed later without a change by the caller or an operator.
            pub fn is_retryable(&self) -> bool {
                match self {
                    $($($retried => $retryable,)*)?
                    error => error.kind().is_retryable(),
                }
            }

            $(#[$lost_doc])*
            pub fn is_lost(&self) -> bool {
                match self {
                    $($gone => $lost,)*
                    error => error.kind().is_lost(),
                }
            }

            /// Converts an error of the client.
            pub(super) fn client(path: &str, error: client::Error) -> Self {
                match error.kind() {
                    ErrorKind::Closed => Error::Closed { path: path.into() },
                    _ => Error::Client { path: path.into(), error },
                }
            }
        }
    };
}

pub(crate) use recipe_error;
