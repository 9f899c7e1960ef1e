//! Tests of the mechanism with known exchanges.

use proptest::prelude::*;

use super::*;

/// What a ZooKeeper 3.9 server sends.
const CHALLENGE: &str = r#"realm="zk-sasl-md5",nonce="3a7B+/x",charset=utf-8,algorithm=md5-sess"#;

fn client(user: &str, password: &str) -> DigestMd5 {
    Credentials::new(user.to_owned(), password.to_owned()).begin_exchange()
}

/// Returns the client of the examples in RFC 2831, section 4.
fn chris(digest_uri: &'static str, cnonce: &str) -> DigestMd5 {
    Credentials::new("chris".to_owned(), "secret".to_owned()).begin_with(digest_uri, cnonce.to_owned())
}

fn response(client: &mut DigestMd5, challenge: &[u8]) -> Directives {
    match client.process(Some(challenge)) {
        Ok(SaslStep::Respond(response)) => Directives::parse(&response).expect("a response of key=value pairs"),
        other => panic!("{other:?}"),
    }
}

fn one<'a>(directives: &'a Directives, key: &str) -> &'a [u8] {
    directives.one(key).expect("once").unwrap_or_else(|| panic!("no {key}"))
}

fn why(client: &mut DigestMd5, token: Option<&[u8]>) -> String {
    client.process(token).expect_err("a failure").to_string()
}

#[test]
fn the_example_of_rfc_2831_for_imap() {
    let mut client = chris("imap/elwood.innosoft.com", "OA6MHXh6VqTrRk");
    assert_eq!(client.first().now_or_never(), Some(Ok(Vec::new())));
    let challenge =
        br#"realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8"#;
    let response = response(&mut client, challenge);
    for (key, value) in [
        ("charset", "utf-8"),
        ("username", "chris"),
        ("realm", "elwood.innosoft.com"),
        ("nonce", "OA6MG9tEQGm2hh"),
        ("nc", "00000001"),
        ("cnonce", "OA6MHXh6VqTrRk"),
        ("digest-uri", "imap/elwood.innosoft.com"),
        ("response", "d388dad90d4bbd760a152321f2143af7"),
        ("qop", "auth"),
    ] {
        assert_eq!(one(&response, key), value.as_bytes(), "{key}");
    }
    assert_eq!(client.process(Some(b"rspauth=ea40f60335c427b5527b84dbabcdfffd")), Ok(SaslStep::Done));
    assert!(why(&mut client, Some(b"")).contains("after the authentication ended"));
}

#[test]
fn the_example_of_rfc_2831_for_acap() {
    let mut client = chris("acap/elwood.innosoft.com", "OA9BSuZWMSpW8m");
    let challenge =
        br#"realm="elwood.innosoft.com",nonce="OA9BSXrbuRhWay",qop="auth",algorithm=md5-sess,charset=utf-8"#;
    let response = response(&mut client, challenge);
    assert_eq!(one(&response, "response"), b"6084c6db3fede7352c551284490fd0fc");
    assert_eq!(client.process(Some(b"rspauth=2f0b3d7c3c2e486600ef710726aa2eae")), Ok(SaslStep::Done));
}

#[test]
fn each_connection_has_a_cnonce_of_its_own() {
    let (mut one_client, mut other) = (client("alice", "x"), client("alice", "x"));
    let first = response(&mut one_client, CHALLENGE.as_bytes());
    let second = response(&mut other, CHALLENGE.as_bytes());
    assert_ne!(one(&first, "cnonce"), one(&second, "cnonce"));
    assert_ne!(one(&first, "response"), one(&second, "response"));
}

#[test]
fn a_server_without_sasl_is_told_from_one_that_refuses() {
    assert!(why(&mut client("alice", "x"), None).contains("does not support it"));
    let mut refused = client("alice", "x");
    response(&mut refused, CHALLENGE.as_bytes());
    assert!(why(&mut refused, None).contains("rejected the user and password"));
}

#[test]
fn a_server_that_does_not_know_the_password_is_not_trusted() {
    for (proof, text) in [
        ("rspauth=00000000000000000000000000000000", "does not know the password"),
        ("rspauth=", "without a value"),
        ("", "no proof"),
        ("nonce=\"x\"", "no proof"),
    ] {
        let mut client = client("alice", "x");
        response(&mut client, CHALLENGE.as_bytes());
        let error = why(&mut client, Some(proof.as_bytes()));
        assert!(error.contains(text), "{proof}: {error}");
        assert!(why(&mut client, Some(proof.as_bytes())).contains("after the authentication ended"));
    }
}

