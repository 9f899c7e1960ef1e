//! Transfers leadership to a participant that is chosen.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use tokio::time::Instant;
use uuid::Uuid;

use super::error::Error;
use super::requests::{ASK, Written, exists, request, write};
use super::resign_error::ResignError;
use crate::client::{self, Client, ErrorKind};
use crate::contender::names;
use crate::contender::participants::{self, Participant};
use crate::engine::{self, Op};
use crate::layout::latch::{Asker, NO_REQUEST, asker_of, is_of, request_of, resign_for};
use crate::layout::line::LATCH;
use crate::layout::rank::{self, precedes};
use crate::util::path::{join, split, validate};
use crate::util::wait::sleep_until_opt;
use crate::util::znode::Stat;

/// The operation that errors name.
const TRANSFER: &str = "transfer leadership at";

/// How many participants besides the leader may have to make room. They are asked in one transaction.
const MOST_OTHERS: usize = 1000;

/// How many requests are withdrawn at once.
const AT_ONCE: usize = 16;

/// Lets a participant lead next, although others came before it. Returns it once it is first in the line. The client
/// need not take part.
///
/// First in the line is not yet leading: the participant leads as soon as it takes notice. If its process is stopped or
/// cut off, there is no leader until it runs again or its session ends. So choose one that runs.
///
/// `to` is the id of the participant, or its node if several have the same id: the path or the name. It may be one of
/// Curator. The leader and those between them give up their places and go to the end of the line, so their latches
/// must be [`revocable`](super::LeaderLatchBuilder::revocable); one that has just entered cannot be asked for a moment.
/// First those between are asked, all in one transaction. The leader is asked when the next in the line is the one that
/// is to lead, and only if that is still there. So a transfer that ends early leaves the leader in its place.
///
/// A transfer goes before [priorities](super::LeaderLatchBuilder::priority). Participants behind the chosen one that
/// have a lower number must be revocable too. They are asked before all others, as the chosen one would step back for
/// them, and all that were asked give way to it and those before it. Once these have left their places, their
/// priorities count as before. One that enters later with a lower number may claim the leadership.
///
/// `within` is how long the leader and the others may take. The leader may need its grace period. After that, requests
/// that were not followed are withdrawn. A request that another operator has made is waited for, but neither replaced
/// nor withdrawn.
///
/// ```no_run
/// use std::time::Duration;
/// use zookeeper_recipes::leader_latch::{self, ResignError};
///
/// # async fn example(client: zookeeper_recipes::Client) {
/// let within = Duration::from_secs(30);
/// let path = "/my-service/leader";
/// match leader_latch::transfer(&client, path, "worker-7", within).await {
///     Ok(leader) => println!("{} is first in line now", leader.id),
///     Err(ResignError::NotRevocable { participants, .. }) => {
///         println!("these must be restarted or closed: {participants:?}");
///     }
///     Err(error) => println!("{error}"),
/// }
/// # }
/// ```
///
/// # Errors
/// Before anything is written: [`ResignError::NotFound`], [`ResignError::Ambiguous`], and
/// [`ResignError::NotRevocable`]; [`ResignError::Latch`] with
/// [`Error::InvalidOption`](super::Error::InvalidOption) if more than 1000 besides the leader would have to give up
/// their places, or `to` is empty.
/// [`ResignError::Left`] if the participant left the line meanwhile, [`ResignError::Unanswered`] if others did not
/// give up their places in time, and [`ResignError::Blocked`] if one of them could not be asked any more when others
/// had been; these three name the leader. [`ResignError::Latch`] if a request to ZooKeeper failed.
///
/// # Cancel safety
/// Participants that were asked still give up their places after the future was dropped.
pub async fn transfer(
    client: &Client,
    path: impl Into<String>,
    to: &str,
    within: Duration,
) -> Result<Participant, ResignError> {
    let path: Arc<str> = path.into().into();
    validate(&path).map_err(|error| Error::client(&path, error.into()))?;
    client.core().check_writes(TRANSFER, &path).map_err(|error| Error::client(&path, error))?;
    if to.is_empty() {
        let why = "the participant to lead has no id; name it by the path of its node".to_owned();
        return Err(Error::InvalidOption { path, why }.into());
    }
    let until = Instant::now().checked_add(within);
    let id = client.core().random.uuid();
    let mut transfer = Transfer { client, path, to, until, id, asked: Vec::new(), may_have_asked: false };
    let end = match transfer.run().await {
        Ok(leader) => return Ok(leader),
        Err(end) => end,
    };
    transfer.withdraw().await;
    let (path, to) = (Arc::clone(&transfer.path), to.to_owned());
    match end {
        End::Failed(error) => Err(error),
        End::Left => transfer.instead(|leader| ResignError::Left { path, to, leader }).await,
        End::TooLate => {
            let participants = transfer.still_there(&transfer.asked).await?;
            let late = |leader| ResignError::Unanswered { path, to, within, participants, leader };
            transfer.instead(late).await
        }
        End::Closed(participants) if transfer.may_have_asked => {
            transfer.instead(|leader| ResignError::Blocked { path, to, participants, leader }).await
        }
        End::Closed(participants) => Err(ResignError::NotRevocable { path, participants }),
    }
}

