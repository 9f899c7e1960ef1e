//! Which operations the servers lack.
//!
//! A ZooKeeper server answers an operation that it does not know with an error. ClickHouse Keeper closes the connection
//! instead, and the next connection gets another session: everything that the client holds is lost. If the client
//! retried the request, this would repeat forever. So the client infers what the servers lack. It does so only for
//! servers whose sessions have no password, like those of Keeper:
//!
//! * When a server ends a connection, the suspect is the first request in flight whose operation was never answered:
//!   servers read requests in order.
//! * The servers lack an operation that is the suspect twice within minutes. Requests for it are refused before they
//!   are sent, as a ZooKeeper server would refuse them.
//! * An operation that was answered before becomes the suspect one end later: another server may not know it.
//! * When a session is opened an hour later or more, the operation may be sent once again: an upgrade of the ensemble
//!   ends all sessions.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::protocol::OpCode;
use crate::util::clock::Instant;
use crate::util::mutex::Mutex;

/// Two ends further apart than this prove nothing.
const IN_A_ROW: Duration = Duration::from_secs(5 * 60);
/// After this long an operation may be sent once again.
const PAUSE: Duration = Duration::from_secs(60 * 60);

/// The knowledge that all sessions of a client share.
#[derive(Debug, Default)]
pub(crate) struct LackingOperations {
    /// Whether the servers close connections on operations that they do not know.
    closes: AtomicBool,
    /// What is known of the operations that some servers lack.
    known: Mutex<HashMap<OpCode, Knowledge>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Knowledge {
    /// A server has answered it.
    Answered,
    /// It was the suspect at that time.
    Suspect(Instant),
    /// It has not been sent since that time.
    Lacking(Instant),
    /// It was lacking, and may be sent once again.
    OnTrial,
}

impl LackingOperations {
    /// Records that a session was opened, and whether its servers close connections on unknown operations.
    pub(crate) fn opened(&self, closes: bool, now: Instant) {
        self.closes.store(closes, Ordering::Relaxed);
        for knowledge in self.known.lock().values_mut() {
            if matches!(knowledge, Knowledge::Lacking(since) if now >= *since + PAUSE) {
                *knowledge = Knowledge::OnTrial;
            }
        }
    }

    /// Returns whether the servers lack an operation.
    pub(crate) fn has(&self, op: OpCode) -> bool {
        self.may_lack(op) && matches!(self.known.lock().get(&op), Some(Knowledge::Lacking(_)))
    }

    /// Records that a server answered an operation, whatever the answer.
    pub(crate) fn answered(&self, op: OpCode) {
        if self.may_lack(op) {
            self.known.lock().insert(op, Knowledge::Answered);
        }
    }

    /// Records that a server ended a connection on which these operations were in flight, in this order.
    pub(crate) fn ended(&self, under_way: impl Iterator<Item = OpCode>, now: Instant) {
        let suspects: Vec<OpCode> = under_way.filter(|op| self.may_lack(*op)).collect();
        let mut known = self.known.lock();
        let is_answered = |op: &&OpCode| known.get(op) == Some(&Knowledge::Answered);
        let Some(&suspect) = suspects.iter().find(|op| !is_answered(op)).or(suspects.first()) else { return };
        let knowledge = match known.get(&suspect) {
            Some(Knowledge::Answered) => {
                known.remove(&suspect);
                return;
            }
            Some(Knowledge::Suspect(before)) if now.since(*before) >= IN_A_ROW => Knowledge::Suspect(now),
            Some(_) => Knowledge::Lacking(now),
            None => Knowledge::Suspect(now),
        };
        known.insert(suspect, knowledge);
        drop(known);
        if knowledge == Knowledge::Lacking(now) {
            tracing::warn!(
                event = "operation_lacking",
                operation = suspect.description(),
                "servers closed the connection instead of answering this operation; it is no longer used"
            );
        }
    }

