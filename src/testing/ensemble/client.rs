//! The client's half of a session: what waits for a reply, its watches, and what it tells its holder.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::sync::{mpsc, oneshot, watch};

use super::attempts::Attempts;
use super::watchers::{Armed, Watchers};
use super::wire::{Answer, Kind, ServerWatch};
use super::{ConnId, Millis, Zxid};
use crate::backend::request_limit::RequestLimit;
use crate::backend::{Error, Observer, Proof, SessionEvent};
use crate::util::clock::{Clock, Instant};

/// Pings go out after so much silence of our own at the latest.
const MOST_IDLE: Millis = 10_000;

/// How a session is, as its holder sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Disconnected,
    Connected,
    Expired,
    Closed,
}

/// The reply to a call, and the watch it left.
#[derive(Debug)]
pub(crate) struct Replied {
    pub(crate) answer: Answer,
    pub(crate) armed: Option<Armed>,
}

pub(crate) type Replying = oneshot::Sender<Result<Replied, Error>>;

/// A call without its reply.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) watch: Option<(Arc<str>, Kind)>,
    pub(crate) proof: Proof,
    pub(crate) reply: Replying,
}

/// A request that was written and is not answered yet. Answers come in the order of the requests.
#[derive(Debug)]
pub(crate) struct Unanswered {
    pub(crate) at: Millis,
    /// As `at`, by the holder's clock.
    pub(crate) sent: Instant,
    /// The bytes of the request; 0 if the holder of the session did not ask for it.
    pub(crate) length: usize,
    /// None if the holder of the session does not wait for it: a ping, a watch removed or restored.
    pub(crate) call: Option<Pending>,
}

/// What the holder of a session has of it.
#[derive(Debug)]
pub(crate) struct Holder {
    /// Told when it is open, with its id.
    pub(crate) opening: Option<oneshot::Sender<i64>>,
    pub(crate) observer: Arc<dyn Observer>,
    /// What is known of the longest request that the servers read.
    pub(crate) limit: Arc<RequestLimit>,
    pub(crate) clock: Clock,
    pub(crate) events: mpsc::UnboundedSender<SessionEvent>,
    pub(crate) state: watch::Sender<State>,
    /// The timeout that was granted last, or is wanted.
    pub(crate) timeout: Arc<AtomicU64>,
}

pub(crate) struct Client {
    pub(crate) group: u32,
    /// 0 until it was opened.
    pub(crate) session: i64,
    /// Every connection asks for it again.
    pub(crate) wanted: Millis,
    /// What the latest connection was granted.
    pub(crate) timeout: Millis,
    pub(crate) conn: Option<ConnId>,
    pub(crate) connected: bool,
    pub(crate) closing: bool,
    pub(crate) last_zxid: Zxid,
    pub(crate) last_recv: Millis,
    pub(crate) last_send: Millis,
    /// As `last_recv`, by the holder's clock.
    pub(crate) last_contact: Instant,
    pub(crate) pinging: bool,
    /// Which timer counts.
    pub(crate) timer: u64,
    pub(crate) attempts: Attempts,
    pub(crate) unanswered: VecDeque<Unanswered>,
    pub(crate) watchers: Watchers,
    /// Watches dropped without a connection: they are restored with the others, and taken away then.
    pub(crate) unwanted: Vec<u64>,
    /// Removals at the server that wait for the answer to a request that arms the same watch.
    pub(crate) deferred: Vec<(Arc<str>, ServerWatch)>,
    pub(crate) holder: Holder,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("group", &self.group).field("session", &self.session).finish_non_exhaustive()
    }
}

impl Client {
    pub(crate) fn new(
        group: u32,
        wanted: Millis,
        now: Millis,
        next_server: usize,
        watchers: Watchers,
        holder: Holder,
    ) -> Self {
        Client {
            group,
            session: 0,
            wanted,
            timeout: wanted,
            conn: None,
            connected: false,
            closing: false,
            last_zxid: 0,
            last_recv: now,
            last_send: now,
            last_contact: holder.clock.now(),
            pinging: false,
            timer: 0,
            attempts: Attempts { next_server, ..Attempts::default() },
            unanswered: VecDeque::new(),
            watchers,
            unwanted: Vec::new(),
            deferred: Vec::new(),
            holder,
        }
    }

    /// A server that says nothing for so long is left.
    pub(crate) fn most_silence(&self) -> Millis {
        (self.timeout * 2 / 5).max(1)
    }

    /// Returns how long this client may be silent before it sends a ping: early enough to be answered before the server
    /// counts as silent.
    pub(crate) fn most_idle(&self) -> Millis {
        (self.timeout / 5).clamp(1, MOST_IDLE)
    }

    pub(crate) fn now(&self) -> Instant {
        self.holder.clock.now()
    }

    pub(crate) fn fail_pending(&mut self, error: &Error) {
        for pending in self.unanswered.iter_mut().filter_map(|unanswered| unanswered.call.take()) {
            pending.reply.send(Err(error.clone())).ok();
        }
    }

    /// Notes that the server has ended the connection, perhaps because it does not read the longest request under way.
    pub(crate) fn ended_by_server(&self) {
        let longest = self.unanswered.iter().map(|unanswered| unanswered.length).max();
        self.holder.limit.ended(longest.unwrap_or_default(), self.now());
    }

    /// Takes an answer in. What it proves is told before its waiter learns of it.
    pub(crate) fn answered(&mut self, result: Option<Result<Answer, Error>>) {
        let Some(Unanswered { sent, call, length, .. }) = self.unanswered.pop_front() else {
            return;
        };
        self.holder.limit.answered(length);
        let proof = call.as_ref().map_or(Proof::Contact, |pending| pending.proof);
        let counts = !matches!(&result, Some(Err(error)) if !error.is_verdict());
        if counts && !self.closing {
            self.holder.observer.answered(sent, proof);
        }
        let (Some(Pending { watch, reply, .. }), Some(result)) = (call, result) else {
            return;
        };
        let replied = result.map(|answer| {
            let armed = watch.map(|(path, kind)| {
                let missing = matches!(answer, Answer::Stat(None));
                let kind = if missing { Kind::Exists } else { kind };
                self.watchers.add(path, kind)
            });
            Replied { answer, armed }
        });
        reply.send(replied).ok();
    }

    /// Whether a watch like this is on its way.
    pub(crate) fn is_arming(&self, path: &str, watch: ServerWatch) -> bool {
        let watches = self.unanswered.iter().filter_map(|unanswered| unanswered.call.as_ref()?.watch.as_ref());
        watches.into_iter().any(|(at, kind)| **at == *path && kind.at_server() == watch)
    }

    /// When it must look again whether its server is silent, or it must say something itself.
    pub(crate) fn next_look(&self, now: Millis) -> Millis {
        let ping = if self.pinging { now + self.most_idle() } else { self.last_send + self.most_idle() };
        self.silent_at().map_or(ping, |silent| ping.min(silent))
    }

    /// When a server that owes an answer has been silent for too long.
    pub(crate) fn silent_at(&self) -> Option<Millis> {
        let oldest = self.unanswered.front()?;
        Some(oldest.at.max(self.last_recv) + self.most_silence())
    }
}
