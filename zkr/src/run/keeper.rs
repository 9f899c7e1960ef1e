//! The process that keeps the session and the lock. It ends the command if the supervisor does not.

use std::io::{self, stdin, stdout};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getppid};
use tokio::time::{Interval, MissedTickBehavior, interval, sleep, timeout};
use zookeeper_recipes::Client;

use super::group::Group;
use super::hold::{Failure, Hold};
use super::lease_file::{self, Moment};
use super::mark::Mark;
use super::messages::{Conversation, ToKeeper, ToSupervisor};
use super::plan::{Kind, Plan};
use super::schedule::Schedule;
use crate::ending::{Ending, Status};
use crate::output::note;

/// Why nothing is held, or is no longer held, although the supervisor has not reported that the command is over.
enum End {
    /// The supervisor is gone, or no longer wants to hold.
    NotWanted,
    Failed(Failure),
}

impl From<Failure> for End {
    fn from(failure: Failure) -> End {
        End::Failed(failure)
    }
}

/// Holds what the supervisor asks for, until the supervisor reports that the command is over, or ends.
pub async fn keep() -> Ending {
    match conversation() {
        Ok(mut supervisor) => {
            let ended = serve(&mut supervisor).await;
            let (status, why) = match ended {
                Ok(()) | Err(End::NotWanted) => (None, None),
                Err(End::Failed((status, why))) => (Some(status), Some(why)),
            };
            supervisor.say(&ToSupervisor::Ended { status, why }).await;
            Ending::Success
        }
        Err(error) => Ending::failed(error),
    }
}

fn conversation() -> io::Result<Conversation> {
    Conversation::new(UnixStream::from(stdin().as_fd().try_clone_to_owned()?))
}

async fn serve(supervisor: &mut Conversation) -> Result<(), End> {
    let Some(ToKeeper::Plan(plan)) = supervisor.hear().await else {
        return Err(End::Failed((Status::Failed, "for use by zkr itself only".to_owned())));
    };
    let client = wanted(supervisor, async { plan.connection.open().await.map_err(of_ending) }).await?;
    let served = hold(supervisor, &client, &plan).await;
    // Closes the session, so that its nodes do not stay until its timeout.
    if let Err(error) = client.close().await {
        note(error);
    }
    served
}

/// Runs a future while the supervisor wants it.
async fn wanted<T>(supervisor: &mut Conversation, work: impl Future<Output = Result<T, Failure>>) -> Result<T, End> {
    tokio::select! {
        biased;
        _ = supervisor.hear::<ToKeeper>() => Err(End::NotWanted),
        done = work => Ok(done?),
    }
}

async fn hold(supervisor: &mut Conversation, client: &Client, plan: &Plan) -> Result<(), End> {
    let held = wanted(supervisor, Hold::acquire(client, plan)).await?;
    let hold = held.ok_or_else(|| (Status::NotAcquired, format!("{}: not acquired in time", plan.path)))?;
    let session_timeout = client.session_timeout().unwrap_or_default();
    let mark = match marked(supervisor, client, plan, &hold, session_timeout).await {
        Ok(mark) => mark,
        Err(end) => {
            hold.release().await?;
            return Err(end);
        }
    };
    let schedule = plan.schedule(session_timeout);
    let command = Command::NotStarted { supervisor: getppid() };
    let mut watch =
        Watch { supervisor, client, hold: &hold, schedule, command, lost: false, is_marked: mark.is_some() };
    let over = watch.until_over(plan, session_timeout).await;
    let was_lost = watch.lost;
    if plan.is_barrier() {
        over?;
        // The other members may take long.
        return wanted(supervisor, hold.release()).await;
    }
    // After that time the next holder no longer waits.
    let released = timeout(session_timeout, release(client, plan, hold, mark)).await;
    over?;
    match released {
        Ok(Ok(())) => {}
        // What was lost cannot be released.
        _ if was_lost => {}
        // The command ran to its end under the lock.
        Ok(Err((_, why))) => note(why),
        Err(_) => note(format_args!("{}: no server confirmed the release; the hold ends with the session", plan.path)),
    }
    Ok(())
}

/// Removes the mark, so that the next holder knows that the command is over, and releases the lock.
async fn release(client: &Client, plan: &Plan, hold: Hold, mark: Option<Mark>) -> Result<(), Failure> {
    if let Some(mark) = mark {
        let removed = mark.remove(client, &plan.path).await;
        removed.map_err(|error| (Status::of(error.kind()), error.to_string()))?;
    }
    hold.release().await
}

/// Marks that a command may run, if a lock is held. There is no mark for a permit.
async fn marked(
    supervisor: &mut Conversation,
    client: &Client,
    plan: &Plan,
    hold: &Hold,
    timeout: Duration,
) -> Result<Option<Mark>, End> {
    let (Kind::Mutex, Some(token)) = (plan.kind, hold.token()) else { return Ok(None) };
    let waiting = |time| {
        let path = &plan.path;
        note(format_args!("{path}: waiting at most {time:?} for the command of the former holder to end"));
    };
    let work = async {
        tokio::select! {
            biased;
            () = hold.lost() => Err((Status::Lost, format!("{}: lost before the command was started", plan.path))),
            set = Mark::set(client, &plan.path, token, timeout, waiting) => {
                set.map_err(|error| (Status::of(error.kind()), error.to_string()))
            }
        }
    };
    wanted(supervisor, work).await
}

