//! A mechanism of SASL that is not the library's, as the client sees it. The steps are tested in `src/engine/tests`;
//! here are the errors, from an ensemble in memory on sockets, which does not know SASL.

use std::future::ready;
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, Error, ErrorKind, Sasl, SaslError, SaslExchange, SaslMechanism, SaslServer, SaslStep};

/// Sends one token, or fails before.
#[derive(Debug, Clone)]
struct OneToken {
    first: Result<Vec<u8>, SaslError>,
    servers: Arc<Mutex<Vec<SaslServer>>>,
}

impl SaslMechanism for OneToken {
    fn name(&self) -> &str {
        "ONE"
    }

    fn begin(&self, server: &SaslServer) -> Box<dyn SaslExchange> {
        self.servers.lock().unwrap().push(server.clone());
        Box::new(self.clone())
    }
}

impl SaslExchange for OneToken {
    fn first(&mut self) -> BoxFuture<'_, Result<Vec<u8>, SaslError>> {
        Box::pin(ready(self.first.clone()))
    }

    fn step<'a>(&'a mut self, _: Option<&'a [u8]>) -> BoxFuture<'a, Result<SaslStep, SaslError>> {
        Box::pin(ready(Ok(SaslStep::Done)))
    }
}

/// Returns the error of a client whose mechanism begins so, the servers it was given, and the connect string.
async fn refused(first: Result<Vec<u8>, SaslError>) -> (Error, Vec<SaslServer>, String) {
    let server = TestingServer::start();
    let listening = server.listen("127.0.0.1:0").expect("a free port");
    let mechanism = OneToken { first, servers: Arc::default() };
    let builder = Client::builder(listening.connect_string()).sasl(Sasl::mechanism(mechanism.clone()));
    let limit = std::time::Duration::from_millis(500);
    let error = builder.connection_timeout(limit).connect().await.expect_err("the ensemble has no SASL");
    let servers = mechanism.servers.lock().unwrap().clone();
    (error, servers, listening.connect_string())
}

#[tokio::test]
async fn a_refusal_by_the_server_or_the_mechanism_is_in_the_error() {
    for (first, why) in [
        (Ok(b"token".to_vec()), "the server refused the credentials"),
        (Err(SaslError::refused("no key for alice")), "no key for alice"),
    ] {
        let (error, servers, address) = refused(first).await;
        assert_eq!(error.kind(), ErrorKind::AuthFailed, "{error}");
        let expected = format!("connect to {address}: the credentials were refused: {address}: SASL ONE: {why}");
        assert_eq!(error.to_string(), expected);
        assert_eq!(servers, [SaslServer::new("127.0.0.1", Some(address.parse().expect("an address")))]);
    }
}

#[tokio::test]
async fn a_mechanism_that_fails_for_the_moment_is_asked_again_until_the_connection_timeout() {
    let (error, servers, address) = refused(Err(SaslError::transient("no authority answers"))).await;
    assert_eq!(error.kind(), ErrorKind::ConnectionLoss, "{error}");
    assert!(error.is_retryable());
    assert!(error.to_string().contains(&format!("{address}: SASL ONE: no authority answers")), "{error}");
    assert!(servers.len() > 1, "{servers:?}");
}

#[test]
fn debug_output_shows_the_name_alone() {
    let mechanism = OneToken { first: Ok(b"secret".to_vec()), servers: Arc::default() };
    assert_eq!(format!("{:?}", Sasl::mechanism(mechanism)), "Sasl { mechanism: \"ONE\", .. }");
}
