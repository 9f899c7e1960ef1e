//! The client's side of one authentication (RFC 4752): a context of GSSAPI, then the choice of a security layer.

use std::sync::Arc;

use futures::future::BoxFuture;
use libgssapi::context::{ClientCtx, CtxFlags, SecurityContext};
use libgssapi::name::Name;
use libgssapi::oid::{GSS_MECH_KRB5, GSS_NT_KRB5_PRINCIPAL};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use zookeeper_recipes::{SaslError, SaslExchange, SaslServer, SaslStep};

use crate::credentials::Credentials;
use crate::failure::{explain, unproven};
use crate::layer;
use crate::service::Service;

/// Mutual authentication, and the protection of the message that selects the layer.
const NEEDED: CtxFlags = CtxFlags::GSS_C_MUTUAL_FLAG.union(CtxFlags::GSS_C_INTEG_FLAG);

/// What each exchange of a mechanism needs.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) credentials: Arc<Credentials>,
    pub(crate) service: Arc<Service>,
    /// Limits the calls in progress: a KDC that does not answer keeps a thread for longer than the client waits.
    pub(crate) calls: Arc<Semaphore>,
}

pub(crate) struct Exchange {
    client: Client,
    server: SaslServer,
    /// Which principal asks for which service, for errors.
    who: String,
    state: State,
}

enum State {
    /// The server answers with tokens for the context.
    Establishing(ClientCtx),
    /// The server answers with its offer of security layers.
    Selecting(ClientCtx),
    /// The server answers with nothing.
    Ending,
    /// Nothing was sent yet, or the exchange is over.
    Idle,
}

impl Exchange {
    pub(crate) fn new(client: Client, server: SaslServer) -> Self {
        Exchange { client, server, who: String::new(), state: State::Idle }
    }

    async fn begin(&mut self) -> Result<Vec<u8>, SaslError> {
        let (client, server) = (self.client.clone(), self.server.clone());
        let permit = self.client.calls.clone().acquire_owned().await;
        let begun = spawn_blocking(move || {
            let begun = begin(&client, &server);
            drop(permit);
            begun
        });
        let (who, ctx, token) = begun.await.map_err(panicked)??;
        (self.who, self.state) = (who, State::Establishing(ctx));
        Ok(token)
    }

    async fn proceed(&mut self, token: Option<Vec<u8>>) -> Result<SaslStep, SaslError> {
        let who = self.who.clone();
        let (state, step) = match (std::mem::replace(&mut self.state, State::Idle), token) {
            (State::Establishing(ctx), Some(token)) => {
                spawn_blocking(move || establish(&who, ctx, &token)).await.map_err(panicked)??
            }
            (State::Selecting(ctx), Some(offer)) => {
                spawn_blocking(move || select(&who, ctx, &offer)).await.map_err(panicked)??
            }
            (State::Ending, token) if token.as_ref().is_none_or(Vec::is_empty) => (State::Idle, SaslStep::Done),
            (State::Establishing(_) | State::Selecting(_), None) => return Err(SaslError::refused(no_answer(&who))),
            (State::Ending | State::Idle, _) => {
                return Err(SaslError::refused(format!("{who}: the server sent a token after the last one")));
            }
        };
        self.state = state;
        Ok(step)
    }
}

impl SaslExchange for Exchange {
    fn first(&mut self) -> BoxFuture<'_, Result<Vec<u8>, SaslError>> {
        Box::pin(self.begin())
    }

    fn step<'a>(&'a mut self, token: Option<&'a [u8]>) -> BoxFuture<'a, Result<SaslStep, SaslError>> {
        Box::pin(self.proceed(token.map(<[u8]>::to_vec)))
    }

    fn refusal(&self) -> String {
        format!(
            "{}: the server refused the ticket; check that its keytab has the current key of this principal, that its \
             clock is right, and see its log",
            self.who
        )
    }
}

