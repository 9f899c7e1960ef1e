//! Authentication of the client by SASL.

use std::fmt;
use std::sync::Arc;

#[cfg(feature = "sasl-digest-md5")]
use crate::client::error::{Error, ErrorKind};
#[cfg(feature = "sasl-digest-md5")]
use crate::engine::digest_md5::Credentials;
use crate::engine::sasl::SaslMechanism;

/// Configures how the client authenticates by SASL: by a user and a password (feature `sasl-digest-md5`), by Kerberos
/// (the package `zookeeper-recipes-gssapi`), or by a [mechanism](SaslMechanism) of your own.
///
/// The client authenticates on each connection, before its first request. With DIGEST-MD5 the client and each server
/// prove to each other that they know the password. A server that does not offer SASL causes
/// [`ErrorKind::AuthFailed`](crate::ErrorKind::AuthFailed). (Java's client continues without a user.) Configure the
/// servers before the clients.
///
/// Servers accept other clients without a user, unless `enforce.auth.enabled` is set: data is protected by its
/// [ACL](crate::ClientBuilder::acls), such as `sasl:alice`. Use servers with the fix for ZOOKEEPER-4839: without it
/// they accept any user name that they do not know, with the password of the user who authenticated last.
///
/// ```
/// # #[cfg(feature = "sasl-digest-md5")]
/// # fn main() -> Result<(), zookeeper_recipes::Error> {
/// use zookeeper_recipes::{Client, Sasl};
///
/// let sasl = Sasl::digest_md5("alice", "secret")?;
/// let builder = Client::builder("zk1:2181").sasl(sasl);
/// # let _ = builder;
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "sasl-digest-md5"))]
/// # fn main() {}
/// ```
#[derive(Clone)]
pub struct Sasl(Arc<dyn SaslMechanism>);

impl Sasl {
    /// Returns the credentials of a user, as configured in the server's JAAS file.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if the user name is empty.
    #[cfg(feature = "sasl-digest-md5")]
    pub fn digest_md5(user: impl Into<String>, password: impl Into<String>) -> Result<Self, Error> {
        let user = user.into();
        if user.is_empty() {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                "SASL user name: empty; at least one character is needed",
            ));
        }
        Ok(Sasl::mechanism(Credentials::new(user, password.into())))
    }

    /// Authenticates by a mechanism of your own, or of another crate.
    pub fn mechanism(mechanism: impl SaslMechanism) -> Self {
        Sasl(Arc::new(mechanism))
    }

    pub(crate) fn to_mechanism(&self) -> Arc<dyn SaslMechanism> {
        Arc::clone(&self.0)
    }
}

impl fmt::Debug for Sasl {
    // Shows the name alone: the mechanism has credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sasl").field("mechanism", &self.0.name()).finish_non_exhaustive()
    }
}