/// What the keeper knows about the command.
#[derive(Clone, Copy)]
enum Command {
    /// It was not started, or its supervisor could not report that.
    NotStarted { supervisor: Pid },
    /// It runs in this group.
    Runs(Group),
    /// The keeper has ended it.
    Ended,
}

/// Supervises a command from the keeper.
struct Watch<'a> {
    supervisor: &'a mut Conversation,
    client: &'a Client,
    hold: &'a Hold,
    schedule: Schedule,
    command: Command,
    lost: bool,
    /// Whether the next holder waits until the command is over.
    is_marked: bool,
}

impl Watch<'_> {
    /// Has the command started, and returns when it is over.
    async fn until_over(&mut self, plan: &Plan, session_timeout: Duration) -> Result<(), End> {
        let timeout_ms = u64::try_from(session_timeout.as_millis()).unwrap_or(u64::MAX);
        let mut looks = interval(self.schedule.interval);
        looks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut end = self.lasts(&mut looks).await?;
        self.supervisor.say(&ToSupervisor::Held { token: self.hold.token(), timeout_ms }).await;
        // A stopped supervisor does not start the command, and must not start it later, when it continues.
        match timeout(session_timeout / 2, self.supervisor.hear()).await {
            Ok(Some(ToKeeper::Ready)) if self.hold.is_held() => self.supervisor.say(&ToSupervisor::Start).await,
            Ok(Some(ToKeeper::Ready)) => {
                let why = format!("{}: lost before the command was started", plan.path);
                return Err(End::Failed((Status::Lost, why)));
            }
            Ok(_) => return Err(End::NotWanted),
            Err(_) => {
                let why = format!("{}: given up because zkr was stopped when it was acquired", plan.path);
                return Err(End::Failed((Status::Lost, why)));
            }
        }
        let hold = self.hold;
        let revoked = hold.revoked();
        tokio::pin!(revoked);
        let mut was_revoked = false;
        loop {
            tokio::select! {
                biased;
                heard = self.supervisor.hear() => match heard {
                    Some(ToKeeper::Started { group }) => self.command = Command::Runs(Group(Pid::from_raw(group))),
                    Some(ToKeeper::Over) => return Ok(()),
                    Some(ToKeeper::Plan(_) | ToKeeper::Ready) => {}
                    None => {
                        self.end_command().await;
                        return Err(End::NotWanted);
                    }
                },
                () = hold.lost(), if !self.lost => self.tell_lost(plan).await,
                () = &mut revoked, if !was_revoked => {
                    was_revoked = true;
                    self.supervisor.say(&ToSupervisor::Revoked).await;
                }
                _ = looks.tick() => {
                    end = self.extend().unwrap_or(end);
                    if self.schedule.is_overdue(Moment::now(), end) {
                        self.end_command().await;
                    }
                }
            }
        }
    }

    /// Waits until the lease lasts long enough to start the command, or is lost: after a wait for a lock, little of the
    /// lease may be left. The heartbeats of a holder soon extend it.
    async fn lasts(&mut self, looks: &mut Interval) -> Result<Moment, End> {
        loop {
            let now = Moment::now();
            match self.extend() {
                Some(end) if !self.schedule.may_start(now, end) => {
                    wanted(self.supervisor, async { Ok(looks.tick().await) }).await?;
                }
                end => return Ok(end.unwrap_or(now)),
            }
        }
    }

    /// Writes until when the command may run. Returns `None` if what was written last stays valid.
    fn extend(&self) -> Option<Moment> {
        if self.lost {
            return None;
        }
        let now = Moment::now();
        let end = match self.hold {
            Hold::Barrier(_) => Moment::NEVER,
            // The clock is read first, so this is not after the end of the lease.
            _ => now.after(self.client.remaining_lease().unwrap_or_default()),
        };
        // If it is still held now, the lease was that of its session.
        if !self.hold.is_held() {
            return None;
        }
        // If it cannot be written, the supervisor uses an earlier end.
        lease_file::write(&stdout(), end).is_ok().then_some(end)
    }

    async fn tell_lost(&mut self, plan: &Plan) {
        self.lost = true;
        if !self.is_marked {
            // There may already be another holder.
            let _ = lease_file::write(&stdout(), Moment::now());
        }
        self.supervisor.say(&ToSupervisor::Lost { why: format!("{} is lost", plan.path) }).await;
    }

    /// Ends the command in place of the supervisor, which is gone or does not do it.
    async fn end_command(&mut self) {
        match self.command {
            Command::Runs(group) => {
                group.kill().await;
                self.command = Command::Ended;
            }
            // The supervisor may just have started the command, which the system kills with it.
            Command::NotStarted { supervisor } => {
                if getppid() == supervisor {
                    let _ = kill(supervisor, Signal::SIGKILL);
                }
                sleep(self.schedule.interval).await;
            }
            Command::Ended => {}
        }
    }
}

fn of_ending(ending: Ending) -> Failure {
    match ending {
        Ending::Status(status, why) => (status, why.unwrap_or_default()),
        _ => (Status::Failed, "not connected".to_owned()),
    }
}