#[test]
fn a_challenge_that_cannot_be_answered_is_refused_with_the_reason() {
    let long = format!("{CHALLENGE},x=\"{}\"", "y".repeat(LONGEST_CHALLENGE));
    for (challenge, text) in [
        ("", "md5-sess"),
        (r#"nonce="x",charset=utf-8"#, "md5-sess"),
        (r#"nonce="x",algorithm=md5"#, "md5-sess"),
        ("algorithm=md5-sess", "no nonce"),
        (r#"nonce="x",nonce="y",algorithm=md5-sess"#, "more than one nonce"),
        (r#"nonce="x",algorithm=md5-sess,charset=utf-8,charset=utf-8"#, "more than one charset"),
        (r#"nonce="x",algorithm=md5-sess,charset=koi8-r"#, "charset other"),
        (r#"nonce="x",algorithm=md5-sess,qop="auth-int,auth-conf""#, "qop"),
        (r#"realm="a",realm="b",nonce="x",algorithm=md5-sess"#, "several realms"),
        (r#"nonce="x"#, "does not end"),
        (r#"nonce="x\"#, "does not end"),
        (r#"nonce="x"algorithm=md5-sess"#, "no comma"),
        ("nonce", "key=value"),
        ("=x", "key=value"),
        ("nonce=,algorithm=md5-sess", "without a value"),
        (&long, "more than 2048"),
    ] {
        let error = why(&mut client("alice", "x"), Some(challenge.as_bytes()));
        assert!(error.contains(text), "{challenge}: {error}");
    }
    let not_utf8 = b"realm=\"\xff\",nonce=\"x\",charset=utf-8,algorithm=md5-sess";
    assert!(why(&mut client("alice", "x"), Some(not_utf8)).contains("not UTF-8"));
}

#[test]
fn what_a_challenge_may_contain_beside_the_usual() {
    for challenge in [
        r#"nonce="x",qop="auth-conf, auth",cipher="rc4,3des",algorithm=md5-sess,stale=true,maxbuf=1,unknown="?""#,
        " , nonce = x ,\r\n\tALGORITHM=\"MD5-SESS\" , Charset=UTF-8 ,",
    ] {
        let response = response(&mut client("alice", "x"), challenge.as_bytes());
        assert_eq!(one(&response, "nonce"), b"x", "{challenge}");
        assert_eq!(response.one("realm"), Ok(None), "none was offered");
    }
}

/// As in Java.
#[test]
fn what_fits_into_iso_8859_1_is_hashed_in_it() {
    let utf8 = Charset::Utf8;
    assert_eq!(utf8.to_hash("user name", "josé"), Ok(b"jos\xe9".to_vec()));
    assert_eq!(utf8.to_wire("user name", "josé"), Ok("josé".as_bytes().to_vec()));
    assert_eq!(utf8.to_hash("user name", "łukasz"), Ok("łukasz".as_bytes().to_vec()));
    let latin1 = Charset::Latin1;
    assert_eq!(latin1.to_wire("user name", "josé"), Ok(b"jos\xe9".to_vec()));
    let old_server = br#"nonce="x",algorithm=md5-sess"#;
    assert!(why(&mut client("łukasz", "x"), Some(old_server)).contains("no user name outside of ISO 8859-1"));
    assert!(why(&mut client("lukasz", "ł"), Some(old_server)).contains("no password outside of ISO 8859-1"));
}

#[test]
fn secrets_stay_out_of_debug_output() {
    let credentials = Credentials::new("alice".to_owned(), "wonder land".to_owned());
    let mut begun = credentials.begin_exchange();
    response(&mut begun, CHALLENGE.as_bytes());
    assert!(!format!("{credentials:?} {begun:?}").contains("wonder"));
}

fn quoted(value: &str) -> String {
    let mut text = Vec::new();
    push_quoted(&mut text, "key", value.as_bytes());
    String::from_utf8(text).expect("UTF-8").trim_start_matches("key=").trim_end_matches(',').to_owned()
}

proptest! {
    #[test]
    fn any_bytes_are_a_response_or_an_error(first: Vec<u8>, second: Vec<u8>) {
        let mut client = client("alice", "x");
        let _ = client.process(Some(&first));
        let ended = client.process(Some(&second));
        prop_assert!(ended.is_err(), "the proof cannot be met by chance: {:?}", ended);
    }

    #[test]
    fn a_damaged_challenge_is_a_response_or_an_error(at in 0..CHALLENGE.len(), byte: u8, cut in 0..CHALLENGE.len()) {
        let mut challenge = CHALLENGE.as_bytes().to_vec();
        challenge[at] = byte;
        let _ = client("alice", "x").process(Some(&challenge));
        let _ = client("alice", "x").process(Some(&challenge[..cut]));
    }

    #[test]
    fn names_nonces_and_realms_pass_unchanged(user: String, password: String, realm in ".{0,40}", nonce in ".{0,40}") {
        let challenge =
            format!("realm={},nonce={},charset=utf-8,algorithm=md5-sess", quoted(&realm), quoted(&nonce));
        let mut client = Credentials::new(user.clone(), password).begin_with(DIGEST_URI, "c".to_owned());
        let Ok(SaslStep::Respond(response)) = client.process(Some(challenge.as_bytes())) else {
            return Err(TestCaseError::fail(challenge));
        };
        // A response may be longer than a challenge.
        prop_assume!(response.len() <= LONGEST_CHALLENGE);
        let response = Directives::parse(&response).expect("key=value pairs");
        prop_assert_eq!(one(&response, "username"), user.as_bytes());
        prop_assert_eq!(one(&response, "realm"), realm.as_bytes());
        prop_assert_eq!(one(&response, "nonce"), nonce.as_bytes());
    }

    #[test]
    fn another_password_is_another_response(one_password: String, other: String) {
        prop_assume!(one_password != other);
        let answer = |password: &str| {
            let credentials = Credentials::new("alice".to_owned(), password.to_owned());
            credentials.begin_with(DIGEST_URI, "c".to_owned()).process(Some(CHALLENGE.as_bytes()))
        };
        prop_assert_ne!(answer(&one_password), answer(&other));
    }
}
