//! What is known about the longest request that the servers read.
//!
//! A server that receives a request longer than its `jute.maxbuffer` closes the connection without an answer. To the
//! client this looks like an outage. If it retried the request, it would lose each new connection as well, and the
//! requests of other callers with it. So a request above the client's own limit is never sent. If the servers' limit is
//! lower, the client infers it:
//!
//! * When a server ends a connection, the longest request in flight is the suspect.
//! * After two such ends in a row, within minutes, requests at least as long as the longer suspect are refused before
//!   they are sent. All others are sent as before.
//! * An answer to a request of that length clears the suspicion. A length that was answered before becomes suspect only
//!   at the second end: the servers may have been restarted with a lower limit.
//! * One request is let through after a minute, then after pauses that double up to an hour: it costs the connection
//!   again if nothing has changed. It is the shortest of those refused during the pause, because servers that read any
//!   of them read that one. If it is not sent again, a longer one is let through one pause later.
//!
//! An outage can look the same, so short requests are never suspect: a server whose limit is below [`COUNTED`] could
//! hardly serve a client. The requests that the recipes themselves send are shorter than that, unless they carry data
//! of the user.

use std::fmt;
use std::time::Duration;

use crate::util::clock::Instant;
use crate::util::mutex::Mutex;

/// Requests with fewer bytes are never suspect.
const COUNTED: usize = 1024;
/// Two ends further apart than this are not in a row.
const IN_A_ROW: Duration = Duration::from_secs(5 * 60);
/// How long requests are refused until one is let through, the first time and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(60);
const LONGEST_PAUSE: Duration = Duration::from_secs(60 * 60);

/// The knowledge that all sessions of a client share. Lengths are those of frames, without the length prefix.
#[derive(Debug)]
pub(crate) struct RequestLimit {
    /// The limit of the client itself.
    max_request_bytes: usize,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// The length of the longest request that a server answered.
    answered: usize,
    /// The length of the latest suspect, and when its connection ended. Cleared when a request as long is answered.
    suspect: Option<(usize, Instant)>,
    refused: Option<Refused>,
}

/// Requests of this length and longer are refused.
#[derive(Debug, Clone, Copy)]
struct Refused {
    from: usize,
    /// When one is let through.
    retry_at: Instant,
    pause: Duration,
    /// The length of the shortest request refused since one was let through.
    shortest: usize,
}

/// Why a request was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TooLarge {
    /// It is above the limit of the client.
    Own { length: usize, max_request_bytes: usize },
    /// The servers seem to close the connection instead of reading it. `from` is the shortest length that is refused.
    Inferred { length: usize, from: usize, answered: usize, max_request_bytes: usize },
}

impl RequestLimit {
    pub(crate) fn new(max_request_bytes: usize) -> Self {
        RequestLimit { max_request_bytes, seen: Mutex::default() }
    }

    /// Returns an error if a request that is about to be sent is too long.
    pub(crate) fn check(&self, length: usize, now: Instant) -> Result<(), TooLarge> {
        let max_request_bytes = self.max_request_bytes;
        if length > max_request_bytes {
            return Err(TooLarge::Own { length, max_request_bytes });
        }
        if length < COUNTED {
            return Ok(());
        }
        let mut seen = self.seen.lock();
        let answered = seen.answered;
        let Some(refused) = seen.refused.as_mut().filter(|refused| length >= refused.from) else { return Ok(()) };
        let turn = if length <= refused.shortest { refused.retry_at } else { refused.retry_at + refused.pause };
        if now < turn {
            refused.shortest = refused.shortest.min(length);
            return Err(TooLarge::Inferred { length, from: refused.from, answered, max_request_bytes });
        }
        let pause = (refused.pause * 2).min(LONGEST_PAUSE);
        *refused = Refused { retry_at: now + pause, pause, shortest: usize::MAX, ..*refused };
        Ok(())
    }

