//! Kerberos for [`zookeeper_recipes`]: the mechanism GSSAPI of SASL (RFC 4752), by the system's GSSAPI library.
//!
//! ```no_run
//! use zookeeper_recipes::{Acl, Client, Sasl};
//! use zookeeper_recipes_gssapi::Gssapi;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let app = Gssapi::keytab("/etc/app.keytab", "app@EXAMPLE.ORG")?;
//! let client = Client::builder("zk1.example.org,zk2.example.org")
//!     .sasl(Sasl::mechanism(app))
//!     .acls([Acl::creator_all()])
//!     .connect()
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! The client and each server prove to each other who they are, on each connection. The requests themselves are not
//! protected by Kerberos: use TLS as well, with or without client certificates.
//!
//! # Tickets
//!
//! | credentials | who renews them |
//! |---|---|
//! | [`Gssapi::keytab`] | this crate, when a connection is made and half of the ticket's time is over |
//! | [`Gssapi::cache`], [`Gssapi::default_cache`] | another program, such as `kinit` or `k5start` |
//!
//! Each connection reads its cache when it is made. A connection that is authenticated stays so, even after the ticket
//! has expired: a ticket matters again at the next connection.
//!
//! # Errors
//!
//! They are in the error of [`connect`](zookeeper_recipes::ClientBuilder::connect), and in the log events
//! `credentials_refused` and `outage_began`. Each names the client's principal, the server's principal, the reason, and
//! what to do.
//!
//! Some are final, such as a principal that the KDC does not know: `connect` fails with
//! [`ErrorKind::AuthFailed`](zookeeper_recipes::ErrorKind::AuthFailed), and a session that no server accepts any more
//! ends. Others may pass, such as a KDC that does not answer or an expired ticket: the client tries the other servers
//! and then this one again, and the session continues as long as the servers keep it.
//!
//! # The system's library
//!
//! The crate needs MIT Kerberos 1.11 or later, with headers, `pkg-config` and libclang to build it: on Debian
//! `libkrb5-dev`, `pkg-config` and `libclang-dev`. Realms and KDCs are configured in `krb5.conf`. Calls that may block
//! are made on tokio's threads for blocking calls.

/// Compiles the code of the README and of the guide.
#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../../docs/guide/src/kerberos.md")]
    mod kerberos {}
    #[doc = include_str!("../README.md")]
    mod readme {}
}

mod credentials;
mod exchange;
mod failure;
mod layer;
mod service;
mod store;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::Semaphore;
use zookeeper_recipes::{SaslExchange, SaslMechanism, SaslServer};

use crate::credentials::Credentials;
use crate::exchange::{Client, Exchange};
use crate::service::Service;

/// How many calls of one mechanism may be in progress. One is enough for a client; clients may share a mechanism.
const CALLS: usize = 4;

/// The mechanism GSSAPI with Kerberos, for [`Sasl::mechanism`](zookeeper_recipes::Sasl::mechanism).
///
/// May be cloned for further clients.
#[derive(Debug, Clone)]
#[must_use = "pass it to Sasl::mechanism()"]
pub struct Gssapi {
    credentials: Arc<Credentials>,
    service: Service,
    calls: Arc<Semaphore>,
}

impl Gssapi {
    /// Uses the tickets of the default cache: the one that `KRB5CCNAME` names, or else krb5.conf.
    ///
    /// Each connection reads the cache: a ticket that another program has renewed is used from the next one on.
    pub fn default_cache() -> Self {
        Gssapi::new(Credentials::default_cache())
    }

    /// Uses the tickets of a cache, named as in `KRB5CCNAME`: `FILE:/run/app/tickets`, or a path alone.
    ///
    /// # Errors
    /// If the name is empty or contains a zero byte. Whether there is a ticket is only known at a connection.
    pub fn cache(name: &str) -> Result<Self, InvalidOption> {
        Credentials::cache(name).map(Gssapi::new)
    }

    /// Gets tickets for `principal` with its key in a keytab, and keeps them in memory. Neither the environment nor the
    /// default cache is touched.
    ///
    /// The first connection gets a ticket. Later ones get another when half of its time is over.
    ///
    /// # Errors
    /// If the keytab cannot be read or is none, or the principal is malformed. Reads the first byte of the file. If it
    /// cannot be read later, because it is being replaced, that only delays the connection.
    pub fn keytab(path: impl AsRef<Path>, principal: &str) -> Result<Self, InvalidOption> {
        Credentials::keytab(path.as_ref(), principal).map(Gssapi::new)
    }

    fn new(credentials: Credentials) -> Self {
        let calls = Arc::new(Semaphore::new(CALLS));
        Gssapi { credentials: Arc::new(credentials), service: Service::default(), calls }
    }

    /// Sets the first component of the servers' principals. Default: `zookeeper`. Replaces
    /// [`server_principal`](Self::server_principal).
    ///
    /// The second one is the host, and the realm is krb5.conf's `default_realm`:
    /// `zookeeper/zk1.example.org@EXAMPLE.ORG`.
    ///
    /// # Errors
    /// If the name is empty or contains `/`, `@` or white space.
    #[doc(alias = "zookeeper.sasl.client.username")]
    pub fn service(self, name: &str) -> Result<Self, InvalidOption> {
        Ok(Gssapi { service: self.service.named(name)?, ..self })
    }

    /// Sets whether the host in a server's principal is the name that belongs to the address of the connection, by a
    /// reverse look-up, as in Java's client. Default: false; it is the host of the connect string, as it is for an
    /// address without a name.
    ///
    /// The name service can then choose the principal. Prefer a connect string with the names that are in the
    /// principals.
    #[doc(alias = "zookeeper.sasl.client.canonicalize.hostname")]
    pub fn canonicalize_host(mut self, canonicalize: bool) -> Self {
        self.service.canonicalizes = canonicalize;
        self
    }

    /// Sets the whole principal of the servers, with `_HOST` in the place of the host, if each server has its own:
    /// `zookeeper/_HOST@OTHER.EXAMPLE.ORG`. Default: `zookeeper/_HOST` in krb5.conf's `default_realm`. Replaces
    /// [`service`](Self::service).
    ///
    /// # Errors
    /// If the principal is not of the form `NAME[/INSTANCE][@REALM]`.
    #[doc(alias = "zookeeper.server.principal")]
    pub fn server_principal(self, principal: &str) -> Result<Self, InvalidOption> {
        Ok(Gssapi { service: self.service.principal(principal)?, ..self })
    }
}

impl SaslMechanism for Gssapi {
    fn name(&self) -> &str {
        "GSSAPI"
    }

    fn begin(&self, server: &SaslServer) -> Box<dyn SaslExchange> {
        let client = Client {
            credentials: Arc::clone(&self.credentials),
            service: Arc::new(self.service.clone()),
            calls: Arc::clone(&self.calls),
        };
        Box::new(Exchange::new(client, server.clone()))
    }
}

/// An option that cannot be used. The text names the option, its value, and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidOption(String);

impl InvalidOption {
    fn new(option: &str, value: &str, why: &str) -> Self {
        InvalidOption(format!("GSSAPI {option} {value:?}: {why}"))
    }
}

impl fmt::Display for InvalidOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidOption {}
