//! The mechanism DIGEST-MD5 of SASL (RFC 2831), without I/O.
//!
//! The client starts with an empty token, the server answers with a challenge, the client with a response, and the
//! server with `rspauth`: the proof that it knows the password too. A server without SASL answers the first token with
//! a null buffer. The Java client then continues without a user. This client fails: otherwise the application would
//! create nodes as an anonymous client, and an attacker on the network path could turn the authentication off.

use std::fmt;

use futures::future::{BoxFuture, FutureExt, ready};
use uuid::Uuid;

use super::sasl::{SaslError, SaslExchange, SaslMechanism, SaslServer, SaslStep};

/// The name that the Java client and server use for the service, whatever the host.
const DIGEST_URI: &str = "zookeeper/zk-sasl-md5";
/// The longest challenge that RFC 2831 allows.
const LONGEST_CHALLENGE: usize = 2048;

/// A user name and a password.
#[derive(Clone)]
pub(crate) struct Credentials {
    user: String,
    password: String,
}

impl Credentials {
    pub(crate) fn new(user: String, password: String) -> Self {
        Credentials { user, password }
    }

    fn begin_exchange(&self) -> DigestMd5 {
        // From the system's source of randomness: if the value can be guessed, responses can be computed in advance.
        self.begin_with(DIGEST_URI, Uuid::new_v4().simple().to_string())
    }

    fn begin_with(&self, digest_uri: &'static str, cnonce: String) -> DigestMd5 {
        DigestMd5 { credentials: self.clone(), digest_uri, cnonce, state: State::AwaitsChallenge }
    }
}

impl fmt::Debug for Credentials {
    // The password stays out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

impl SaslMechanism for Credentials {
    fn name(&self) -> &str {
        "DIGEST-MD5"
    }

    fn begin(&self, _: &SaslServer) -> Box<dyn SaslExchange> {
        Box::new(self.begin_exchange())
    }
}

/// The client's side of one authentication.
struct DigestMd5 {
    credentials: Credentials,
    digest_uri: &'static str,
    cnonce: String,
    state: State,
}

enum State {
    AwaitsChallenge,
    /// The response was sent; the server must answer with `rspauth`.
    AwaitsProof {
        rspauth: String,
    },
    /// Authenticated or failed.
    Over,
}

impl DigestMd5 {
    /// Processes the server's token; `None` is a null buffer. After an error the connection cannot be used.
    fn process(&mut self, token: Option<&[u8]>) -> Result<SaslStep, SaslError> {
        match (std::mem::replace(&mut self.state, State::Over), token) {
            (State::AwaitsChallenge, None) => Err(SaslError::refused("the server does not support it")),
            (State::AwaitsChallenge, Some(challenge)) => {
                let (response, rspauth) = self.respond(&Challenge::parse(challenge)?)?;
                self.state = State::AwaitsProof { rspauth };
                Ok(SaslStep::Respond(response))
            }
            // A server that is configured to keep clients whose authentication failed answers this way.
            (State::AwaitsProof { .. }, None) => Err(SaslError::refused("the server rejected the user and password")),
            (State::AwaitsProof { rspauth }, Some(proof)) => {
                check_proof(proof, &rspauth)?;
                Ok(SaslStep::Done)
            }
            (State::Over, _) => Err(SaslError::refused("the server sent a token after the authentication ended")),
        }
    }

    /// Returns the response to a challenge, and the answer that the server must give to it.
    fn respond(&self, challenge: &Challenge) -> Result<(Vec<u8>, String), SaslError> {
        let charset = challenge.charset;
        let Credentials { user, password } = &self.credentials;
        let realm = challenge.realm.as_deref().unwrap_or("");
        let secret = md5(&[
            &charset.to_hash("user name", user)?,
            &charset.to_hash("realm", realm)?,
            &charset.to_hash("password", password)?,
        ]);
        let a1 = hex(&md5(&[&secret, &challenge.nonce, self.cnonce.as_bytes()]));
        let proof = |method: &str| {
            let a2 = hex(&md5(&[method.as_bytes(), self.digest_uri.as_bytes()]));
            let parts: [&[u8]; 6] =
                [a1.as_bytes(), &challenge.nonce, b"00000001", self.cnonce.as_bytes(), b"auth", a2.as_bytes()];
            hex(&md5(&parts))
        };
        let mut message = Vec::new();
        if charset == Charset::Utf8 {
            message.extend(b"charset=utf-8,");
        }
        push_quoted(&mut message, "username", &charset.to_wire("user name", user)?);
        if challenge.realm.is_some() {
            push_quoted(&mut message, "realm", &charset.to_wire("realm", realm)?);
        }
        push_quoted(&mut message, "nonce", &challenge.nonce);
        push_quoted(&mut message, "cnonce", self.cnonce.as_bytes());
        push_quoted(&mut message, "digest-uri", self.digest_uri.as_bytes());
        message.extend(format!("nc=00000001,response={},qop=auth", proof("AUTHENTICATE")).bytes());
        Ok((message, proof("")))
    }
}

impl SaslExchange for DigestMd5 {
    // Empty, as the server speaks first.
    fn first(&mut self) -> BoxFuture<'_, Result<Vec<u8>, SaslError>> {
        ready(Ok(Vec::new())).boxed()
    }

