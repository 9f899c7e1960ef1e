//! Authentication of the client by SASL.

use std::fmt;

use crate::client::error::{Error, ErrorKind};
use crate::engine::sasl::Credentials;

/// Configures how the client authenticates by SASL (feature `sasl-digest-md5`).
///
/// The client and each server prove to each other that they know the password. A server that does not offer SASL causes
/// [`ErrorKind::AuthFailed`]. (Java's client continues without a user.) Configure the servers before the clients.
///
/// Servers accept other clients without a user, unless `enforce.auth.enabled` is set: data is protected by its
/// [ACL](crate::ClientBuilder::acls), such as `sasl:alice`. Use servers with the fix for ZOOKEEPER-4839: without it
/// they accept any user name that they do not know, with the password of the user who authenticated last.
///
/// ```
/// use zookeeper_recipes::{Client, Sasl};
///
/// # fn main() -> Result<(), zookeeper_recipes::Error> {
/// let sasl = Sasl::digest_md5("alice", "secret")?;
/// let builder = Client::builder("zk1:2181").sasl(sasl);
/// # let _ = builder;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Sasl(Credentials);

impl Sasl {
    /// Returns the credentials of a user, as configured in the server's JAAS file.
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
        Ok(Sasl(Credentials::new(user, password.into())))
    }

    pub(crate) fn credentials(&self) -> Credentials {
        self.0.clone()
    }
}

impl fmt::Debug for Sasl {
    // The password stays out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sasl").finish_non_exhaustive()
    }
}
