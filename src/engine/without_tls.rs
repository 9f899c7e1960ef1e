//! Replaces TLS in a build without its feature: there is no configuration, so no connection is encrypted.

use std::io;
use std::sync::Arc;

use tokio::net::TcpStream;

/// No value exists.
#[derive(Debug)]
pub(crate) enum ClientConfig {}

/// Accepts any host: nothing is encrypted.
pub(crate) fn server_name(_host: &str) -> io::Result<()> {
    Ok(())
}

/// Is never called, as there is no configuration.
pub(crate) async fn handshake(_stream: TcpStream, _host: &str, config: Arc<ClientConfig>) -> io::Result<TcpStream> {
    match *config {}
}
