//! Transfers leadership to a participant that is chosen.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::error::Error;
use super::requests::{ASK, NODE, Written, exists, request, withdrawal, write};
use super::resign_error::ResignError;
use crate::client::{self, Client, ErrorKind};
use crate::contender::names;
use crate::contender::participants::{self, Participant};
use crate::engine::{self, OpResult};
use crate::layout::latch::{participant_of, request_of, requests};
use crate::layout::line::LATCH;
use crate::util::path::{join, split, validate};
use crate::util::wait::sleep_until_opt;

/// The operation that errors name.
const TRANSFER: &str = "transfer leadership at";

/// How many participants may be between the leader and the one that is to lead. They are asked in one transaction.
const MOST_BETWEEN: usize = 1000;

/// Lets a participant lead next, although others came before it. Returns it once it is first in the line. The client
/// need not take part.
///
/// `to` is the id of the participant, or the path of its node if several have the same id. It may be one of Curator.
/// The leader and those between them give up their places and go to the end of the line, so their latches must be
/// [`revocable`](super::LeaderLatchBuilder::revocable); one that has just entered cannot be asked for a moment. First
/// those between are asked, all in one transaction. The leader is asked when the next in the line is the one that is to
/// lead, and only if that is still there. So a transfer that ends early leaves the leader in its place.
///
/// `within` is how long the leader and the others may take. The leader may need its grace period. After that, requests
/// that were not followed are withdrawn.
///
/// ```no_run
/// use std::time::Duration;
/// use zookeeper_recipes::leader_latch::{self, ResignError};
///
/// # async fn example(client: zookeeper_recipes::Client) {
/// let within = Duration::from_secs(30);
/// let path = "/my-service/leader";
/// match leader_latch::transfer(&client, path, "worker-7", within).await {
///     Ok(leader) => println!("{} leads now", leader.id),
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
/// [`Error::InvalidOption`](super::Error::InvalidOption) if more than 1000 are between.
/// [`ResignError::Left`] if the participant left the line meanwhile, and [`ResignError::Unanswered`] if others did not
/// give up their places in time; both name the leader. [`ResignError::Latch`] if a request to ZooKeeper failed.
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
    let until = Instant::now().checked_add(within);
    let mut transfer = Transfer { client, path, to, until, asked: Vec::new() };
    let end = match transfer.run().await {
        Ok(leader) => return Ok(leader),
        Err(end) => end,
    };
    let still_there = transfer.withdraw().await;
    let (path, to) = (Arc::clone(&transfer.path), to.to_owned());
    match end {
        End::Failed(error) => Err(error),
        End::Left => transfer.instead(|leader| ResignError::Left { path, to, leader }).await,
        End::TooLate => {
            let late = |leader| ResignError::Unanswered { path, to, within, participants: still_there, leader };
            transfer.instead(late).await
        }
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
    /// The requests that may not have been followed.
    asked: Vec<Asked>,
}

/// A request to a participant.
struct Asked {
    /// The name of the participant's node.
    name: String,
    /// The node that the request was written into, and its version then.
    request: String,
    version: i32,
}

/// Why a transfer ended early.
enum End {
    /// The participant that was to lead has left.
    Left,
    /// Participants did not give up their places in time.
    TooLate,
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
                return Ok(Participant { is_leader: true, ..target });
            };
            self.check_revocable(&line[..at]).await?;
            let to_ask = if between.is_empty() { std::slice::from_ref(leader) } else { between };
            // If it is refused, the line has changed since it was read.
            if self.ask(name, leader, to_ask).await? {
                self.until_answered(name, to_ask).await?;
            } else if self.until.is_some_and(|until| until <= Instant::now()) {
                return Err(End::TooLate);
            }
            self.sync().await?;
        }
    }

    /// Returns the participant that is to lead.
    fn find(&self, all: &[Participant]) -> Result<Participant, ResignError> {
        let (path, to) = (Arc::clone(&self.path), self.to.to_owned());
        if let Some(named) = all.iter().find(|participant| participant.path == to) {
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

    /// Checks that all of these can be asked, before any of them is.
    async fn check_revocable(&self, names: &[String]) -> Result<(), ResignError> {
        if names.len() > MOST_BETWEEN + 1 {
            let why = format!("{} participants are before {:?}; at most {MOST_BETWEEN} can be", names.len(), self.to);
            return Err(Error::InvalidOption { path: Arc::clone(&self.path), why }.into());
        }
        let accepting = match self.client.children(&requests(&self.path)).await {
            Err(error) if error.kind() == ErrorKind::NoNode => Vec::new(),
            children => children.map_err(|error| self.failed(error))?,
        };
        let accepts = |name: &&String| accepting.iter().any(|request| participant_of(request) == Some(name.as_str()));
        let others: Vec<String> =
            names.iter().filter(|name| !accepts(name)).map(|name| join(&self.path, name)).collect();
        if others.is_empty() {
            return Ok(());
        }
        Err(ResignError::NotRevocable { path: Arc::clone(&self.path), participants: others })
    }

    /// Asks all of these in one transaction, if the target is in the line and the leader can be asked too. Returns
    /// false if nothing was written.
    async fn ask(&mut self, target: &str, leader: &str, names: &[String]) -> Result<bool, ResignError> {
        let checks = [exists(self.full(target)), exists(request_of(&self.full(leader)))];
        let before = checks.len();
        let steps = checks.into_iter().chain(names.iter().flat_map(|name| request(&self.full(name)))).collect();
        let written = write(self.client, ASK, &self.path, steps).await.map_err(|error| self.failed(error))?;
        let Written::Done(results) = written else { return Ok(false) };
        let stats = results.into_iter().skip(before).filter_map(|result| match result {
            OpResult::SetData { stat } => Some(stat),
            _ => None,
        });
        let asked = names.iter().zip(stats).map(|(name, stat)| Asked {
            name: name.clone(),
            request: request_of(&self.full(name)),
            version: stat.version,
        });
        self.asked = asked.collect();
        Ok(true)
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
        self.asked.clear();
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

    /// Withdraws the requests that no participant has followed, as far as the servers can be reached. Returns the nodes
    /// of these participants. A request that another client has written since stays.
    async fn withdraw(&mut self) -> Vec<String> {
        let asked = std::mem::take(&mut self.asked);
        let writes = asked.iter().map(|asked| {
            let steps = vec![exists(self.full(&asked.name)), withdrawal(asked.request.clone(), asked.version)];
            write(self.client, ASK, &self.path, steps)
        });
        let outcomes = futures::future::join_all(writes).await;
        let is_there = |outcome: Result<Written, client::Error>| match outcome {
            Ok(Written::Refused { step }) => step != NODE,
            Ok(Written::Done(_)) => true,
            Err(error) => {
                let path = &*self.path;
                tracing::warn!(event = "request_not_withdrawn", path, %error, "a request to resign stays");
                true
            }
        };
        let all = asked.iter().zip(outcomes).filter_map(|(asked, outcome)| is_there(outcome).then_some(asked));
        all.map(|asked| join(&self.path, &asked.name)).collect()
    }

    /// Returns the error with the leader of now. The transfer may have succeeded at the last moment.
    async fn instead(
        &self,
        error: impl FnOnce(Option<Box<Participant>>) -> ResignError,
    ) -> Result<Participant, ResignError> {
        self.sync().await?;
        let leader = participants::leader(self.client, &self.path, LATCH).await.map_err(|error| self.failed(error))?;
        match leader {
            Some(leader) if leader.id == self.to || leader.path == self.to => Ok(leader),
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
