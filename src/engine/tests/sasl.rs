//! Authentication by SASL, with a mechanism of the tests that waits at each step, and with DIGEST-MD5.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::script::{ID, Peer, Stage, T, lost, next_event, settle, soon};
use crate::engine::sasl::{SaslError, SaslExchange, SaslMechanism, SaslServer, SaslStep};
use crate::engine::{Error, Opened, SessionEvent};
use crate::protocol::{ErrorCode, EventType, OpCode, SaslRequest, SaslResponse, Secret};
use crate::util::mutex::Mutex;
use crate::util::wait::forever;

/// How long each step of the mechanism takes.
const STEP: Duration = Duration::from_millis(200);

/// One step of an exchange.
#[derive(Debug, Clone, Copy)]
enum Act {
    Send(&'static [u8]),
    Done,
    NotNow,
    Refuse,
    Hang,
}

/// Plays an exchange for each connection, and the last one for all further connections.
#[derive(Debug, Clone, Default)]
struct Scripted {
    exchanges: Arc<Mutex<VecDeque<Vec<Act>>>>,
    servers: Arc<Mutex<Vec<SaslServer>>>,
    tokens: Arc<Mutex<Vec<Option<Vec<u8>>>>>,
    /// How many steps are in progress.
    steps: Arc<AtomicUsize>,
}

impl Scripted {
    fn new<const N: usize>(exchanges: [&[Act]; N]) -> Self {
        let exchanges = exchanges.iter().map(|acts| acts.to_vec()).collect();
        Scripted { exchanges: Arc::new(Mutex::new(exchanges)), ..Scripted::default() }
    }

    fn stage(&self, hosts: usize) -> Stage {
        Stage::with(hosts, 1 << 20, |options| options.sasl = Some(Arc::new(self.clone())))
    }

    fn steps_in_progress(&self) -> usize {
        self.steps.load(Ordering::Relaxed)
    }
}

impl SaslMechanism for Scripted {
    fn name(&self) -> &str {
        "SCRIPTED"
    }