    /// Records that a server answered a request, whatever the answer.
    pub(crate) fn answered(&self, length: usize) {
        if length < COUNTED {
            return;
        }
        let mut seen = self.seen.lock();
        seen.answered = seen.answered.max(length);
        seen.suspect = seen.suspect.filter(|(suspect, _)| *suspect > length);
        seen.refused = seen.refused.filter(|refused| refused.from > length);
    }

    /// Records that a server ended a connection. `longest` is the length of the longest request in flight.
    pub(crate) fn ended(&self, longest: usize, now: Instant) {
        if longest < COUNTED {
            return;
        }
        let mut seen = self.seen.lock();
        if longest <= seen.answered {
            seen.answered = 0;
            return;
        }
        let before = seen.suspect.replace((longest, now)).filter(|(_, at)| now.since(*at) < IN_A_ROW);
        let Some((before, _)) = before else { return };
        let from = before.max(longest);
        if seen.refused.is_some_and(|refused| refused.from <= from) {
            return;
        }
        let pause = FIRST_PAUSE;
        seen.refused = Some(Refused { from, retry_at: now + pause, pause, shortest: usize::MAX });
        tracing::warn!(
            event = "requests_refused",
            from,
            answered = seen.answered,
            max_request_bytes = self.max_request_bytes,
            ?pause,
            "servers closed the connection twice on a request of this length; their jute.maxbuffer seems to be lower \
             than the client's max_request_bytes"
        );
    }
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TooLarge::Own { length, max_request_bytes } => write!(
                f,
                "a request of {length} bytes was not sent: servers accept at most {max_request_bytes} (their \
                 jute.maxbuffer; see ClientBuilder::max_request_bytes)"
            ),
            TooLarge::Inferred { length, from, answered, max_request_bytes } => {
                let answered =
                    if *answered > 0 { format!(", and answered one of {answered} bytes") } else { String::new() };
                write!(
                    f,
                    "a request of {length} bytes was not sent: servers closed the connection twice when one of {from} \
                     bytes was in flight{answered}; their jute.maxbuffer seems to be lower than the client's limit of \
                     {max_request_bytes} bytes: raise theirs, or lower ClientBuilder::max_request_bytes"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::clock::Clock;

    const BIG: usize = 100_000;

    struct Case {
        limit: RequestLimit,
        now: Instant,
    }

    impl Case {
        fn new() -> Case {
            Case { limit: RequestLimit::new(1 << 20), now: Clock::Machine.now() }
        }

        fn passes(&self, length: usize) -> bool {
            self.limit.check(length, self.now).is_ok()
        }

        fn ends(&self, longest: usize) {
            self.limit.ended(longest, self.now);
        }
    }

    #[test]
    fn one_above_the_own_limit_is_refused() {
        let case = Case::new();
        assert!(case.passes(1 << 20));
        let text = case.limit.check((1 << 20) + 1, case.now).expect_err("refused").to_string();
        assert!(text.contains("of 1048577 bytes was not sent: servers accept at most 1048576"), "{text}");
        let small = RequestLimit::new(500);
        assert!(small.check(501, case.now).is_err() && small.check(500, case.now).is_ok());
    }

    #[test]
    fn the_second_end_in_a_row_with_one_so_long_refuses_it() {
        let case = Case::new();
        case.limit.answered(5_000);
        case.ends(BIG);
        assert!(case.passes(BIG));
        // What happens to shorter ones proves nothing about it.
        case.limit.answered(6_000);
        case.ends(10);
        case.ends(BIG);
        assert!(!case.passes(BIG) && !case.passes(BIG + 1));
        assert!(case.passes(BIG - 1) && case.passes(10));
        let refusal = case.limit.check(BIG, case.now).expect_err("refused");
        let text = refusal.to_string();
        for part in ["of 100000 bytes", "one of 6000 bytes", "limit of 1048576 bytes", "jute.maxbuffer"] {
            assert!(text.contains(part), "{text}: {part}");
        }
    }

    #[test]
    fn an_answer_to_one_so_long_clears_it() {
        let mut case = Case::new();
        case.ends(BIG);
        case.limit.answered(BIG);
        case.ends(BIG + 1);
        assert!(case.passes(BIG + 1), "not in a row");
        case.ends(BIG + 1);
        assert!(!case.passes(BIG + 1));
        case.now = case.now + FIRST_PAUSE;
        assert!(case.passes(BIG + 1), "one is let through");
        case.limit.answered(BIG + 1);
        assert!(case.passes(BIG + 2) && case.passes(BIG + 1));
    }

    #[test]
    fn ends_that_are_far_apart_are_not_in_a_row() {
        let mut case = Case::new();
        for _ in 0..5 {
            case.ends(BIG);
            assert!(case.passes(BIG));
            case.now = case.now + IN_A_ROW;
        }
    }

    #[test]
    fn a_lower_limit_begins_with_the_first_pause() {
        let mut case = Case::new();
        case.ends(BIG);
        case.ends(BIG);
        for _ in 0..10 {
            case.now = case.now + LONGEST_PAUSE;
            assert!(case.passes(BIG));
        }
        case.ends(50_000);
        case.ends(50_000);
        assert!(!case.passes(50_000));
        case.now = case.now + FIRST_PAUSE;
        assert!(case.passes(50_000));
    }

    #[test]
    fn short_requests_are_never_suspect() {
        let case = Case::new();
        for _ in 0..10 {
            case.ends(COUNTED - 1);
            case.ends(0);
        }
        assert!(case.passes(COUNTED - 1) && case.passes(BIG));
    }

    #[test]
    fn a_length_that_was_answered_becomes_suspect_one_end_later() {
        let case = Case::new();
        case.limit.answered(BIG);
        for end in 1..=3 {
            assert!(case.passes(BIG), "before end {end}");
            case.ends(BIG);
        }
        assert!(!case.passes(BIG));
    }

    #[test]
    fn the_limit_is_closed_in_on() {
        let case = Case::new();
        case.ends(BIG);
        case.ends(50_000);
        assert!(!case.passes(BIG), "at least one of the two was too long");
        assert!(case.passes(50_000));
        case.ends(50_000);
        assert!(!case.passes(50_000));
        assert!(case.passes(49_999));
        case.limit.answered(49_999);
        assert!(!case.passes(50_000));
    }

    #[test]
    fn one_is_let_through_after_pauses_that_double() {
        let mut case = Case::new();
        case.ends(BIG);
        case.ends(BIG);
        let mut pause = FIRST_PAUSE;
        for _ in 0..10 {
            assert!(!case.passes(BIG));
            case.now = case.now + pause;
            assert!(case.passes(BIG), "{pause:?}");
            assert!(!case.passes(BIG), "one alone");
            case.ends(BIG);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        assert_eq!(pause, LONGEST_PAUSE);
    }

    #[test]
    fn the_shortest_is_let_through_and_a_longer_one_if_it_does_not_come() {
        let mut case = Case::new();
        case.ends(BIG);
        case.ends(BIG);
        assert!(!case.passes(BIG + 1) && !case.passes(BIG * 5));
        case.now = case.now + FIRST_PAUSE;
        assert!(!case.passes(BIG * 5), "it does not take the turn of a shorter one");
        assert!(case.passes(BIG + 1));
        // Requests refused before that no longer count.
        case.now = case.now + FIRST_PAUSE * 2;
        assert!(case.passes(BIG * 5));
        let pause = FIRST_PAUSE * 4;
        assert!(!case.passes(BIG));
        case.now = case.now + pause;
        assert!(!case.passes(BIG * 5));
        case.now = case.now + pause;
        assert!(case.passes(BIG * 5), "no shorter one came");
    }
}
