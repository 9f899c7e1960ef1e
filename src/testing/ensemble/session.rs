//! A session on the ensemble in memory, behind the port.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{BoxStream, StreamExt};
use tokio::sync::{mpsc, oneshot, watch};

use super::check;
use super::client::{Replied, State};
use super::shared::Hold;
use super::wire::{Answer, Call};
use crate::backend::{Error, Multi, Op, PersistentWatch, Reply, Session, SessionEvent, Watch, WatchMode};
use crate::util::wait::forever;
use crate::znode::{Acl, CreateMode, Stat};

pub(crate) struct MemorySession {
    hold: Hold,
    id: i64,
    /// In milliseconds; each connection may be granted another one.
    timeout: Arc<AtomicU64>,
    states: watch::Receiver<State>,
}

impl fmt::Debug for MemorySession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemorySession").field("id", &format_args!("{:#x}", self.id)).finish()
    }
}

/// The life of a session: nothing is left out.
pub(crate) fn events(told: mpsc::UnboundedReceiver<SessionEvent>) -> BoxStream<'static, SessionEvent> {
    futures::stream::unfold(told, |mut told| async move {
        let event = told.recv().await?;
        Some((event, told))
    })
    .boxed()
}

impl MemorySession {
    pub(crate) fn new(hold: Hold, id: i64, timeout: Arc<AtomicU64>, states: watch::Receiver<State>) -> Self {
        MemorySession { hold, id, timeout, states }
    }

    /// Hands a call over, and takes what is wanted from its reply.
    fn request<T: Send + 'static>(
        &self,
        checked: Result<(), Error>,
        call: Call,
        take: impl FnOnce(Replied) -> Option<T> + Send + 'static,
    ) -> Reply<T> {
        let (reply, replied) = oneshot::channel();
        let client = self.hold.client;
        match checked {
            Ok(()) => self.hold.shared.with(|world| world.call(client, call, reply)),
            Err(error) => {
                // What is not connected is said first, as by the real adapter.
                let error = if self.is_connected() { error } else { Error::NotConnected };
                reply.send(Err(error)).ok();
            }
        }
        async move {
            let replied = replied.await.unwrap_or(Err(Error::ConnectionLoss))?;
            take(replied).ok_or_else(|| Error::Other("an answer to another request".to_owned()))
        }
        .boxed()
    }

    fn is_connected(&self) -> bool {
        *self.states.borrow() == State::Connected
    }

    fn watched<T: Send + 'static>(
        &self,
        call: Call,
        take: impl FnOnce(Replied) -> Option<T> + Send + 'static,
    ) -> Reply<T> {
        self.request(check::node(call.path()), call, take)
    }

    fn plain<T: Send + 'static>(
        &self,
        call: Call,
        take: impl FnOnce(Answer) -> Option<T> + Send + 'static,
    ) -> Reply<T> {
        let checked = match &call {
            Call::Write(op) => check::op(op),
            Call::Multi(ops) => ops.iter().try_for_each(check::op),
            read => check::node(read.path()),
        };
        self.request(checked, call, |replied| take(replied.answer))
    }
}

fn armed<T>(replied: Replied, take: impl FnOnce(Answer) -> Option<T>) -> Option<(T, Watch)> {
    let watch = replied.armed?.into_watch()?;
    Some((take(replied.answer)?, watch))
}

fn found(answer: Answer) -> Option<Option<Stat>> {
    match answer {
        Answer::Stat(found) => Some(found),
        _ => None,
    }
}

fn data(answer: Answer) -> Option<(Vec<u8>, Stat)> {
    match answer {
        Answer::Data(data, stat) => Some((data.to_vec(), stat)),
        _ => None,
    }
}

fn children(answer: Answer) -> Option<(Vec<String>, Stat)> {
    match answer {
        Answer::Children(children, stat) => Some((children, stat)),
        _ => None,
    }
}

fn done(answer: Answer) -> Option<()> {
    matches!(answer, Answer::Done).then_some(())
}

impl Session for MemorySession {
    fn id(&self) -> i64 {
        self.id
    }

    fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout.load(Ordering::Acquire))
    }

    fn latest_zxid(&self) -> i64 {
        let client = self.hold.client;
        self.hold.shared.with(|world| world.clients.get(&client).map_or(0, |client| client.last_zxid))
    }

    fn create(&self, path: &str, data: &[u8], mode: CreateMode, acls: &[Acl]) -> Reply<(String, Stat)> {
        let (path, data, acls) = (path.to_owned(), data.to_vec(), acls.to_vec());
        let op = Op::Create { path, data, mode, acls };
        self.plain(Call::Write(op), |answer| match answer {
            Answer::Created(path, stat) => Some((path, stat)),
            _ => None,
        })
    }

    fn delete(&self, path: &str, version: Option<i32>) -> Reply<()> {
        let path = path.to_owned();
        self.plain(Call::Write(Op::Delete { path, version }), done)
    }

    fn exists(&self, path: &str) -> Reply<Option<Stat>> {
        let (path, watch) = (path.to_owned(), false);
        self.plain(Call::Exists { path, watch }, found)
    }

    fn watch_exists(&self, path: &str) -> Reply<(Option<Stat>, Watch)> {
        let (path, watch) = (path.to_owned(), true);
        self.watched(Call::Exists { path, watch }, |replied| armed(replied, found))
    }

    fn get_data(&self, path: &str) -> Reply<(Vec<u8>, Stat)> {
        let (path, watch) = (path.to_owned(), false);
        self.plain(Call::GetData { path, watch }, data)
    }

    fn watch_data(&self, path: &str) -> Reply<(Vec<u8>, Stat, Watch)> {
        let (path, watch) = (path.to_owned(), true);
        self.watched(Call::GetData { path, watch }, |replied| {
            armed(replied, data).map(|((data, stat), watch)| (data, stat, watch))
        })
    }

    fn set_data(&self, path: &str, data: &[u8], version: Option<i32>) -> Reply<Stat> {
        let (path, data) = (path.to_owned(), data.to_vec());
        self.plain(Call::Write(Op::SetData { path, data, version }), |answer| match answer {
            Answer::Changed(stat) => Some(stat),
            _ => None,
        })
    }

    fn list_children(&self, path: &str) -> Reply<(Vec<String>, Stat)> {
        let (path, watch) = (path.to_owned(), false);
        self.plain(Call::List { path, watch }, children)
    }

    fn watch_children(&self, path: &str) -> Reply<(Vec<String>, Stat, Watch)> {
        let (path, watch) = (path.to_owned(), true);
        self.watched(Call::List { path, watch }, |replied| {
            armed(replied, children).map(|((names, stat), watch)| (names, stat, watch))
        })
    }

    fn get_acl(&self, path: &str) -> Reply<(Vec<Acl>, Stat)> {
        let path = path.to_owned();
        self.plain(Call::GetAcl { path }, |answer| match answer {
            Answer::Acl(acls, stat) => Some((acls, stat)),
            _ => None,
        })
    }

    fn multi(&self, ops: Vec<Op>) -> Reply<Multi> {
        if ops.is_empty() && self.is_connected() {
            return futures::future::ready(Ok(Multi::Committed(Vec::new()))).boxed();
        }
        self.plain(Call::Multi(ops), |answer| match answer {
            Answer::Multi(multi) => Some(multi),
            _ => None,
        })
    }

    fn sync(&self, path: &str) -> Reply<()> {
        let path = path.to_owned();
        self.plain(Call::Sync { path }, done)
    }

    fn watch_persistent(&self, path: &str, mode: WatchMode) -> Reply<PersistentWatch> {
        let path = path.to_owned();
        self.watched(Call::AddWatch { path, mode }, |replied| replied.armed?.into_persistent())
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        let client = self.hold.client;
        self.hold.shared.with(|world| world.close(client));
        let mut states = self.states.clone();
        async move {
            let over = |state: &State| matches!(state, State::Expired | State::Closed);
            // An error means that the ensemble is gone, and no client can be told any more.
            if states.wait_for(over).await.is_err() {
                forever().await
            }
        }
        .boxed()
    }
}