    fn begin(&self, server: &SaslServer) -> Box<dyn SaslExchange> {
        self.servers.lock().push(server.clone());
        let mut exchanges = self.exchanges.lock();
        let acts = if exchanges.len() > 1 { exchanges.pop_front() } else { exchanges.front().cloned() };
        Box::new(Exchange { acts: acts.expect("an exchange").into(), of: self.clone() })
    }
}

/// Counts as a step until it is dropped.
struct InProgress(Arc<AtomicUsize>);

impl InProgress {
    fn new(steps: &Arc<AtomicUsize>) -> Self {
        steps.fetch_add(1, Ordering::Relaxed);
        InProgress(Arc::clone(steps))
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Exchange {
    acts: VecDeque<Act>,
    of: Scripted,
}

impl Exchange {
    async fn act(&mut self) -> Result<SaslStep, SaslError> {
        let _in_progress = InProgress::new(&self.of.steps);
        tokio::time::sleep(STEP).await;
        match self.acts.pop_front().expect("a step") {
            Act::Send(token) => Ok(SaslStep::Respond(token.to_vec())),
            Act::Done => Ok(SaslStep::Done),
            Act::NotNow => Err(SaslError::transient("no authority answers")),
            Act::Refuse => Err(SaslError::refused("the authority does not know alice")),
            Act::Hang => forever().await,
        }
    }
}

impl SaslExchange for Exchange {
    fn first(&mut self) -> BoxFuture<'_, Result<Vec<u8>, SaslError>> {
        async move {
            match self.act().await? {
                SaslStep::Respond(token) => Ok(token),
                SaslStep::Done => panic!("a first token is needed"),
            }
        }
        .boxed()
    }

    fn step<'a>(&'a mut self, token: Option<&'a [u8]>) -> BoxFuture<'a, Result<SaslStep, SaslError>> {
        self.of.tokens.lock().push(token.map(<[u8]>::to_vec));
        self.act().boxed()
    }

    fn refusal(&self) -> String {
        "the server refused alice".to_owned()
    }
}

/// Reads a token of the client and answers it.
async fn answer(peer: &mut Peer, expected: &[u8], token: Option<&'static [u8]>) {
    let asked = peer.expect(OpCode::Sasl).await;
    assert_eq!(asked.read::<SaslRequest<'_>>().token.0, Some(expected));
    let token = Secret(token.map(Into::into));
    peer.reply(asked.xid, 0, ErrorCode::Ok, &SaslResponse { token }).await;
}

/// An exchange of one token, whose last answer is a null buffer.
const SHORT: &[Act] = &[Act::Send(b"ticket"), Act::Done];

async fn open(stage: &mut Stage) -> (Opened, Peer) {
    let opening = stage.opening();
    let script = async {
        let mut peer = stage.peer().await;
        peer.greet(T).await;
        answer(&mut peer, b"ticket", None).await;
        peer.serve_first().await;
        peer
    };
    let (opened, peer) = soon(async { tokio::join!(opening, script) }).await;
    (opened.expect("a session"), peer)
}

#[tokio::test(start_paused = true)]
async fn each_answer_of_the_server_is_a_step_before_the_first_request() {
    let mechanism = Scripted::new([&[Act::Send(b"ticket"), Act::Send(b""), Act::Send(b"no layer"), Act::Done]]);
    let mut stage = mechanism.stage(1);
    let opening = stage.opening();
    let script = async {
        let mut peer = stage.peer().await;
        peer.greet(T).await;
        answer(&mut peer, b"ticket", Some(b"proof")).await;
        answer(&mut peer, b"", Some(b"layers")).await;
        settle().await;
        assert!(peer.is_quiet().await, "the mechanism takes its time");
        answer(&mut peer, b"no layer", None).await;
        peer.serve_first().await;
        peer
    };
    let (opened, _peer) = soon(async { tokio::join!(opening, script) }).await;
    assert_eq!(opened.expect("a session").session.id(), ID);
    assert_eq!(*mechanism.tokens.lock(), [Some(b"proof".to_vec()), Some(b"layers".to_vec()), None]);
    assert_eq!(*mechanism.servers.lock(), [SaslServer::new("zk1", Some(([10, 0, 0, 0], 2181).into()))]);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_the_server_refuses_ends_the_opening_in_the_words_of_the_mechanism() {
    // Servers that require SASL refuse with the second code.
    for code in [ErrorCode::AuthFailed, ErrorCode::SessionClosedRequireSaslAuth] {
        let mut stage = Scripted::new([SHORT]).stage(1);
        let opening = stage.opening();
        let script = async {
            let mut peer = stage.peer().await;
            peer.greet(T).await;
            let asked = peer.expect(OpCode::Sasl).await;
            peer.reply(asked.xid, 0, code, &SaslResponse { token: Secret(None) }).await;
            peer
        };
        let (opened, _peer) = soon(async { tokio::join!(opening, script) }).await;
        assert_eq!(opened.err(), Some(Error::AuthFailed));
        assert_eq!(stage.ensemble.causes(), "zk1:2181: SASL SCRIPTED: the server refused alice");
    }
}

#[tokio::test(start_paused = true)]
async fn another_error_in_place_of_a_token_is_no_refusal() {
    let mut stage = Scripted::new([SHORT, SHORT]).stage(1);
    let opening = stage.opening();
    let script = async {
        let mut peer = stage.peer().await;
        peer.greet(T).await;
        let asked = peer.expect(OpCode::Sasl).await;
        peer.reply(asked.xid, 0, ErrorCode::SystemError, &SaslResponse { token: Secret(None) }).await;
        let mut peer = stage.peer().await;
        let causes = stage.ensemble.causes();
        assert_eq!(causes, "zk1:2181: the server did not process the token of SASL (SystemError)");
        peer.greet(T).await;
        answer(&mut peer, b"ticket", None).await;
        peer.serve_first().await;
        peer
    };
    let (opened, _peer) = soon(async { tokio::join!(opening, script) }).await;
    opened.expect("a session");
}

/// It sends events instead of an answer, each in time.
#[tokio::test(start_paused = true)]
async fn a_server_that_never_ends_the_authentication_is_left() {
    let mut stage = Scripted::new([SHORT, SHORT]).stage(1);
    let opening = stage.opening();
    let script = async {
        let mut peer = stage.peer().await;
        peer.greet(T).await;
        peer.expect(OpCode::Sasl).await;
        let begun = tokio::time::Instant::now();
        let mut next = loop {
            peer.event(EventType::NodeCreated, "/a").await;
            tokio::time::sleep(T / 10).await;
            if let Some(next) = stage.waiting_peer() {
                break next;
            }
        };
        assert!(begun.elapsed() <= T * 2, "{:?}", begun.elapsed());
        next.greet(T).await;
        answer(&mut next, b"ticket", None).await;
        next.serve_first().await;
        next
    };
    let (opened, _peer) = soon(async { tokio::join!(opening, script) }).await;
    opened.expect("a session");
}

#[tokio::test(start_paused = true)]
async fn a_mechanism_that_refuses_ends_the_opening_and_a_live_session() {
    let mut stage = Scripted::new([&[Act::Refuse], SHORT, &[Act::Refuse]]).stage(1);
    let opening = stage.opening();
    let script = async {
        let mut peer = stage.peer().await;
        assert_eq!(peer.frame().await, None, "no session is opened");
    };
    let (opened, ()) = soon(async { tokio::join!(opening, script) }).await;
    assert_eq!(opened.err(), Some(Error::AuthFailed));
    let causes = stage.ensemble.causes();
    assert_eq!(causes, "zk1:2181: SASL SCRIPTED: the authority does not know alice");

    let (mut opened, peer) = open(&mut stage).await;
    drop(peer);
    lost(&mut opened).await;
    let mut peer = stage.peer().await;
    assert_eq!(next_event(&mut opened).await, Some(SessionEvent::AuthFailed));
    assert_eq!(peer.frame().await, None);
}

#[tokio::test(start_paused = true)]
async fn an_opening_outlasts_an_authority_that_does_not_answer_for_the_moment() {
    let mut stage = Scripted::new([&[Act::NotNow], &[Act::Send(b"ticket"), Act::NotNow], SHORT]).stage(1);
    let opening = stage.opening();
    let script = async {
        let mut peer = stage.peer().await;
        assert_eq!(peer.frame().await, None, "no session is opened");
        let mut peer = stage.peer().await;
        assert_eq!(stage.ensemble.causes(), "zk1:2181: SASL SCRIPTED: no authority answers");
        assert_eq!(peer.greet(T).await.id, 0);
        answer(&mut peer, b"ticket", None).await;
        assert_eq!(peer.frame().await, None);
        let mut peer = stage.peer().await;
        assert_eq!(peer.greet(T).await.id, ID, "the session that was opened is resumed");
        answer(&mut peer, b"ticket", None).await;
        peer.serve_first().await;
        peer
    };
    let (opened, _peer) = soon(async { tokio::join!(opening, script) }).await;
    assert_eq!(opened.expect("a session").session.id(), ID);
}

/// However often it fails. The servers alone decide how long the session lives, and do not hear of it meanwhile.
#[tokio::test(start_paused = true)]
async fn a_live_session_outlasts_an_authority_that_does_not_answer_for_the_moment() {
    let mechanism = Scripted::new([SHORT, &[Act::NotNow]]);
    let mut stage = mechanism.stage(3);
    let (mut opened, peer) = open(&mut stage).await;
    drop(peer);
    lost(&mut opened).await;
    stage.seen.take();
    for _ in 0..12 {
        assert_eq!(stage.peer().await.frame().await, None);
    }
    assert_eq!(stage.seen.take(), []);
    mechanism.exchanges.lock().push_front(SHORT.to_vec());
    let mut peer = stage.peer().await;
    assert_eq!(peer.greet(T).await.id, ID);
    answer(&mut peer, b"ticket", None).await;
    assert_eq!(next_event(&mut opened).await, Some(SessionEvent::Connected));
    assert_eq!(opened.session.id(), ID);
    let servers: std::collections::BTreeSet<String> =
        mechanism.servers.lock().iter().map(|server| server.host().to_owned()).collect();
    assert_eq!(servers.into_iter().collect::<Vec<_>>(), ["zk1", "zk2", "zk3"]);
}

#[tokio::test(start_paused = true)]
async fn a_mechanism_that_hangs_is_given_as_long_as_a_server() {
    let mechanism = Scripted::new([&[Act::Hang], &[Act::Send(b"ticket"), Act::Hang], SHORT]);
    let mut stage = mechanism.stage(1);
    let opening = stage.opening();
    let script = async {
        let mut peer = stage.peer().await;
        assert_eq!(peer.frame().await, None, "no session is opened");
        let mut peer = stage.peer().await;
        let took = |limit| format!("zk1:2181: SASL SCRIPTED: the mechanism took longer than {limit:?}");
        assert_eq!(stage.ensemble.causes(), took(T / 3));
        peer.greet(T).await;
        answer(&mut peer, b"ticket", None).await;
        assert_eq!(peer.frame().await, None);
        assert_eq!(mechanism.steps_in_progress(), 0, "the step was dropped");
        let mut peer = stage.peer().await;
        assert_eq!(stage.ensemble.causes(), took(T.mul_f64(0.4)) + " (2 tries)");
        peer.greet(T).await;
        answer(&mut peer, b"ticket", None).await;
        peer.serve_first().await;
        peer
    };
    let (opened, _peer) = soon(async { tokio::join!(opening, script) }).await;
    assert_eq!(opened.expect("a session").session.id(), ID);
}

#[tokio::test(start_paused = true)]
async fn a_step_ends_with_the_opening_that_needs_it() {
    let mechanism = Scripted::new([&[Act::Hang], &[Act::Send(b"ticket"), Act::Hang], SHORT]);
    let mut stage = mechanism.stage(1);
    let mut opening = stage.opening();
    assert!(opening.as_mut().now_or_never().is_none());
    let mut peer = stage.peer().await;
    settle().await;
    assert_eq!(mechanism.steps_in_progress(), 1);
    drop(opening);
    assert_eq!(peer.frame().await, None);
    assert_eq!(mechanism.steps_in_progress(), 0);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(stage.attempts().len(), 1, "there is no session to close");

    let mut opening = stage.opening();
    assert!(opening.as_mut().now_or_never().is_none());
    let mut peer = stage.peer().await;
    peer.greet(T).await;
    answer(&mut peer, b"ticket", None).await;
    tokio::time::sleep(STEP / 2).await;
    assert_eq!(mechanism.steps_in_progress(), 1);
    drop(opening);
    assert_eq!(peer.frame().await, None);
    // The session that the server has opened is closed, which needs the user as well.
    let mut peer = stage.resume().await;
    answer(&mut peer, b"ticket", None).await;
    let asked = peer.expect(OpCode::CloseSession).await;
    peer.confirm(&asked, 0).await;
    assert_eq!(peer.frame().await, None);
}

/// The server answers the first token with a null buffer. If the client went on, an attacker on the network path could
/// turn the authentication off.
#[cfg(feature = "sasl-digest-md5")]
#[tokio::test(start_paused = true)]
async fn a_client_with_a_user_does_not_continue_without_one() {
    let credentials = crate::engine::digest_md5::Credentials::new("alice".to_owned(), "wonder land".to_owned());
    let mut stage = Stage::with(1, 1 << 20, |options| options.sasl = Some(Arc::new(credentials)));
    let opening = stage.opening();
    let script = async {
        let mut peer = stage.peer().await;
        peer.greet(T).await;
        answer(&mut peer, b"", None).await;
        assert_eq!(peer.frame().await, None, "the connection is closed");
    };
    let (opened, ()) = soon(async { tokio::join!(opening, script) }).await;
    assert_eq!(opened.err(), Some(Error::AuthFailed));
    let causes = stage.ensemble.causes();
    assert!(causes.contains("SASL DIGEST-MD5: the server does not support it"), "{causes}");
}
