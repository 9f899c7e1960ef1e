//! Encryption of the connection.

use std::fmt;
use std::sync::Arc;

use rustls::{
    ClientConfig, RootCertStore,
    client::WebPkiServerVerifier,
    crypto::CryptoProvider,
    pki_types::pem::{self, PemObject},
    pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer},
    sign::{CertifiedKey, SingleCertAndKey},
};

use crate::client::error::{Error, ErrorKind};

/// Configures the encryption of connections (feature `tls`).
///
/// One of the given authorities must have signed the server's certificate, and the certificate must name the host of
/// the connect string: a DNS name, or an address where the connect string has an address. Only its subject alternative
/// names count. TLS 1.2 and 1.3 are supported.
///
/// ```
/// use zookeeper_recipes::Tls;
///
/// let error = Tls::new().ca_pem("not a certificate").unwrap_err();
/// assert!(error.to_string().contains("CA certificates"));
/// ```
#[derive(Clone, Default)]
pub struct Tls(Source);

#[derive(Clone)]
enum Source {
    Pem { authorities: Option<Arc<WebPkiServerVerifier>>, identity: Option<Arc<CertifiedKey>> },
    Config(Arc<ClientConfig>),
}

impl Default for Source {
    fn default() -> Self {
        Source::Pem { authorities: None, identity: None }
    }
}

impl Tls {
    /// Returns a configuration that does not trust any authority yet.
    pub fn new() -> Self {
        Tls::default()
    }

    /// Uses a configuration of rustls unchanged: its authorities or its own verifier, its certificates, its crypto
    /// provider, its TLS versions.
    ///
    /// This makes `rustls` a part of your interface to this crate: the type is from rustls 0.23, and a new minor
    /// version of rustls is a new minor version of this crate.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use rustls::{ClientConfig, RootCertStore};
    /// use zookeeper_recipes::Tls;
    ///
    /// # fn main() -> Result<(), rustls::Error> {
    /// let provider = Arc::new(rustls::crypto::ring::default_provider());
    /// let config = ClientConfig::builder_with_provider(provider)
    ///     .with_safe_default_protocol_versions()?
    ///     // Trusts no server; a real program adds its authorities.
    ///     .with_root_certificates(RootCertStore::empty())
    ///     .with_no_client_auth();
    /// let tls = Tls::with_client_config(Arc::new(config));
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_client_config(config: Arc<ClientConfig>) -> Self {
        Tls(Source::Config(config))
    }

    /// Sets the authorities to trust, and revocation lists if there are any, in PEM. Pass all of them in one text: a
    /// second call replaces the first. Default: none; at least one authority is required.
    ///
    /// With revocation lists, each authority of a server's certificate needs one: a server is refused if its
    /// certificate is revoked, or if no list covers it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if the text contains no certificate, or is malformed; also after
    /// [`with_client_config`](Self::with_client_config), whose configuration has authorities already.
    pub fn ca_pem(self, pem: &str) -> Result<Self, Error> {
        let verifier = verifier(pem).map_err(|why| invalid("CA certificates", why))?;
        match self.0 {
            Source::Pem { identity, .. } => Ok(Tls(Source::Pem { authorities: Some(verifier), identity })),
            Source::Config(_) => Err(invalid("CA certificates", CONFIG_IS_WHOLE)),
        }
    }

    /// Sets the certificate that this client presents to servers that ask for one, with the intermediate certificates
    /// up to the authority, and its private key, in PEM. The key must not be encrypted. Default: none.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if either is malformed or missing, or if they do not belong together; also after
    /// [`with_client_config`](Self::with_client_config).
    pub fn identity_pem(self, certificate: &str, key: &str) -> Result<Self, Error> {
        let identity = certified_key(certificate, key).map_err(|why| invalid("client identity", why))?;
        match self.0 {
            Source::Pem { authorities, .. } => Ok(Tls(Source::Pem { authorities, identity: Some(Arc::new(identity)) })),
            Source::Config(_) => Err(invalid("client identity", CONFIG_IS_WHOLE)),
        }
    }

