//! Encryption and authentication of the connection.

#[cfg(any(feature = "tls", feature = "sasl-digest-md5"))]
use zookeeper as zk;

#[cfg(feature = "tls")]
use super::error::{Error, ErrorKind};

/// How connections are encrypted (feature `tls`). The server's certificate must be signed by one of the given
/// authorities and name the host of the connect string.
///
/// ```
/// use zookeeper_recipes::Tls;
///
/// let error = Tls::new().ca_pem("not a certificate").unwrap_err();
/// assert!(error.to_string().contains("CA certificates"));
/// ```
#[cfg(feature = "tls")]
#[derive(Debug, Clone, Default)]
pub struct Tls(zk::TlsOptions);

#[cfg(feature = "tls")]
impl Tls {
    /// No authority is trusted yet.
    pub fn new() -> Self {
        Tls(zk::TlsOptions::new())
    }

    /// The authorities to trust (and revocation lists, if any), in PEM.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if the text holds no certificate.
    pub fn ca_pem(self, pem: &str) -> Result<Self, Error> {
        // The layer below takes a text without any certificate for an empty set.
        if !pem.contains("-----BEGIN CERTIFICATE-----") {
            return Err(invalid("CA certificates", "no `BEGIN CERTIFICATE` in the text"));
        }
        self.0
            .with_pem_ca(pem)
            .map(Tls)
            .map_err(|error| invalid("CA certificates", error))
    }

    /// What this client presents to servers that ask for it: a certificate and its private key, in PEM.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if either is malformed.
    pub fn identity_pem(self, certificate: &str, key: &str) -> Result<Self, Error> {
        self.0
            .with_pem_identity(certificate, key)
            .map(Tls)
            .map_err(|error| invalid("client identity", error))
    }

    pub(crate) fn options(&self) -> zk::TlsOptions {
        self.0.clone()
    }
}

#[cfg(feature = "tls")]
fn invalid(what: &str, why: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("TLS {what}: {why}"))
}

/// How the client authenticates by SASL (feature `sasl-digest-md5`).
#[cfg(feature = "sasl-digest-md5")]
#[derive(Clone)]
pub struct Sasl(zk::SaslOptions);

#[cfg(feature = "sasl-digest-md5")]
impl Sasl {
    /// A user name and a password, as configured in the server's JAAS file.
    pub fn digest_md5(user: impl Into<String>, password: impl Into<String>) -> Self {
        Sasl(zk::SaslOptions::digest_md5(user.into(), password.into()).into())
    }

    pub(crate) fn options(&self) -> zk::SaslOptions {
        self.0.clone()
    }
}

#[cfg(feature = "sasl-digest-md5")]
impl std::fmt::Debug for Sasl {
    // The password stays out of logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sasl").finish_non_exhaustive()
    }
}
