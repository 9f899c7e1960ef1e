//! Encryption and authentication of the connection.

mod sasl;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
mod without_tls;

pub use self::sasl::Sasl;
#[cfg(feature = "tls")]
pub use self::tls::Tls;
#[cfg(not(feature = "tls"))]
pub(crate) use self::without_tls::Tls;