/// A transfer that is under way.
struct Transfer<'a> {
    client: &'a Client,
    path: Arc<str>,
    to: &'a str,
    /// Until when it waits for participants; `None` if that is beyond what the clock counts. Only waits are cut short:
    /// a request that is under way could not be withdrawn.
    until: Option<Instant>,
    /// A part of each request that it writes. No other client writes the same.
    id: Uuid,
    /// The names of the participants that may have a request, or have one that it waits for, and may not have followed
    /// it.
    asked: Vec<String>,
    /// Whether a request may have been written.
    may_have_asked: bool,
}

/// What a node of requests held when it was read.
struct Inbox {
    data: Vec<u8>,
    version: i32,
}

/// Why a transfer ended early.
enum End {
    /// The participant that was to lead has left.
    Left,
    /// Participants did not give up their places in time.
    TooLate,
    /// The participants with these nodes cannot be asked.
    Closed(Vec<String>),
    Failed(ResignError),
}

impl From<ResignError> for End {
    fn from(error: ResignError) -> Self {
        End::Failed(error)
    }
}

impl From<Error> for End {
    fn from(error: Error) -> Self {
        End::Failed(error.into())
    }
}

impl Transfer<'_> {
    /// Clears the line before the target, step by step. Each step begins with the line as it is then.
    async fn run(&mut self) -> Result<Participant, End> {
        self.sync().await?;
        let known = participants::participants(self.client, &self.path, LATCH).await;
        let target = self.find(&known.map_err(|error| self.failed(error))?)?;
        loop {
            let line = names(self.client, &self.path, &[LATCH]).await.map_err(|error| self.failed(error))?;
            let name = split(&target.path).1;
            let Some(at) = line.iter().position(|other| other == name) else { return Err(End::Left) };
            let Some((leader, between)) = line[..at].split_first() else {
                return Ok(Participant { is_leader: true, gives_way: rank::gives_way(name, &line), ..target });
            };
            // The target steps back for these, until they have given way.
            let behind: Vec<&String> = line[at + 1..].iter().filter(|other| precedes(other, name)).collect();
            let now = [behind.len(), between.len()].into_iter().find(|count| *count > 0).unwrap_or(1);
            let all: Vec<String> = behind.into_iter().chain(between).chain([leader]).cloned().collect();
            // If it is refused, the line or a request has changed since it was read.
            if let Some(inboxes) = self.open_inboxes(&all).await?
                && self.ask(name, leader, (&all, &inboxes), now).await?
            {
                self.until_answered(name, &all[..now]).await?;
            } else if self.until.is_some_and(|until| until <= Instant::now()) {
                return Err(End::TooLate);
            }
            self.sync().await?;
        }
    }

    /// Returns whether the node of this participant was named.
    fn is_node(&self, participant: &Participant) -> bool {
        participant.path == self.to || split(&participant.path).1 == self.to
    }

    /// Returns the participant that is to lead.
    fn find(&self, all: &[Participant]) -> Result<Participant, ResignError> {
        let (path, to) = (Arc::clone(&self.path), self.to.to_owned());
        if let Some(named) = all.iter().find(|participant| self.is_node(participant)) {
            return Ok(named.clone());
        }
        let found: Vec<&Participant> = all.iter().filter(|participant| participant.id == to).collect();
        match found[..] {
            [] => Err(ResignError::NotFound { path, to }),
            [one] => Ok(one.clone()),
            _ => {
                let participants = found.iter().map(|participant| participant.path.clone()).collect();
                Err(ResignError::Ambiguous { path, to, participants })
            }
        }
    }

    /// Reads the nodes of requests of all of these, before any of them is asked. Returns `None` if the line has changed
    /// meanwhile: a participant that leaves has no node of requests either, and must not be taken for one that cannot
    /// be asked.
    async fn open_inboxes(&self, names: &[String]) -> Result<Option<Vec<Inbox>>, End> {
        if names.len() > MOST_OTHERS + 1 {
            let (count, to) = (names.len() - 1, self.to);
            let why = format!(
                "{count} participants besides the leader would have to make room for {to:?}; at most {MOST_OTHERS} can"
            );
            return Err(Error::InvalidOption { path: Arc::clone(&self.path), why }.into());
        }
        let (mut open, mut closed) = (Vec::new(), Vec::new());
        for (name, inbox) in names.iter().zip(self.read_inboxes(names).await?) {
            match inbox {
                Some(inbox) => open.push(inbox),
                None => closed.push(name.clone()),
            }
        }
        if closed.is_empty() {
            return Ok(Some(open));
        }
        let participants = self.still_there(&closed).await?;
        if participants.is_empty() { Ok(None) } else { Err(End::Closed(participants)) }
    }

    /// Returns what the nodes of requests of these hold; `None` for each that has none.
    async fn read_inboxes(&self, names: &[String]) -> Result<Vec<Option<Inbox>>, Error> {
        let nodes = names.iter().map(|name| request_of(&join(&self.path, name)));
        let all = self.client.multi_get(nodes).await.map_err(|error| self.failed(error))?;
        let inbox = |read: Result<(Vec<u8>, Stat), client::Error>| match read {
            Ok((data, stat)) => Ok(Some(Inbox { data, version: stat.version })),
            Err(error) if error.kind() == ErrorKind::NoNode => Ok(None),
            Err(error) => Err(error),
        };
        all.into_iter().map(inbox).collect::<Result<_, client::Error>>().map_err(|error| self.failed(error))
    }

    /// Returns the nodes of those of these that are still in the line, in its order.
    async fn still_there(&self, names_before: &[String]) -> Result<Vec<String>, ResignError> {
        if names_before.is_empty() {
            return Ok(Vec::new());
        }
        self.sync().await?;
        let line = names(self.client, &self.path, &[LATCH]).await.map_err(|error| self.failed(error))?;
        let there = line.iter().filter(|name| names_before.contains(name));
        Ok(there.map(|name| join(&self.path, name)).collect())
    }

    /// Asks the first `now` of these that no operator has asked yet, in one transaction, if the target is in the line
    /// and the leader can be asked too. Returns false if nothing was written.
    async fn ask(
        &mut self,
        target: &str,
        leader: &str,
        (names, inboxes): (&[String], &[Inbox]),
        now: usize,
    ) -> Result<bool, ResignError> {
        let data = resign_for(self.id, target);
        let (mut writes, mut asked) = (Vec::<Op>::new(), Vec::new());
        for (at, (name, inbox)) in names.iter().zip(inboxes).enumerate() {
            let is_due = match asker_of(&inbox.data) {
                None => at < now,
                // It resigns in any case, and must give way.
                Some(Asker::Participant) => true,
                Some(Asker::Operator(_)) => false,
            };
            if is_due {
                writes.extend(request(&self.full(name), &data, Some(inbox.version)));
            }
            if is_due || at < now || is_of(self.id, &inbox.data) {
                asked.push(name.clone());
            }
        }
        // Recorded before it is sent: if the reply is lost, the requests may have been written.
        let asked_before = std::mem::replace(&mut self.asked, asked);
        if writes.is_empty() {
            return Ok(true);
        }
        let had_asked = std::mem::replace(&mut self.may_have_asked, true);
        let checks = [exists(self.full(target)), exists(request_of(&self.full(leader)))];
        let steps = checks.into_iter().chain(writes).collect();
        let written = write(self.client, ASK, &self.path, steps).await.map_err(|error| self.failed(error))?;
        if let Written::Refused { in_doubt: false, .. } = written {
            (self.may_have_asked, self.asked) = (had_asked, asked_before);
        }
        Ok(matches!(written, Written::Done))
    }

    /// Waits until all of these have given up their places, or the target is gone.
    async fn until_answered(&mut self, target: &str, names: &[String]) -> Result<(), End> {
        tokio::select! {
            biased;
            left = self.until_all_left(names) => left?,
            // Requests that were not followed are to be withdrawn.
            left = self.until_left(target) => return Ok(left?),
            () = sleep_until_opt(self.until) => return Err(End::TooLate),
        }
        self.asked.retain(|name| !names.contains(name));
        Ok(())
    }

    async fn until_all_left(&self, names: &[String]) -> Result<(), ResignError> {
        for name in names {
            self.until_left(name).await?;
        }
        Ok(())
    }

    /// Waits until the node with this name is gone, session after session.
    async fn until_left(&self, name: &str) -> Result<(), ResignError> {
        let (core, node) = (self.client.core(), self.full(name));
        let failed = |error| self.failed(client::Error::from_engine(TRANSFER, &self.path, error));
        loop {
            let (session, connection) = core.connected().await.map_err(|error| self.failed(error))?;
            match session.watch_data(&node).await {
                Ok((_, _, watch)) => session.changed(watch, connection).await,
                Err(engine::Error::NoNode) => return Ok(()),
                Err(error) => session.wait_if_transient(error, connection).await.map_err(failed)?,
            }
        }
    }

    /// Withdraws the requests of this transfer that no participant has followed, as far as the servers can be reached.
    /// Those of other clients stay.
    async fn withdraw(&self) {
        if self.asked.is_empty() {
            return;
        }
        if let Err(error) = self.try_withdraw().await {
            let path = &*self.path;
            tracing::warn!(event = "request_not_withdrawn", path, %error, "a request to resign stays");
        }
    }

    async fn try_withdraw(&self) -> Result<(), ResignError> {
        self.sync().await?;
        let inboxes = self.read_inboxes(&self.asked).await?;
        let all = self.asked.iter().zip(inboxes).filter_map(|(name, inbox)| Some((name, inbox?)));
        let own = all.filter(|(_, inbox)| is_of(self.id, &inbox.data));
        let writes = own.map(|(name, inbox)| {
            let (path, data, version) = (request_of(&self.full(name)), NO_REQUEST.to_vec(), Some(inbox.version));
            write(self.client, ASK, &self.path, vec![Op::SetData { path, data, version }])
        });
        let outcomes: Vec<_> = stream::iter(writes.collect::<Vec<_>>()).buffered(AT_ONCE).collect().await;
        outcomes.into_iter().try_for_each(|outcome| outcome.map(drop)).map_err(|error| self.failed(error).into())
    }

    /// Returns the error with the leader of now. The transfer may have succeeded at the last moment.
    async fn instead(
        &self,
        error: impl FnOnce(Option<Box<Participant>>) -> ResignError,
    ) -> Result<Participant, ResignError> {
        self.sync().await?;
        let leader = participants::leader(self.client, &self.path, LATCH).await.map_err(|error| self.failed(error))?;
        match leader {
            Some(leader) if leader.id == self.to || self.is_node(&leader) => Ok(leader),
            leader => Err(error(leader.map(Box::new))),
        }
    }

    /// The server may lag behind what was seen before.
    async fn sync(&self) -> Result<(), ResignError> {
        let synced = self.client.core().read(TRANSFER, &self.path, |session, path| session.sync(path)).await;
        synced.map_err(|error| self.failed(error).into())
    }

    /// Returns the path on the server of the node with this name.
    fn full(&self, name: &str) -> String {
        self.client.core().full_path(&join(&self.path, name))
    }

    fn failed(&self, error: client::Error) -> Error {
        Error::client(&self.path, error)
    }
}
