//! A connection to an instance.

use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::{Request, Response, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use recipes_examples::Result;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::body::Body;
use tower::Service;

/// How long an instance has to accept a connection, and to answer a ping. One is sent as often while calls are under
/// way, so that an instance that is stopped is noticed. Servers in other languages may refuse pings that often.
const PATIENCE: Duration = Duration::from_secs(2);
/// The connection to an instance.
pub struct Connection(SendRequest<Body>);

impl Connection {
    /// Connects to an instance. With TLS, the handshake of `tokio-rustls` comes first.
    pub async fn open(target: Uri) -> Result<Connection> {
        let (host, port) = (target.host().unwrap_or_default(), target.port_u16().unwrap_or(80));
        let stream = timeout(PATIENCE, TcpStream::connect((host, port))).await??;
        stream.set_nodelay(true)?;
        let (calls, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(PATIENCE)
            .keep_alive_timeout(PATIENCE)
            .handshake(TokioIo::new(stream))
            .await?;
        // Why it has ended is in the outcome of each call.
        tokio::spawn(connection.map(drop));
        Ok(Connection(calls))
    }
}

impl Service<Request<Body>> for Connection {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = BoxFuture<'static, hyper::Result<Response<Incoming>>>;

    /// Returns an error once the connection is closed. Then another one is made.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.0.send_request(request).boxed()
    }
}
