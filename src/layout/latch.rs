//! The znodes beside a leader latch, through which its participants are asked to resign.
//!
//! ```text
//! <path>/_c_<uuid>-latch-<number>                     a participant
//! <path>-requests/_c_<uuid>-latch-<number>-request    it can be asked: ephemeral, of the same session
//! ```
//!
//! The participant itself creates the node of requests. Its data is empty, or the request:
//!
//! ```text
//! resign                         by an operator
//! resign <uuid> to 0000000007    by the transfer with this UUID, to make room for the participant whose node has the
//!                                number 7; it withdraws only its own
//! resign priority                by a participant that is to lead because of its priority
//! ```
//!
//! As the name of the node contains that of the participant's node, a request never reaches a later node of the same
//! participant. The name ends in no number, so that no client takes it for a participant.

use uuid::Uuid;

use super::line::{LATCH, number_of};
use super::rank::{self, GivesWay};
use crate::util::path::{join, split};

/// The suffix of the directory of requests.
const REQUESTS: &str = "-requests";
/// The suffix of the name of a node of requests.
const REQUEST: &str = "-request";

/// The request to give up the place in the line, and the leadership with it.
pub(crate) const RESIGN: &[u8] = b"resign";
/// The request of the next in line, which has a lower number as priority. One that follows it does not give way.
pub(crate) const RESIGN_FOR_PRIORITY: &[u8] = b"resign priority";
/// No request.
pub(crate) const NO_REQUEST: &[u8] = b"";

/// What the request of a transfer says before the number of the participant that it has chosen.
const TO: &str = " to ";

/// Returns the request of the transfer with this UUID to the participant with this name.
pub(crate) fn resign_for(transfer: Uuid, chosen: &str) -> Vec<u8> {
    let to = match GivesWay::to(chosen) {
        GivesWay::To(number) => format!("{TO}{number:010}"),
        GivesWay::ToNone | GivesWay::ToAll => String::new(),
    };
    [RESIGN, format!(" {transfer}{to}").as_bytes()].concat()
}

/// Who asks a participant to resign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker {
    /// The next in line, which has a lower number as priority.
    Participant,
    /// An operator, or a transfer. Since then the participant gives way.
    Operator(GivesWay),
}

impl Asker {
    /// Returns to whom a participant gives way that follows the request.
    pub(crate) fn gives_way(self) -> GivesWay {
        match self {
            Asker::Participant => GivesWay::ToNone,
            Asker::Operator(gives_way) => gives_way,
        }
    }

    /// Returns whether it says more than the `known` request: what an operator asks goes before what a participant
    /// asks.
    pub(crate) fn is_news_after(self, known: Option<Asker>) -> bool {
        match known {
            None | Some(Asker::Participant) => Some(self) != known,
            Some(Asker::Operator(_)) => matches!(self, Asker::Operator(_)) && Some(self) != known,
        }
    }

    /// Returns its name, for the log.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Asker::Participant => "participant",
            Asker::Operator(_) => "operator",
        }
    }
}

/// Returns whether the transfer with this UUID has written this into a node of requests.
pub(crate) fn is_of(transfer: Uuid, data: &[u8]) -> bool {
    data.starts_with(&[RESIGN, format!(" {transfer}").as_bytes()].concat())
}

/// Returns who has written this into a node of requests, if it is a request.
pub(crate) fn asker_of(data: &[u8]) -> Option<Asker> {
    match data.strip_prefix(RESIGN)? {
        b" priority" => Some(Asker::Participant),
        rest => (rest.is_empty() || rest.starts_with(b" ")).then(|| Asker::Operator(chosen_in(rest))),
    }
}

/// Returns to whom a participant gives way that follows this request.
fn chosen_in(request: &[u8]) -> GivesWay {
    let text = std::str::from_utf8(request).ok();
    let chosen = text.and_then(|text| rank::digits(text.rsplit_once(TO)?.1));
    chosen.map_or(GivesWay::ToAll, GivesWay::To)
}

/// Returns the directory of the requests to the participants at `path`.
pub(crate) fn requests(path: &str) -> String {
    format!("{path}{REQUESTS}")
}

/// Returns the path of the node of requests for the participant with this node.
pub(crate) fn request_of(participant: &str) -> String {
    let (dir, name) = split(participant);
    join(&requests(dir), &format!("{name}{REQUEST}"))
}

/// Returns the name of the participant's node whose node of requests has this name.
pub(crate) fn participant_of(request: &str) -> Option<&str> {
    request.strip_suffix(REQUEST)
}

/// Returns whether this is the name of a node of requests.
pub(crate) fn is_request(name: &str) -> bool {
    participant_of(name).is_some_and(|participant| number_of(participant, &[LATCH]).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_request_tells_who_asks() {
        let to_all = Some(Asker::Operator(GivesWay::ToAll));
        assert_eq!(asker_of(RESIGN), to_all);
        let chosen = "_c_u-latch-0000000007";
        assert_eq!(asker_of(&resign_for(Uuid::nil(), chosen)), Some(Asker::Operator(GivesWay::To(7))));
        let exhausted = resign_for(Uuid::nil(), "_c_u-latch--7");
        for other in [&exhausted[..], b"resign x to y", b"resign x to 7", b"resign \xff to 0000000007"] {
            assert_eq!(asker_of(other), to_all);
        }
        assert_eq!(asker_of(RESIGN_FOR_PRIORITY), Some(Asker::Participant));
        assert!(is_of(Uuid::nil(), &resign_for(Uuid::nil(), chosen)));
        assert!(!is_of(Uuid::nil(), &resign_for(Uuid::max(), chosen)) && !is_of(Uuid::nil(), RESIGN));
        for other in [NO_REQUEST, b"resigned", b"please"] {
            assert_eq!(asker_of(other), None);
        }
    }

    #[test]
    fn a_later_request_of_an_operator_is_news_and_one_of_a_participant_only_if_none_was_known() {
        let [one, two] = [1, 2].map(|number| Asker::Operator(GivesWay::To(number)));
        for (known, later, expected) in [
            (None, Asker::Participant, true),
            (None, one, true),
            (Some(Asker::Participant), Asker::Participant, false),
            (Some(Asker::Participant), one, true),
            (Some(one), Asker::Participant, false),
            (Some(one), one, false),
            (Some(one), two, true),
        ] {
            assert_eq!(later.is_news_after(known), expected, "{known:?} {later:?}");
        }
    }

    #[test]
    fn a_node_of_requests_is_beside_the_election_and_is_no_participant() {
        let request = request_of("/ns/jobs/leader/_c_u-latch-0000000007");
        assert_eq!(request, "/ns/jobs/leader-requests/_c_u-latch-0000000007-request");
        let (dir, name) = split(&request);
        assert_eq!(dir, requests("/ns/jobs/leader"));
        assert_eq!(number_of(name, &[LATCH]), None);
        assert_eq!(participant_of(name), Some("_c_u-latch-0000000007"));
        assert_eq!(participant_of("_c_u-latch-0000000007"), None);
        assert!(is_request(name) && !is_request("my-request") && !is_request("_c_u-latch-0000000007"));
    }
}