    /// Checks that a TLS configuration can be built.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.client_config().map(drop)
    }

    /// Returns the configuration for the handshakes. The caller keeps it, because TLS sessions are resumed only with
    /// the same configuration.
    pub(crate) fn client_config(&self) -> Result<Arc<ClientConfig>, Error> {
        let (authorities, identity) = match &self.0 {
            Source::Config(config) => return Ok(Arc::clone(config)),
            Source::Pem { authorities: None, .. } => {
                return Err(invalid("CA certificates", "none; call ca_pem() with the authorities to trust"));
            }
            Source::Pem { authorities: Some(authorities), identity } => (authorities, identity),
        };
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| invalid("versions", error))?
            .with_webpki_verifier(Arc::clone(authorities));
        let config = match identity {
            Some(identity) => config.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(identity)))),
            None => config.with_no_client_auth(),
        };
        Ok(Arc::new(config))
    }
}

impl fmt::Debug for Tls {
    // The private key stays out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Config(_) => f.debug_struct("Tls").field("client_config", &true).finish_non_exhaustive(),
            Source::Pem { authorities, identity } => f
                .debug_struct("Tls")
                .field("authorities", &authorities.is_some())
                .field("identity", &identity.is_some())
                .finish_non_exhaustive(),
        }
    }
}

const CONFIG_IS_WHOLE: &str = "the configuration given to with_client_config() has its own";

/// Returns an explicit provider, because rustls panics in a program that has several and has not chosen one.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Returns the verifier for the authorities in a text of certificates and revocation lists.
fn verifier(pem: &str) -> Result<Arc<WebPkiServerVerifier>, String> {
    let mut roots = RootCertStore::empty();
    let certificates = certificates(pem)?;
    // Bundles of operating systems contain old certificates that cannot be parsed. They must not prevent the use of the
    // others.
    let (_, ignored) = roots.add_parsable_certificates(certificates);
    if roots.is_empty() {
        return Err("the text contains no readable certificate of an authority".to_owned());
    }
    if ignored > 0 {
        let read = roots.len();
        tracing::warn!(event = "certificates_ignored", ignored, read, "some CA certificates cannot be read");
    }
    let lists = CertificateRevocationListDer::pem_slice_iter(pem.as_bytes());
    let lists = lists.collect::<Result<Vec<_>, _>>().map_err(pem_fault)?;
    let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).with_crls(lists);
    builder.build().map_err(|error| error.to_string())
}

fn certified_key(certificate: &str, key: &str) -> Result<CertifiedKey, String> {
    let chain = certificates(certificate).map_err(|why| format!("certificate: {why}"))?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| match error {
        pem::Error::NoItemsFound => "private key: the text contains no unencrypted one".to_owned(),
        error => format!("private key: {}", pem_fault(error)),
    })?;
    CertifiedKey::from_der(chain, key, &provider()).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => "the private key does not belong to the certificate".to_owned(),
        rustls::Error::InvalidCertificate(fault) => format!("certificate: {fault}"),
        rustls::Error::General(why) => format!("private key: {why}"),
        error => error.to_string(),
    })
}

/// Returns the certificates of a text, at least one.
fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = CertificateDer::pem_slice_iter(pem.as_bytes());
    let certificates = certificates.collect::<Result<Vec<_>, _>>().map_err(pem_fault)?;
    if certificates.is_empty() {
        return Err("no `BEGIN CERTIFICATE` in the text".to_owned());
    }
    Ok(certificates)
}

/// Describes an error of the parser, whose own text shows lines as lists of bytes.
fn pem_fault(error: pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { end_marker } => {
            format!("malformed PEM: `END {}` is missing", String::from_utf8_lossy(&end_marker).trim_end())
        }
        pem::Error::IllegalSectionStart { line } => {
            format!("malformed PEM: a section begins with {}", String::from_utf8_lossy(&line).trim_end())
        }
        error => format!("malformed PEM: {error}"),
    }
}

