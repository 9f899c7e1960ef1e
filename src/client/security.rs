//! Encryption and authentication of the connection.

#[cfg(any(feature = "tls", feature = "sasl-digest-md5"))]
use zookeeper as zk;

#[cfg(any(feature = "tls", feature = "sasl-digest-md5"))]
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
pub struct Tls {
    options: zk::TlsOptions,
    trusts_somebody: bool,
}

#[cfg(feature = "tls")]
impl Tls {
    /// No authority is trusted yet.
    pub fn new() -> Self {
        Tls::default()
    }

    /// The authorities to trust (and revocation lists, if any), in PEM: one text for all of them, as a second call replaces
    /// the first.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if the text holds no certificate.
    pub fn ca_pem(self, pem: &str) -> Result<Self, Error> {
        // The layer below takes a text without any certificate for an empty set.
        if !pem.contains("-----BEGIN CERTIFICATE-----") {
            return Err(invalid("CA certificates", "no `BEGIN CERTIFICATE` in the text"));
        }
        let options = self.options.with_pem_ca(pem).map_err(|error| invalid("CA certificates", error))?;
        Ok(Tls { options, trusts_somebody: true })
    }

    /// What this client presents to servers that ask for it: a certificate and its private key, in PEM.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if either is malformed. That they do not belong together is told by `connect`.
    pub fn identity_pem(self, certificate: &str, key: &str) -> Result<Self, Error> {
        if !certificate.contains("-----BEGIN CERTIFICATE-----") {
            return Err(invalid("client identity", "no `BEGIN CERTIFICATE` in the text of the certificate"));
        }
        let options = self.options.with_pem_identity(certificate, key);
        let options = options.map_err(|error| invalid("client identity", error))?;
        Ok(Tls { options, ..self })
    }

    /// Whether a connection could be made at all.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.trusts_somebody {
            return Ok(());
        }
        Err(invalid("CA certificates", "none; call ca_pem() with the authorities to trust"))
    }

    pub(crate) fn options(&self) -> zk::TlsOptions {
        self.options.clone()
    }
}

#[cfg(feature = "tls")]
fn invalid(what: &str, why: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("TLS {what}: {why}"))
}

/// How the client authenticates by SASL (feature `sasl-digest-md5`).
///
/// A server that knows no SASL lets the client in all the same, as anybody: what protects data is its
/// [ACL](crate::ClientBuilder::acls), such as `sasl:alice`.
#[cfg(feature = "sasl-digest-md5")]
#[derive(Clone)]
pub struct Sasl(zk::SaslOptions);

#[cfg(feature = "sasl-digest-md5")]
impl Sasl {
    /// A user name and a password, as configured in the server's JAAS file.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if the user name is empty.
    pub fn digest_md5(user: impl Into<String>, password: impl Into<String>) -> Result<Self, Error> {
        let user = user.into();
        if user.is_empty() {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "SASL user name: empty; at least one character is needed",
            ));
        }
        Ok(Sasl(zk::SaslOptions::digest_md5(user, password.into()).into()))
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
