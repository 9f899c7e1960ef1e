//! Encryption and authentication of the connection.

#[cfg(feature = "sasl-digest-md5")]
mod sasl;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(all(feature = "tls", feature = "sasl-digest-md5")))]
mod without;

#[cfg(feature = "sasl-digest-md5")]
pub use self::sasl::Sasl;
#[cfg(feature = "tls")]
pub use self::tls::Tls;
#[cfg(not(feature = "sasl-digest-md5"))]
pub(crate) use self::without::Sasl;
#[cfg(not(feature = "tls"))]
pub(crate) use self::without::Tls;