fn invalid(what: &str, why: impl fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidArgument, format!("TLS {what}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Client;
    use crate::engine::tls::certificates::Authority;

    fn why<T: fmt::Debug>(refused: Result<T, Error>) -> String {
        let error = refused.expect_err("a refusal");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        error.to_string()
    }

    /// Returns the text between the lines that begin and end it.
    fn pem(label: &str, content: &str) -> String {
        format!("-----BEGIN {label}-----\n{content}\n-----END {label}-----\n")
    }

    #[test]
    fn authorities_that_cannot_be_read_are_refused_at_once() {
        let good = Authority::new("authority").pem;
        for (text, expected) in [
            (String::new(), "no `BEGIN CERTIFICATE`"),
            ("not a certificate".to_owned(), "no `BEGIN CERTIFICATE`"),
            (pem("PRIVATE KEY", "AAAA"), "no `BEGIN CERTIFICATE`"),
            (pem("CERTIFICATE", "AAAA"), "no readable certificate of an authority"),
            (pem("CERTIFICATE", "?"), "malformed PEM"),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n".to_owned(), "`END CERTIFICATE` is missing"),
            (good.clone() + &pem("X509 CRL", "AAAA"), "CRL"),
            (good.clone() + &pem("X509 CRL", "?"), "malformed PEM"),
        ] {
            let why = why(Tls::new().ca_pem(&text));
            assert!(why.starts_with("TLS CA certificates: ") && why.contains(expected), "{text}: {why}");
        }
        // A certificate that cannot be read does not prevent the use of the others.
        Tls::new().ca_pem(&(pem("CERTIFICATE", "AAAA") + &good)).expect("one of two authorities");
    }

    #[test]
    fn an_identity_that_cannot_be_used_is_refused_at_once() {
        let authority = Authority::new("authority");
        let (one, other) = (authority.client("one"), authority.client("other"));
        let encrypted = pem("ENCRYPTED PRIVATE KEY", "AAAA");
        for (certificate, key, expected) in [
            (&one.certificate, &other.key, "the private key does not belong to the certificate"),
            (&one.key, &one.key, "certificate: no `BEGIN CERTIFICATE`"),
            (&one.certificate, &one.certificate, "private key: the text contains no unencrypted one"),
            (&one.certificate, &encrypted, "private key: the text contains no unencrypted one"),
            (&one.certificate, &pem("PRIVATE KEY", "AAAA"), "private key: "),
            (&one.certificate, &pem("PRIVATE KEY", "?"), "private key: malformed PEM"),
            (&pem("CERTIFICATE", "AAAA"), &one.key, "certificate: "),
        ] {
            let why = why(Tls::new().identity_pem(certificate, key));
            assert!(why.starts_with("TLS client identity: ") && why.contains(expected), "{why}");
        }
        // In either order, and in a text with more than is needed.
        let both = format!("{}{}", one.key, one.certificate);
        let tls = Tls::new().identity_pem(&both, &both).expect("an identity");
        tls.ca_pem(&authority.pem).and_then(|tls| tls.client_config()).expect("a configuration");
    }

    #[test]
    fn a_client_that_trusts_no_authority_does_not_start() {
        let client = Authority::new("authority").client("client");
        let tls = Tls::new().identity_pem(&client.certificate, &client.key).expect("an identity");
        for tls in [Tls::new(), tls] {
            assert!(why(Client::builder("zk1").tls(tls).validate()).contains("call ca_pem()"));
        }
    }

    #[test]
    fn a_ready_configuration_is_not_mixed_with_texts() {
        let authority = Authority::new("authority");
        let client = authority.client("client");
        let config = Tls::new().ca_pem(&authority.pem).and_then(|tls| tls.client_config()).expect("a configuration");
        let ready = || Tls::with_client_config(Arc::clone(&config));
        assert!(Arc::ptr_eq(&config, &ready().client_config().expect("the same one")));
        assert!(why(ready().ca_pem(&authority.pem)).contains("with_client_config() has its own"));
        assert!(why(ready().identity_pem(&client.certificate, &client.key)).contains("has its own"));
        Client::builder("zk1").tls(ready()).validate().expect("it is enough");
    }
}
