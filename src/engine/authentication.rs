//! The authentication of one connection by SASL, from the mechanism's first token on.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::failure::{Failure, timed_out};
use super::sasl::{SaslError, SaslExchange, SaslMechanism, SaslServer, SaslStep};

/// The first token of an attempt to connect, if the client authenticates by SASL.
pub(crate) struct FirstToken<'a> {
    mechanism: Option<&'a dyn SaslMechanism>,
    is_awaited: AtomicBool,
}

impl<'a> FirstToken<'a> {
    pub(crate) fn new(mechanism: Option<&'a dyn SaslMechanism>) -> Self {
        FirstToken { mechanism, is_awaited: AtomicBool::new(false) }
    }

    /// Waits for the token for a server. The caller limits the time.
    pub(crate) async fn of(&self, host: &str, address: Option<SocketAddr>) -> Result<Option<Authentication>, Failure> {
        let Some(mechanism) = self.mechanism else { return Ok(None) };
        self.is_awaited.store(true, Ordering::Relaxed);
        let name = mechanism.name().to_owned();
        let mut exchange = mechanism.begin(&SaslServer::new(host, address));
        let token = exchange.first().await.map_err(|error| failure(&name, &error))?;
        self.is_awaited.store(false, Ordering::Relaxed);
        Ok(Some(Authentication { name, exchange, token }))
    }

    /// Returns why an attempt failed that has taken `limit`.
    pub(crate) fn timed_out(&self, limit: Duration) -> Failure {
        match self.mechanism {
            Some(mechanism) if self.is_awaited.load(Ordering::Relaxed) => took_too_long(mechanism.name(), limit),
            _ => timed_out(limit),
        }
    }
}

/// An exchange whose next token is to be sent.
pub(crate) struct Authentication {
    name: String,
    exchange: Box<dyn SaslExchange>,
    token: Vec<u8>,
}

impl fmt::Debug for Authentication {
    // The token stays out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authentication").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Authentication {
    pub(crate) fn token(&self) -> &[u8] {
        &self.token
    }

    /// Gives the server's answer to the mechanism, which has `patience` to process it. Returns whether the client is
    /// authenticated; if not, there is another token.
    pub(crate) async fn answered(&mut self, answer: Option<&[u8]>, patience: Duration) -> Result<bool, Failure> {
        match tokio::time::timeout(patience, self.exchange.step(answer)).await {
            Ok(Ok(SaslStep::Done)) => Ok(true),
            Ok(Ok(SaslStep::Respond(token))) => {
                self.token = token;
                Ok(false)
            }
            Ok(Err(error)) => Err(failure(&self.name, &error)),
            Err(_) => Err(took_too_long(&self.name, patience)),
        }
    }

    /// Returns why the client cannot go on after the server has refused its token.
    pub(crate) fn refused(&self) -> Failure {
        Failure::Credentials(format!("SASL {}: {}", self.name, self.exchange.refusal()))
    }
}

/// Returns why a connection cannot be used whose mechanism was given no more than `limit`.
fn took_too_long(name: &str, limit: Duration) -> Failure {
    Failure::Connection(format!("SASL {name}: the mechanism took longer than {limit:?}"))
}

fn failure(name: &str, error: &SaslError) -> Failure {
    let why = format!("SASL {name}: {error}");
    if error.is_transient() { Failure::Connection(why) } else { Failure::Credentials(why) }
}
