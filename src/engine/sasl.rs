//! Mechanisms of SASL (RFC 4422), by which a client and a server authenticate each other: tokens in, tokens out.
//!
//! ZooKeeper carries the tokens in requests of type 102. The server answers each with a token of its own or with a null
//! buffer. The client always sends the first one, which is empty in a mechanism in which the server speaks first.

use std::fmt;
use std::net::SocketAddr;

use futures::future::BoxFuture;

/// A mechanism of SASL with the credentials of one client, for [`Sasl::mechanism`](crate::Sasl::mechanism).
///
/// The client begins one [exchange](SaslExchange) for each connection. Credentials that are renewed, such as tickets of
/// Kerberos, are therefore read in the exchange, not when the mechanism is made.
///
/// ```
/// use std::future::{Future, ready};
/// use std::pin::Pin;
///
/// use zookeeper_recipes::{SaslError, SaslExchange, SaslMechanism};
/// use zookeeper_recipes::{SaslServer, SaslStep};
///
/// type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
///
/// /// A word that the servers know, and one that they answer.
/// #[derive(Debug)]
/// struct Password;
///
/// impl SaslMechanism for Password {
///     fn name(&self) -> &str {
///         "X-PASSWORD"
///     }
///
///     fn begin(&self, _: &SaslServer) -> Box<dyn SaslExchange> {
///         Box::new(Password)
///     }
/// }
///
/// impl SaslExchange for Password {
///     fn first(&mut self) -> BoxFuture<'_, Result<Vec<u8>, SaslError>> {
///         Box::pin(ready(Ok(b"open sesame".to_vec())))
///     }
///
///     fn step<'a>(
///         &'a mut self,
///         token: Option<&'a [u8]>,
///     ) -> BoxFuture<'a, Result<SaslStep, SaslError>> {
///         Box::pin(ready(match token {
///             Some(b"welcome") => Ok(SaslStep::Done),
///             _ => Err(SaslError::refused("the server has no answer")),
///         }))
///     }
/// }
/// ```
pub trait SaslMechanism: fmt::Debug + Send + Sync + 'static {
    /// Returns the registered name, such as `GSSAPI`. Errors begin with it.
    fn name(&self) -> &str;

    /// Begins the authentication of one connection to `server`. Must not block.
    fn begin(&self, server: &SaslServer) -> Box<dyn SaslExchange>;
}

/// The client's side of one authentication.
///
/// Both methods may wait, for a key distribution center for example, but must not block: blocking calls belong on a
/// thread of their own, as `tokio::task::spawn_blocking` has them.
///
/// The first token is asked for once the connection is made, and before the session is opened or resumed. It has the
/// time of the attempt: at least one second, and a third of the session timeout divided by the number of servers. Each
/// further step may take as long as a server may be silent (see
/// [`silence_timeout`](crate::ClientBuilder::silence_timeout)). After that the client tries the next server.
///
/// # Cancel safety
/// The client drops a future that takes too long, or whose connection it gives up, and then the exchange. The mechanism
/// must be usable for further exchanges.
pub trait SaslExchange: Send {
    /// Returns the first token. It is empty if the server speaks first.
    ///
    /// # Errors
    /// See [`SaslError`].
    fn first(&mut self) -> BoxFuture<'_, Result<Vec<u8>, SaslError>>;

    /// Processes an answer of the server and returns what to do next. `token` is `None` for a null buffer. That is the
    /// answer of a server without SASL, and the last answer in mechanisms whose last token is the client's.
    ///
    /// Must return [`SaslStep::Done`] only if the user is authenticated: the client then uses the connection.
    ///
    /// # Errors
    /// See [`SaslError`].
    fn step<'a>(&'a mut self, token: Option<&'a [u8]>) -> BoxFuture<'a, Result<SaslStep, SaslError>>;

    /// Describes what a server has refused that answers a token with an error. The answer itself has no reason.
    /// Default: `the server refused the credentials`.
    fn refusal(&self) -> String {
        "the server refused the credentials".to_owned()
    }
}

/// What to do after an answer of the server.
#[derive(Clone, PartialEq, Eq)]
pub enum SaslStep {
    /// Send this token. The server answers it.
    Respond(Vec<u8>),
    /// The user is authenticated. Nothing more is sent.
    Done,
}

impl fmt::Debug for SaslStep {
    // Tokens stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SaslStep::Respond(_) => "Respond",
            SaslStep::Done => "Done",
        })
    }
}

/// The server that a client authenticates with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaslServer {
    host: String,
    address: Option<SocketAddr>,
}

impl SaslServer {
    /// Describes a server by its host, as in the connect string, and the address of the connection.
    pub fn new(host: impl Into<String>, address: Option<SocketAddr>) -> Self {
        SaslServer { host: host.into(), address }
    }

    /// Returns the host as in the connect string: a name or an address, without the port, and without the brackets of
    /// an IPv6 address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the address that the connection was made to. `None` if the connection is not of TCP.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }
}

/// Why an authentication failed.
///
/// The text says who wanted to authenticate and what to do. It is a part of the error of
/// [`connect`](crate::ClientBuilder::connect), after the server and the name of the mechanism.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaslError {
    why: String,
    is_transient: bool,
}

impl SaslError {
    /// The credentials are refused, by the server, by another authority, or by the mechanism itself. If this is so for
    /// all servers, [`connect`](crate::ClientBuilder::connect) fails with
    /// [`ErrorKind::AuthFailed`](crate::ErrorKind::AuthFailed), and a session that is being resumed ends.
    pub fn refused(why: impl Into<String>) -> Self {
        SaslError { why: why.into(), is_transient: false }
    }

    /// A later attempt may succeed: an authority cannot be reached, or a ticket has to be renewed. The client tries the
    /// other servers and then this one again, as if the connection had failed. A session that is being resumed
    /// continues as long as the servers keep it without a connection.
    pub fn transient(why: impl Into<String>) -> Self {
        SaslError { why: why.into(), is_transient: true }
    }

    /// Returns whether a later attempt may succeed.
    pub fn is_transient(&self) -> bool {
        self.is_transient
    }
}

impl fmt::Display for SaslError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for SaslError {}