/// Acquires credentials and returns the first token, after who asks for which service. Blocks.
fn begin(client: &Client, server: &SaslServer) -> Result<(String, ClientCtx, Vec<u8>), SaslError> {
    let Client { credentials, service, .. } = client;
    let service = service.of(server);
    let cred = credentials.acquire();
    let who = format!("{} for {service}", credentials.describe());
    let cred = cred.map_err(|error| credentials.explain(&who, error))?;
    let target = Name::new(service.as_bytes(), Some(GSS_NT_KRB5_PRINCIPAL)).map_err(|error| explain(&who, error))?;
    let mut ctx = ClientCtx::new(Some(cred), target, NEEDED, Some(GSS_MECH_KRB5));
    let token = ctx.step(None, None).map_err(|error| explain(&who, error))?;
    Ok((who, ctx, token.map(|token| token.to_vec()).unwrap_or_default()))
}

/// Processes a token for the context. An empty token tells the server that the client is ready for its offer.
fn establish(who: &str, mut ctx: ClientCtx, token: &[u8]) -> Result<(State, SaslStep), SaslError> {
    let answer = ctx.step(Some(token), None).map_err(|error| unproven(who, error))?;
    let answer = answer.map(|answer| answer.to_vec()).unwrap_or_default();
    if !ctx.is_complete() {
        return Ok((State::Establishing(ctx), SaslStep::Respond(answer)));
    }
    let flags = ctx.flags().map_err(|error| unproven(who, error))?;
    if !flags.contains(NEEDED) {
        return Err(SaslError::refused(format!("{who}: the context has no mutual authentication ({flags:?})")));
    }
    Ok((State::Selecting(ctx), SaslStep::Respond(answer)))
}

fn select(who: &str, mut ctx: ClientCtx, offer: &[u8]) -> Result<(State, SaslStep), SaslError> {
    let offer = ctx.unwrap(offer).map_err(|error| unproven(who, error))?;
    let selection = layer::select(&offer).map_err(|why| SaslError::refused(format!("{who}: {why}")))?;
    let selection = ctx.wrap(false, &selection).map_err(|error| explain(who, error))?;
    Ok((State::Ending, SaslStep::Respond(selection.to_vec())))
}

/// The error for a null buffer in the place of a token: the server has no SASL, or keeps clients that it refuses.
fn no_answer(who: &str) -> String {
    format!(
        "{who}: the server answers without a token: it does not support SASL, or has refused the ticket and keeps \
         clients without a user (allowSaslFailedClients); check its JAAS section and its log"
    )
}

fn panicked(error: tokio::task::JoinError) -> SaslError {
    SaslError::transient(format!("the call to GSSAPI ended without a result: {error}"))
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn exchange(state: State) -> Exchange {
        let credentials = Arc::new(Credentials::default_cache());
        let calls = Arc::new(Semaphore::new(1));
        let client = Client { credentials, service: Arc::default(), calls };
        let who = "alice for zookeeper/zk1".to_owned();
        Exchange { client, server: SaslServer::new("zk1", None), who, state }
    }

    fn after(exchange: &mut Exchange, token: Option<&[u8]>) -> Result<SaslStep, SaslError> {
        exchange.step(token).now_or_never().expect("no call of GSSAPI")
    }

    #[test]
    fn the_last_answer_of_the_server_is_empty() {
        for token in [None, Some(&b""[..])] {
            let mut exchange = exchange(State::Ending);
            assert_eq!(after(&mut exchange, token), Ok(SaslStep::Done));
            let error = after(&mut exchange, None).expect_err("it is over");
            assert!(error.to_string().contains("after the last one"), "{error}");
        }
        let error = after(&mut exchange(State::Ending), Some(b"more")).expect_err("a token too many");
        assert!(!error.is_transient(), "{error}");
        assert_eq!(error.to_string(), "alice for zookeeper/zk1: the server sent a token after the last one");
    }

    #[test]
    fn a_refusal_names_both_principals() {
        let text = exchange(State::Ending).refusal();
        assert!(text.starts_with("alice for zookeeper/zk1: the server refused the ticket; "), "{text}");
    }
}