    fn may_lack(&self, op: OpCode) -> bool {
        let is_younger = matches!(
            op,
            OpCode::Create2
                | OpCode::CreateContainer
                | OpCode::CreateTtl
                | OpCode::RemoveWatches
                | OpCode::MultiRead
                | OpCode::AddWatch
        );
        is_younger && self.closes.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::clock::Clock;

    struct Case {
        lacking: LackingOperations,
        now: Instant,
    }

    impl Case {
        fn new() -> Case {
            let (lacking, now) = (LackingOperations::default(), Clock::Machine.now());
            lacking.opened(true, now);
            Case { lacking, now }
        }

        fn ends(&self, under_way: &[OpCode]) {
            self.lacking.ended(under_way.iter().copied(), self.now);
        }

        fn lacks(&self) -> Vec<OpCode> {
            let younger = [OpCode::Create2, OpCode::CreateContainer, OpCode::MultiRead, OpCode::AddWatch];
            younger.into_iter().filter(|op| self.lacking.has(*op)).collect()
        }
    }

    #[test]
    fn the_second_end_with_the_same_suspect_is_the_proof() {
        let case = Case::new();
        case.ends(&[OpCode::Exists, OpCode::AddWatch, OpCode::Create2]);
        assert_eq!(case.lacks(), []);
        case.ends(&[OpCode::AddWatch, OpCode::Create2]);
        assert_eq!(case.lacks(), [OpCode::AddWatch]);
        case.ends(&[OpCode::Create2]);
        assert_eq!(case.lacks(), [OpCode::AddWatch]);
        case.ends(&[OpCode::Create2]);
        assert_eq!(case.lacks(), [OpCode::Create2, OpCode::AddWatch]);
    }

    #[test]
    fn what_every_server_knows_is_never_suspect() {
        let case = Case::new();
        for _ in 0..5 {
            case.ends(&[OpCode::Exists, OpCode::Create, OpCode::Multi, OpCode::Sync]);
            case.ends(&[]);
        }
        assert!(case.lacking.known.lock().is_empty());
    }

    #[test]
    fn servers_that_answer_what_they_do_not_know_are_never_suspect() {
        let case = Case::new();
        case.lacking.opened(false, case.now);
        for _ in 0..5 {
            case.ends(&[OpCode::AddWatch]);
        }
        assert_eq!(case.lacks(), []);
    }

    #[test]
    fn an_answer_clears_an_operation_and_makes_it_suspect_one_end_later() {
        let case = Case::new();
        case.ends(&[OpCode::Create2]);
        case.lacking.answered(OpCode::Create2);
        // CreateContainer was never answered, so it is the suspect although it comes second.
        case.ends(&[OpCode::Create2, OpCode::CreateContainer]);
        case.ends(&[OpCode::Create2, OpCode::CreateContainer]);
        assert_eq!(case.lacks(), [OpCode::CreateContainer]);
        for end in 1..=3 {
            assert_eq!(case.lacks(), [OpCode::CreateContainer], "before end {end}");
            case.ends(&[OpCode::Create2]);
        }
        assert_eq!(case.lacks(), [OpCode::Create2, OpCode::CreateContainer]);
    }

    #[test]
    fn ends_that_are_far_apart_are_no_proof() {
        let mut case = Case::new();
        for _ in 0..5 {
            case.ends(&[OpCode::AddWatch]);
            assert_eq!(case.lacks(), []);
            case.now = case.now + IN_A_ROW;
        }
    }

    #[test]
    fn a_session_opened_much_later_may_try_it_once_more() {
        let mut case = Case::new();
        case.ends(&[OpCode::AddWatch]);
        case.ends(&[OpCode::AddWatch]);
        case.lacking.opened(true, case.now + PAUSE / 2);
        assert_eq!(case.lacks(), [OpCode::AddWatch]);
        case.now = case.now + PAUSE;
        assert_eq!(case.lacks(), [OpCode::AddWatch], "no session was opened");
        case.lacking.opened(true, case.now);
        assert_eq!(case.lacks(), []);
        case.ends(&[OpCode::AddWatch]);
        assert_eq!(case.lacks(), [OpCode::AddWatch], "one end is the proof now");
        case.now = case.now + PAUSE;
        case.lacking.opened(true, case.now);
        case.lacking.answered(OpCode::AddWatch);
        case.ends(&[OpCode::AddWatch]);
        assert_eq!(case.lacks(), []);
    }
}
