//! Tells from the servers' own transaction logs and snapshots who held what, when, by which session, and how it ended.
//!
//! ```no_run
//! use std::ops::ControlFlow;
//! use zookeeper_recipes::inspect::postmortem::{Event, Postmortem};
//!
//! # fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let logs = ["/var/lib/zookeeper".into()];
//! let summary = Postmortem::open(&logs, "/jobs/nightly")?.replay(None, |event| {
//!     if let Event::Hold(hold) = event {
//!         println!("{}: {:?} to {:?}, {:?}", hold.path, hold.granted, hold.ended, hold.end);
//!     }
//!     ControlFlow::Continue(())
//! })?;
//! println!("{} transactions", summary.transactions);
//! # Ok(())
//! # }
//! ```
//!
//! It reads the files of ZooKeeper 3.4 to 3.9, also while a server writes them, and needs no server. It understands the
//! nodes of this library, of Curator and of kazoo: the lines of elections and locks, permits of semaphores, items of
//! queues and the claims on them, and any other ephemeral node, which its session holds as long as it exists.
//!
//! # What the logs can tell
//!
//! * **When.** Each transaction has the time of the server that led, in milliseconds. After a change of the leader,
//!   times may go back. The order of the transactions is always certain.
//! * **Who holds** is decided by the rule of the line at each transaction, as in [`Line`](super::Line). The owner
//!   itself notices later: it holds, in its own eyes, from when its watch fires until it releases or its lease ends.
//! * **How it ended.** A node that its own session has deleted was [`Released`](End::Released). A session that its
//!   client has closed ends with a transaction that carries the number of the client's request
//!   ([`SessionClosed`](End::SessionClosed)). One that the servers have ended has the number 0
//!   ([`SessionExpired`](End::SessionExpired)): its timeout is over, or an operator has closed it through JMX.
//! * **Overlaps.** By the rule of a line no two that exclude each other hold at once. But a holder does not look at the
//!   line again. If another session deletes its node, it may go on until it notices, at most until its session ends or
//!   enters the line again; that is reported as an [`Overlap`] with the next holder. So is a node that comes before the
//!   holder's own, such as one created by hand. A process that goes on after its session has expired leaves no trace in
//!   the logs.
//!
//! The logs contain no addresses of clients, no reads, no watches, and no heartbeats. Local sessions, which a server
//! may be configured with, are logged only once they create an ephemeral node.
//!
//! # What is missing
//!
//! Servers delete old logs. What was there before the first transaction is known from the first snapshot that is not
//! older, from there on; what was granted then is marked with [`granted_before`](Hold::granted_before). Until then,
//! nodes of which nothing is known may be before those that are reported as holders. [`Summary::is_complete`] tells
//! whether all is known at the end.
//!
//! Within an epoch, the time of one leader, the transactions are numbered without gaps. So a missing file is noticed,
//! and reported as a [`Gap`]. If a snapshot follows directly, as after a server was far behind, the nodes in it go on.
//! If not, all end in an unknown way, and the replay begins again with nothing.
//!
//! **The end of an epoch cannot be checked from one server alone**: the next epoch begins with 1, whatever the last
//! number of this one was. If a file with the end of an epoch is missing, that is only noticed if a snapshot or the log
//! of another server has more of it, if its log is damaged there, or by what follows: a node is created that exists, or
//! by a session that is over. Then a [`Gap`] says between which transactions they are missing. In the last two cases
//! only the node that exists ends in an unknown way, and the others go on. Give the files of all servers.
//!
//! A log that ends within a transaction, as after a crash, is read up to there. One whose bytes have changed is
//! reported as [`Damage`]; if another server's log has the same transactions, they are taken from it. If not, and the
//! damage is at the end of an epoch, there is a [`Gap`] after it. A transaction of an unknown kind is left out.
//!
//! A leader logs a transaction before it is committed. If it fails just then, the others go on without that
//! transaction. It is left out if the logs of two servers are given, each in a directory of its own, and the other one
//! has gone on: see [`Summary::uncommitted`]. That looks the same if a file of the other one is missing, so
//! [`Summary::is_complete`] is false then. From the logs of that leader alone it is told like all others.

mod error;
mod files;
mod items;
mod log_file;
mod merge;
mod order;
mod overlaps;
mod rebase;
mod replay;
mod scope;
mod snapshot_file;
mod state;
mod value;

pub use self::error::Error;
pub use self::replay::{Postmortem, Span};
pub use self::value::{
    By, Cause, Damage, Delivery, End, Event, Gap, Hold, Item, ItemEnd, Moment, Overlap, Progress, Summary, What,
};

#[cfg(test)]
mod tests;
