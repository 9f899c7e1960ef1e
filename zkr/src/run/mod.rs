//! Runs a command while a lock is held, so that it is over before another process can hold it.
//!
//! Three processes take part:
//!
//! * The **supervisor** (`supervisor.rs`) is the one that the user has started, the parent of the others. It starts
//!   the command in a process group of its own, passes signals on to it, tells it to end, and kills it before the
//!   lease ends.
//! * The **keeper** (`keeper.rs`) has the session, and what is held. It writes until when the lease lasts
//!   (`lease_file.rs`), and kills the command if the supervisor is gone or does not do it in time.
//! * The **command** begins as this program (`exec.rs`), which has the system kill it when the supervisor ends.
//!
//! So whichever of them is killed or stopped, another one ends the command:
//!
//! | what happens | who ends the command, and when |
//! |---|---|
//! | no server answers | the supervisor: SIGTERM, then SIGKILL before the lease ends |
//! | the supervisor is killed | the system, at once; the keeper kills the rest of the group |
//! | the supervisor is stopped | nothing ends: the keeper keeps the session. If it cannot, it kills the group in time |
//! | the keeper is killed | the supervisor, at once |
//! | the keeper is stopped | the supervisor, as when no server answers |
//! | the node is deleted, or the session ended, by hand | the supervisor. The next `zkr` waits for that (`mark.rs`) |
//!
//! `schedule.rs` decides when, by the clock alone. A command that is registered as an instance of a service holds
//! nothing: `service/` runs it without a keeper.

mod exec;
mod group;
mod hold;
mod keeper;
mod lease_file;
mod mark;
mod messages;
mod options;
mod plan;
mod running;
mod schedule;
mod service;
mod signals;
mod supervisor;
mod terminal;

pub use options::{BarrierOptions, ElectOptions, LockOptions, LookAtLock};
pub use service::{RegisterOptions, register};

use std::ffi::OsString;
use std::time::Duration;

use tokio::time::timeout;

use crate::connection::Connection;
use crate::ending::{Ending, Status, status_of_signal};
use crate::output::note;
use crate::runtime::block_on;
use options::Work;
use plan::{Kind, Plan};
use signals::Signals;
use supervisor::Round;

/// The first argument of the process that keeps the session.
pub const KEEPER: &str = "__keeper";
/// The first argument of the process that becomes the command.
pub const EXEC: &str = "__exec";

/// How long to wait before rejoining after a failure, including one of the command.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Runs the process that keeps the session.
pub fn keeper() -> Ending {
    crate::show_events();
    block_on(keeper::keep())
}

/// Runs the process that becomes the command.
pub fn exec(arguments: impl Iterator<Item = OsString>) -> Ending {
    exec::become_command(arguments)
}

/// Runs a command under a lock, or under a permit of a semaphore.
pub fn lock(connection: Connection, options: LockOptions) -> Ending {
    let LockOptions { path, wait, permits, data, work, .. } = options;
    let kind = permits.map_or(Kind::Mutex, Kind::Semaphore);
    once(connection, path.unwrap_or_default(), kind, wait, data, work)
}

/// Runs a command together with others.
pub fn barrier(connection: Connection, options: BarrierOptions) -> Ending {
    let BarrierOptions { path, members, wait, work } = options;
    once(connection, path, Kind::Barrier(members), wait, None, work)
}

/// Runs a command while this process leads, once or repeatedly.
pub fn elect(connection: Connection, options: ElectOptions) -> Ending {
    let ElectOptions { path, id, requeue, wait, work } = options;
    let plan = match plan(connection, path, Kind::Mutex, wait, id, &work) {
        Ok(plan) => plan,
        Err(ending) => return ending,
    };
    supervised(async |signals| {
        loop {
            let Round { ending, is_last } = supervisor::play(&plan, &work.command, signals).await;
            if is_last || !requeue || !may_differ_next_time(&ending) {
                return ending;
            }
            match &ending {
                Ending::Command(0) => continue,
                Ending::Status(_, why) => {
                    note(format_args!("{}; rejoining", why.as_deref().unwrap_or("the command was ended")))
                }
                _ => {}
            }
            if let Ok(signal) = timeout(AFTER_FAILURE, signals.ending()).await {
                return Ending::Command(status_of_signal(signal as i32));
            }
        }
    })
}

/// Runs one round or several, and handles the signals that arrive meanwhile.
fn supervised(play: impl AsyncFnOnce(&mut Signals) -> Ending) -> Ending {
    block_on(async {
        match Signals::listen() {
            Ok(mut signals) => play(&mut signals).await,
            Err(error) => Ending::failed(error),
        }
    })
}

/// Returns whether another round can end differently.
fn may_differ_next_time(ending: &Ending) -> bool {
    match ending {
        Ending::Status(status, _) => matches!(status, Status::Lost | Status::Unreachable),
        // A command that was interrupted at the terminal, or cannot be executed, ends the loop.
        Ending::Command(status) => ![126, 127, 130].contains(status),
        _ => false,
    }
}

fn once(
    connection: Connection,
    path: String,
    kind: Kind,
    wait: Option<Duration>,
    data: Option<String>,
    work: Work,
) -> Ending {
    match plan(connection, path, kind, wait, data, &work) {
        Ok(plan) => supervised(async |signals| supervisor::play(&plan, &work.command, signals).await.ending),
        Err(ending) => ending,
    }
}

/// Returns the plan for the keeper. Checks the options, before the keeper is started.
fn plan(
    connection: Connection,
    path: String,
    kind: Kind,
    wait: Option<Duration>,
    data: Option<String>,
    work: &Work,
) -> Result<Plan, Ending> {
    connection.validate()?;
    if kind == Kind::Mutex && std::env::var_os("ZKR_PATH").is_some_and(|outer| outer == path.as_str()) {
        note(format_args!("{path}: this process already runs under {path}, and would wait for itself"));
    }
    let data = data.unwrap_or_else(own_name);
    Ok(Plan { connection, path, kind, wait, data, grace: work.grace })
}

/// Returns the host and the process id, for people who look at the node.
fn own_name() -> String {
    let host = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned());
    format!("{}:{}", host.unwrap_or_else(|_| "unknown".to_owned()), std::process::id())
}
