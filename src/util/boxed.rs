//! Boxed listeners: one type for listeners of any type.

/// Declares the boxed form of a listener's trait, and implements the trait for it and for an `Arc` of a listener.
///
/// A trait whose methods return `impl Future` cannot be a `dyn`; the trait `Boxed` returns boxed futures instead.
macro_rules! boxed_listener {
    (
        $(#[$doc:meta])*
        pub struct $boxed:ident: $listener:ident {
            $(fn $method:ident(&self $(, $arg:ident: $type:ty)?) -> $output:ty;)+
        }
    ) => {
        $(#[$doc])*
        pub struct $boxed(Box<dyn Boxed>);

        trait Boxed: Send + Sync {
            $(fn $method(&self $(, $arg: $type)?) -> futures::future::BoxFuture<'_, $output>;)+
        }

        impl<L: $listener> Boxed for L {
            $(
                fn $method(&self $(, $arg: $type)?) -> futures::future::BoxFuture<'_, $output> {
                    Box::pin($listener::$method(self $(, $arg)?))
                }
            )+
        }

        impl $boxed {
            /// Boxes `listener`.
            pub fn new(listener: impl $listener) -> Self {
                $boxed(Box::new(listener))
            }
        }

        impl $listener for $boxed {
            $(
                fn $method(&self $(, $arg: $type)?) -> impl Future<Output = $output> + Send {
                    Boxed::$method(&*self.0 $(, $arg)?)
                }
            )+
        }

        impl<L: $listener + ?Sized> $listener for std::sync::Arc<L> {
            $(
                fn $method(&self $(, $arg: $type)?) -> impl Future<Output = $output> + Send {
                    (**self).$method($($arg)?)
                }
            )+
        }

        impl std::fmt::Debug for $boxed {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($boxed)).finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use boxed_listener;
