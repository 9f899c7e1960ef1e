//! TLS on an established connection: the handshake, and readable errors.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

pub(crate) use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, InvalidMessage};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use tokio_rustls::client;

/// Returns the name that the certificate of `host` must be valid for. `host` is a name or an address from the connect
/// string, without the port.
///
/// # Errors
/// `InvalidInput` if no certificate can be valid for such a host.
pub(crate) fn server_name(host: &str) -> io::Result<ServerName<'static>> {
    if let Some(address) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        // The network interface (`fe80::1%eth0`) is local to this machine and not part of the certificate.
        let address = address.split_once('%').map_or(address, |(address, _)| address);
        if let Ok(address) = address.parse::<IpAddr>() {
            return Ok(ServerName::from(address));
        }
    }
    ServerName::try_from(host.to_owned()).map_err(|_| {
        let why = format!("TLS: {host} is neither a DNS name nor an IP address, so no certificate can be valid for it");
        io::Error::new(io::ErrorKind::InvalidInput, why)
    })
}

/// Encrypts a connected stream. `host` is as in the connect string, without the port.
///
/// In TLS 1.3 a server refuses a client's certificate only after the handshake, so the first read returns that error.
///
/// # Errors
/// An error of the stream keeps its kind; an error of TLS has the kind `InvalidData`, and a text for people.
pub(crate) async fn handshake<S>(stream: S, host: &str, config: Arc<ClientConfig>) -> io::Result<TlsStream<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let name = server_name(host)?;
    match TlsConnector::from(config).connect(name, stream).await {
        Ok(stream) => Ok(TlsStream(stream)),
        Err(error) => Err(explain_end(explain(error))),
    }
}

/// An encrypted connection. It may buffer written bytes until it is flushed.
#[derive(Debug)]
pub(crate) struct TlsStream<S>(client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for TlsStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_read(cx, buf).map_err(explain)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TlsStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write(cx, buf).map_err(explain)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write_vectored(cx, bufs).map_err(explain)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_flush(cx).map_err(explain)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_shutdown(cx).map_err(explain)
    }
}

/// Replaces a TLS error by one with a readable text. Errors of the underlying stream are returned unchanged.
fn explain(error: io::Error) -> io::Error {
    let fault = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match fault {
        Some(fault) => io::Error::new(error.kind(), format!("TLS: {}", meaning(fault))),
        None => error,
    }
}

/// Explains a connection that was closed during the handshake: a server's plain-text port takes the first bytes of TLS
/// for a giant frame and closes the connection.
fn explain_end(error: io::Error) -> io::Error {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    if !matches!(error.kind(), UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe) {
        return error;
    }
    let why =
        format!("TLS: the server closed the connection during the handshake; is this its port for TLS? ({error})");
    io::Error::new(error.kind(), why)
}

fn meaning(fault: &rustls::Error) -> String {
    use rustls::Error as E;
    match fault {
        E::InvalidCertificate(fault) => distrust(fault),
        E::AlertReceived(AlertDescription::CertificateRequired) => {
            "the server requires a client certificate (CertificateRequired)".to_owned()
        }
        E::AlertReceived(alert) if is_about_certificate(*alert) => {
            format!("the server does not accept the client's certificate, or requires one ({alert:?})")
        }
        E::AlertReceived(AlertDescription::ProtocolVersion) => {
            "the server supports none of the TLS versions that the client offers (ProtocolVersion)".to_owned()
        }
        E::AlertReceived(alert) => format!("the server ended the connection ({alert:?})"),
        E::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "the server's answer is not TLS; is this its port for TLS?".to_owned()
        }
        fault => fault.to_string(),
    }
}

/// Returns why the server's certificate is not trusted.
fn distrust(fault: &CertificateError) -> String {
    match fault {
        CertificateError::UnknownIssuer => "none of the trusted authorities signed the server's certificate".to_owned(),
        // For example, the trusted authority has the right name but another key.
        CertificateError::BadSignature => {
            "the signature on the server's certificate is not that of the trusted authority".to_owned()
        }
        CertificateError::Revoked => "the server's certificate is revoked".to_owned(),
        CertificateError::UnknownRevocationStatus => {
            "there are revocation lists, but none from the authority that signed the server's certificate".to_owned()
        }
        // The text of rustls names the host and what the certificate is valid for.
        fault => format!("the server's certificate: {fault}"),
    }
}

/// Returns whether an alert is about the client's certificate. Java servers send `BadCertificate` even without one.
fn is_about_certificate(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
    )
}

#[cfg(all(test, not(feature = "integration")))]
#[path = "../../tests/support/certificates.rs"]
pub(crate) mod certificates;
// The module for integration tests includes them already.
#[cfg(all(test, feature = "integration"))]
pub(crate) use crate::support::certificates;

