//! What kinds of problem there are.

use serde::Serialize;

/// What is wrong, in one word, for scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Problem {
    /// Sessions wait for each other.
    Deadlock,
    /// Others have waited for a holder for too long.
    LongHeld,
    /// A node of a line, or a lease, has no session.
    NoSession,
    /// The counter of a directory ends.
    Counter,
    /// An ACL hides a line from those who may enter it, or keeps them from leaving.
    Acl,
    /// This client may not read something.
    NotReadable,
    /// A queue has no consumer, or too few.
    NoConsumer,
    /// A queue has dead letters.
    DeadLetters,
    /// The clock of this machine is behind.
    Clock,
    /// The servers grant a session timeout other than the one that is asked for.
    SessionTimeout,
    /// A server does not answer, while others do.
    NoAnswer,
    /// A server serves no clients, or no writes.
    NotServing,
    /// A server is alone, although several are named.
    Standalone,
    /// The settings of the servers differ from each other.
    Settings,
    /// The times of the servers differ from the options of this client.
    Times,
    /// A server has very many watches.
    Watches,
}