    fn step<'a>(&'a mut self, token: Option<&'a [u8]>) -> BoxFuture<'a, Result<SaslStep, SaslError>> {
        ready(self.process(token)).boxed()
    }

    fn refusal(&self) -> String {
        "the server refused the user and password".to_owned()
    }
}

impl fmt::Debug for DigestMd5 {
    // Values computed from the password stay out of logs as well.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DigestMd5").finish_non_exhaustive()
    }
}

fn check_proof(proof: &[u8], rspauth: &str) -> Result<(), SaslError> {
    let directives = Directives::parse(proof)?;
    let Some(given) = directives.one("rspauth")? else {
        return Err(SaslError::refused("the server sent no proof (rspauth) that it knows the password"));
    };
    if given.eq_ignore_ascii_case(rspauth.as_bytes()) {
        return Ok(());
    }
    Err(SaslError::refused("the server's proof (rspauth) is wrong: it does not know the password"))
}

/// Returns the digest of `parts` with colons between them.
fn md5(parts: &[&[u8]]) -> [u8; 16] {
    md5::compute(parts.join(&b':')).0
}

fn hex(digest: &[u8; 16]) -> String {
    format!("{:x}", md5::Digest(*digest))
}

fn push_quoted(message: &mut Vec<u8>, key: &str, value: &[u8]) {
    message.extend(key.bytes());
    message.extend(b"=\"");
    for &byte in value {
        if matches!(byte, b'"' | b'\\') || byte.is_ascii_control() {
            message.push(b'\\');
        }
        message.push(byte);
    }
    message.extend(b"\",");
}

/// How text is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Charset {
    Utf8,
    Latin1,
}

impl Charset {
    fn to_wire(self, what: &str, text: &str) -> Result<Vec<u8>, SaslError> {
        match self {
            Charset::Utf8 => Ok(text.as_bytes().to_vec()),
            Charset::Latin1 => latin1(text)
                .ok_or_else(|| SaslError::refused(format!("the server accepts no {what} outside of ISO 8859-1"))),
        }
    }

    /// Encodes text to hash it. RFC 2831 hashes text that fits into ISO 8859-1 in it, even if it is sent as UTF-8.
    fn to_hash(self, what: &str, text: &str) -> Result<Vec<u8>, SaslError> {
        latin1(text).map_or_else(|| self.to_wire(what, text), Ok)
    }

    fn decode(self, bytes: Vec<u8>) -> Result<String, SaslError> {
        match self {
            Charset::Utf8 => String::from_utf8(bytes).map_err(|_| malformed("the realm is not UTF-8")),
            Charset::Latin1 => Ok(bytes.into_iter().map(char::from).collect()),
        }
    }
}

fn latin1(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|c| u8::try_from(c).ok()).collect()
}

/// The relevant parts of the server's challenge.
struct Challenge {
    realm: Option<String>,
    nonce: Vec<u8>,
    charset: Charset,
}