#[cfg(test)]
mod tests {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::server::WebPkiClientVerifier;
    use rustls::version::{TLS12, TLS13};
    use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio_rustls::{TlsAcceptor, server};

    use super::certificates::{Authority, Identity};
    use super::*;
    use crate::Tls;

    type Accepted = io::Result<server::TlsStream<DuplexStream>>;

    /// Returns a server with this identity. It asks for a client certificate of `clients`, if there is such an
    /// authority.
    fn server_of(
        identity: &Identity,
        clients: Option<&Authority>,
        version: &'static SupportedProtocolVersion,
    ) -> ServerConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_protocol_versions(&[version]).expect("a version of TLS");
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(authority)), provider);
                builder.with_client_cert_verifier(verifier.build().expect("a verifier"))
            }
        };
        let chain = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).expect("a certificate");
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).expect("a key");
        builder.with_single_cert(vec![chain], key).expect("a server's identity")
    }

    fn roots(authority: &Authority) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).expect("a certificate")).expect("a root");
        roots
    }

    fn trusting(authority: &Authority) -> Tls {
        Tls::new().ca_pem(&authority.pem).expect("an authority")
    }

    async fn meet(server: ServerConfig, client: &Tls, host: &str) -> (io::Result<TlsStream<DuplexStream>>, Accepted) {
        let (near, far) = duplex(64 * 1024);
        let config = client.client_config().expect("a configuration");
        tokio::join!(handshake(near, host, config), TlsAcceptor::from(Arc::new(server)).accept(far))
    }

    /// Checks that text passes in both directions.
    async fn talk(met: (io::Result<TlsStream<DuplexStream>>, Accepted)) {
        let (mut client, mut server) = (met.0.expect("the client's side"), met.1.expect("the server's side"));
        pass(&mut client, &mut server).await;
        pass(&mut server, &mut client).await;
    }

    async fn pass(from: &mut (impl AsyncWrite + Unpin), to: &mut (impl AsyncRead + Unpin)) {
        from.write_all(b"hello").await.expect("written");
        from.flush().await.expect("flushed");
        let mut read = [0; 5];
        to.read_exact(&mut read).await.expect("read");
        assert_eq!(&read, b"hello");
    }

    fn text<S>(outcome: io::Result<S>) -> String {
        match outcome {
            Ok(_) => panic!("a handshake that must fail"),
            Err(error) => error.to_string(),
        }
    }

    #[tokio::test]
    async fn a_server_is_known_by_its_name_or_address() {
        let authority = Authority::new("authority");
        let identity = authority.server(&["zk1.example.org", "10.0.0.1", "2001:db8::1", "fe80::1"]);
        for version in [&TLS12, &TLS13] {
            for host in ["zk1.example.org", "ZK1.example.org", "10.0.0.1", "[2001:db8::1]", "[fe80::1%eth0]"] {
                talk(meet(server_of(&identity, None, version), &trusting(&authority), host).await).await;
            }
        }
    }

    #[tokio::test]
    async fn a_server_with_a_certificate_for_another_host_is_refused() {
        let authority = Authority::new("authority");
        let identity = authority.server(&["zk1", "10.0.0.1"]);
        for host in ["zk2", "10.0.0.2", "[::1]"] {
            let (client, server) = meet(server_of(&identity, None, &TLS13), &trusting(&authority), host).await;
            let (why, bare) = (text(client), host.trim_matches(['[', ']']));
            assert!(why.starts_with("TLS: the server's certificate: ") && why.contains("zk1"), "{why}");
            assert!(why.contains(bare), "{why}");
            assert!(server.is_err());
        }
    }

    #[tokio::test]
    async fn a_server_that_no_trusted_authority_signed_is_refused() {
        let (authority, other) = (Authority::new("authority"), Authority::new("authority"));
        let server = || server_of(&authority.server(&["zk1"]), None, &TLS13);
        let (client, _) = meet(server(), &trusting(&other), "zk1").await;
        assert_eq!(text(client), "TLS: the signature on the server's certificate is not that of the trusted authority");
        let (client, _) = meet(server(), &trusting(&Authority::new("stranger")), "zk1").await;
        assert_eq!(text(client), "TLS: none of the trusted authorities signed the server's certificate");
        let both = Tls::new().ca_pem(&format!("{}{}", other.pem, authority.pem)).expect("two authorities");
        talk(meet(server(), &both, "zk1").await).await;
    }

    #[tokio::test]
    async fn revocation_lists_count() {
        let (authority, other) = (Authority::new("authority"), Authority::new("other"));
        let (good, revoked) = (authority.server(&["zk1"]), authority.server(&["zk1"]));
        let with = |list: String| Tls::new().ca_pem(&(authority.pem.clone() + &list)).expect("an authority and a list");
        let tls = with(authority.revocations(&[&revoked]));
        talk(meet(server_of(&good, None, &TLS13), &tls, "zk1").await).await;
        let (client, _) = meet(server_of(&revoked, None, &TLS13), &tls, "zk1").await;
        assert_eq!(text(client), "TLS: the server's certificate is revoked");
        let (client, _) = meet(server_of(&good, None, &TLS13), &with(other.revocations(&[])), "zk1").await;
        assert!(text(client).contains("there are revocation lists, but none from the authority"));
    }

    #[tokio::test]
    async fn a_client_shows_its_certificate() {
        let authority = Authority::new("authority");
        let server = authority.server(&["zk1"]);
        let client = authority.client("client");
        let tls = trusting(&authority).identity_pem(&client.certificate, &client.key).expect("an identity");
        for version in [&TLS12, &TLS13] {
            let met = meet(server_of(&server, Some(&authority), version), &tls, "zk1").await;
            let shown = met.1.as_ref().ok().and_then(|stream| stream.get_ref().1.peer_certificates());
            let expected = CertificateDer::from_pem_slice(client.certificate.as_bytes()).expect("a certificate");
            assert_eq!(shown, Some([expected].as_slice()));
            talk(met).await;
        }
    }

    #[tokio::test]
    async fn an_error_says_that_the_server_trusts_no_client_certificate() {
        let authority = Authority::new("authority");
        let server = authority.server(&["zk1"]);
        let stranger = Authority::new("stranger").client("client");
        let foreign = trusting(&authority).identity_pem(&stranger.certificate, &stranger.key).expect("an identity");
        for (tls, expected) in [
            (trusting(&authority), "requires a client certificate"),
            (foreign, "does not accept the client's certificate"),
        ] {
            // In TLS 1.2 the handshake fails.
            let (client, _) = meet(server_of(&server, Some(&authority), &TLS12), &tls, "zk1").await;
            let why = text(client);
            assert!(why.contains("the client's certificate") || why.contains(expected), "{why}");
            // In TLS 1.3 the first read does.
            let (client, refusal) = meet(server_of(&server, Some(&authority), &TLS13), &tls, "zk1").await;
            assert!(refusal.is_err());
            let why = text(client.expect("its own side of the handshake").read_u8().await);
            assert!(why.starts_with("TLS: the server") && why.contains(expected), "{why}");
        }
    }

    #[tokio::test]
    async fn plain_text_is_told_from_tls() {
        let config = trusting(&Authority::new("authority")).client_config().expect("a configuration");
        let (near, mut far) = duplex(1024);
        let answers = async {
            let mut hello = [0; 5];
            far.read_exact(&mut hello).await.expect("the client speaks first");
            far.write_all(b"imok, says the server").await.expect("written");
            far
        };
        let (client, _far) = tokio::join!(handshake(near, "zk1", Arc::clone(&config)), answers);
        assert_eq!(text(client), "TLS: the server's answer is not TLS; is this its port for TLS?");

        // ZooKeeper's own port for plain text closes the connection.
        let (near, far) = duplex(1024);
        drop(far);
        let error = handshake(near, "zk1", config).await.expect_err("there is no answer");
        assert!(error.to_string().contains("during the handshake; is this its port for TLS?"), "{error}");
    }

    #[tokio::test]
    async fn a_connection_that_breaks_is_an_error_of_the_connection() {
        let authority = Authority::new("authority");
        let (client, server) =
            meet(server_of(&authority.server(&["zk1"]), None, &TLS13), &trusting(&authority), "zk1").await;
        let mut client = client.expect("the client's side");
        drop(server);
        let error = client.read_u8().await.expect_err("the end of the stream");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{error}");
    }

    #[tokio::test]
    async fn a_ready_configuration_is_used_as_it_is() {
        let authority = Authority::new("authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider);
        let config = config.with_protocol_versions(&[&TLS12]).expect("a version of TLS");
        let config = config.with_root_certificates(roots(&authority)).with_no_client_auth();
        let tls = Tls::with_client_config(Arc::new(config));
        let identity = authority.server(&["zk1"]);
        talk(meet(server_of(&identity, None, &TLS12), &tls, "zk1").await).await;
        let (client, _) = meet(server_of(&identity, None, &TLS13), &tls, "zk1").await;
        assert!(text(client).contains("none of the TLS versions"));
    }

    #[test]
    fn hosts_that_no_certificate_can_be_for() {
        for (host, good) in [
            ("zk1", true),
            ("zk_1.example.org", true),
            ("zk1.", true),
            ("127.0.0.1", true),
            ("[::1]", true),
            ("[fe80::1%eth0]", true),
            ("zk..1", false),
            ("-", false),
            ("", false),
            ("[::g]", false),
            ("zk1:2181", false),
        ] {
            let name = server_name(host);
            assert_eq!(name.is_ok(), good, "{host}: {name:?}");
            if let Err(error) = name {
                assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
                assert!(error.to_string().contains(host), "{error}");
            }
        }
    }
}
