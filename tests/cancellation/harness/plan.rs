//! When a future is dropped, and which fault comes before.

use std::fmt;

/// One way to cut a call off.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// Decides every delay and the order of tasks.
    pub(crate) seed: u64,
    /// The unit that is counted.
    pub(crate) unit: Unit,
    /// After how many units the future is dropped; after 0 it was never polled.
    pub(crate) end: usize,
    /// The fault, and after how many units it strikes.
    pub(crate) fault: Option<(Fault, usize)>,
}

/// How to count the points at which a future can be dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Polls; it is dropped after the last one, with its requests under way.
    Polls,
    /// Polls; it is dropped when it asks for the next one: the replies have come, but it has not seen them.
    PollsAndAWake,
    /// Steps of the server and of every task of every client, while the future is polled whenever it asks.
    Steps,
}

/// A fault of the client whose call is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Its next request (or the one under way) is carried out, but the connection breaks before the reply.
    ReplyLost,
    /// Its next request (or the one under way) is lost with the connection.
    RequestLost,
    /// Its connection breaks.
    Disconnect,
    /// The servers end its session.
    Expiry,
}

impl Fault {
    pub(crate) const ALL: [Fault; 4] = [Fault::ReplyLost, Fault::RequestLost, Fault::Disconnect, Fault::Expiry];
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { seed, unit, end, fault } = self;
        write!(f, "SEED={seed}, dropped after {end} {unit:?}")?;
        match fault {
            Some((fault, at)) => write!(f, ", {fault:?} after {at}"),
            None => f.write_str(", nothing else goes wrong"),
        }
    }
}
