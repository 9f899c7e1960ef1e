//! What the errors of all recipes have in common.

/// Defines the `Error` of a recipe, its `kind`, `is_retryable` and `is_lost`, and the conversion from an error of the
/// client.
///
/// The caller gives the beginning of all messages, what a message says after a close, and the variants that only this
/// recipe has, with their kinds. Whether a call may be retried, and whether something is lost, follows from the kind,
/// except for the variants under `retryable` and `lost`. It uses the caller's `Arc`, `client` and `ErrorKind`.
macro_rules! recipe_error {
    (
        $(#[$doc:meta])*
        $at:literal, closed: $closed:literal;
        $({ $($own:tt)* })?
        kind { $($variant:pat => $kind:expr,)* }
        $(retryable { $($retried:pat => $retryable:expr,)* })?
        $(#[$lost_doc:meta])*
        lost { $($gone:pat => $lost:expr,)* }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
        #[non_exhaustive]
        pub enum Error {
            /// A request to ZooKeeper failed.
            // The message includes the cause's message, so `source` does not repeat it.
            #[error("{} {path}: {}", $at, .error.below(.path))]
            Client {
                /// The path, as the client names it.
                path: Arc<str>,
                /// The cause.
                error: client::Error,
            },
            #[doc = concat!("The object cannot be used any more: ", $closed, ".")]
            /// [`Client::last_error`](crate::Client::last_error) may say why.
            #[error("{} {path}: {}", $at, $closed)]
            Closed {
                /// The path, as the client names it.
                path: Arc<str>,
            },
            /// An option, or an argument, is out of its range.
            #[error("{} {path}: {why}", $at)]
            InvalidOption {
                /// The path, as the client names it.
                path: Arc<str>,
                /// The value, and what is allowed.
                why: String,
            },
            $($($own)*)?
        }

        impl Error {
            /// Returns the kind of the error, for code that decides how to react.
            pub fn kind(&self) -> ErrorKind {
                match self {
                    Error::Client { error, .. } => error.kind(),
                    Error::Closed { .. } => ErrorKind::Closed,
                    Error::InvalidOption { .. } => ErrorKind::InvalidArgument,
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

/// Defines the conversion from the error of a recipe that this one is made of.
#[allow(unused_macros)] // no recipe of a smaller build may stand on another one
macro_rules! from_recipe {
    ($(#[$doc:meta])* $name:ident: $recipe:ident) => {
        $(#[$doc])*
        pub(super) fn $name(path: &str, error: crate::$recipe::Error) -> Self {
            let path = path.into();
            match error {
                crate::$recipe::Error::Client { error, .. } => Error::Client { path, error },
                crate::$recipe::Error::Closed { .. } => Error::Closed { path },
                crate::$recipe::Error::InvalidOption { why, .. } => Error::InvalidOption { path, why },
            }
        }
    };
}

#[allow(unused_imports)] // as above
pub(crate) use from_recipe;
pub(crate) use recipe_error;