impl Challenge {
    fn parse(token: &[u8]) -> Result<Self, SaslError> {
        let directives = Directives::parse(token)?;
        if !directives.one("algorithm")?.is_some_and(|algorithm| algorithm.eq_ignore_ascii_case(b"md5-sess")) {
            return Err(SaslError::refused("the server does not offer the algorithm md5-sess"));
        }
        if directives.one("qop")?.is_some_and(|qop| !offers_plain_auth(qop)) {
            return Err(SaslError::refused(
                "the server requires message protection (qop) that ZooKeeper does not have",
            ));
        }
        let charset = match directives.one("charset")? {
            None => Charset::Latin1,
            Some(name) if name.eq_ignore_ascii_case(b"utf-8") => Charset::Utf8,
            Some(_) => return Err(SaslError::refused("the server names a charset other than utf-8")),
        };
        let nonce = directives.one("nonce")?.ok_or_else(|| malformed("it has no nonce"))?.to_vec();
        let realm = match directives.all("realm").collect::<Vec<_>>().as_slice() {
            [] => None,
            [realm] => Some(charset.decode(realm.to_vec())?),
            _ => return Err(SaslError::refused("the server offers several realms")),
        };
        Ok(Challenge { realm, nonce, charset })
    }
}

fn offers_plain_auth(qop: &[u8]) -> bool {
    qop.split(|&byte| byte == b',').any(|option| option.trim_ascii().eq_ignore_ascii_case(b"auth"))
}

fn malformed(why: &str) -> SaslError {
    SaslError::refused(format!("the server's token is malformed: {why}"))
}

/// The `key=value` pairs of a token, in order, without the quotes.
struct Directives(Vec<(Vec<u8>, Vec<u8>)>);

impl Directives {
    fn parse(token: &[u8]) -> Result<Self, SaslError> {
        if token.len() > LONGEST_CHALLENGE {
            return Err(malformed(&format!("{} bytes, more than {LONGEST_CHALLENGE}", token.len())));
        }
        let mut rest = Rest(token);
        let mut directives = Vec::new();
        while rest.more() {
            let key = rest.take_while(|byte| !b"=,\"".contains(&byte) && !byte.is_ascii_whitespace());
            rest.skip_space();
            if key.is_empty() || !rest.eat(b'=') {
                return Err(malformed("a directive is not of the form key=value"));
            }
            rest.skip_space();
            directives.push((key.to_vec(), rest.value()?));
            rest.skip_space();
            if !rest.0.is_empty() && !rest.eat(b',') {
                return Err(malformed("no comma after a value"));
            }
        }
        Ok(Directives(directives))
    }

    fn all<'a>(&'a self, key: &str) -> impl Iterator<Item = &'a [u8]> {
        let matching = self.0.iter().filter(|(name, _)| name.eq_ignore_ascii_case(key.as_bytes()));
        matching.map(|(_, value)| value.as_slice())
    }

    fn one(&self, key: &str) -> Result<Option<&[u8]>, SaslError> {
        let mut values = self.all(key);
        match (values.next(), values.next()) {
            (value, None) => Ok(value),
            _ => Err(malformed(&format!("more than one {key}"))),
        }
    }
}

/// The unread rest of a token.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    /// Moves to the next directive, past empty ones. Returns whether there is one.
    fn more(&mut self) -> bool {
        self.skip_space();
        while self.eat(b',') {
            self.skip_space();
        }
        !self.0.is_empty()
    }

    fn skip_space(&mut self) {
        self.0 = self.0.trim_ascii_start();
    }

    fn eat(&mut self, byte: u8) -> bool {
        let rest = self.0.strip_prefix(&[byte]);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn take_while(&mut self, belongs: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.0.iter().position(|&byte| !belongs(byte)).unwrap_or(self.0.len());
        let (taken, rest) = self.0.split_at(end);
        self.0 = rest;
        taken
    }

    fn value(&mut self) -> Result<Vec<u8>, SaslError> {
        if self.eat(b'"') {
            return self.quoted();
        }
        let value = self.take_while(|byte| byte != b',' && !byte.is_ascii_whitespace());
        if value.is_empty() { Err(malformed("a directive without a value")) } else { Ok(value.to_vec()) }
    }

    /// Returns the rest of a quoted string, without its escapes.
    fn quoted(&mut self) -> Result<Vec<u8>, SaslError> {
        let mut value = Vec::new();
        loop {
            value.extend(self.take_while(|byte| byte != b'"' && byte != b'\\'));
            if self.eat(b'"') {
                return Ok(value);
            }
            // Skips the backslash, unless the token ends here.
            let [_, escaped, rest @ ..] = self.0 else {
                return Err(malformed("a quoted string does not end"));
            };
            value.push(*escaped);
            self.0 = rest;
        }
    }
}

#[cfg(test)]
mod tests;
