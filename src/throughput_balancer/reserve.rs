//! What is kept free for members that are gone: what they may fall back to, as long as they may not know that they are.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::record::Record;

/// Outlasts the terms of a leader, so that a cut of its connection makes it forget nothing.
#[derive(Debug, Default)]
pub(super) struct Reserve {
    /// What each of those that are there may fall back to, by their names.
    fallbacks: BTreeMap<String, u64>,
    /// So much is kept free until then.
    gone: Vec<(Instant, u64)>,
}

impl Reserve {
    /// Notes a member's record, as it was read or written.
    pub(super) fn note(&mut self, name: &str, record: &Record) {
        match record.fallback {
            Some(fallback) => self.fallbacks.insert(name.to_owned(), fallback.min(record.ceiling)),
            None => self.fallbacks.remove(name),
        };
    }

    /// From now on, until `until`, keeps free what those fall back to who are not there any more.
    pub(super) fn keep_for_the_gone(&mut self, until: Instant, is_there: impl Fn(&str) -> bool) {
        let gone = &mut self.gone;
        self.fallbacks.retain(|name, fallback| {
            let stays = is_there(name);
            if !stays {
                gone.push((until, *fallback));
            }
            stays
        });
    }

    /// How much is kept free.
    pub(super) fn held(&mut self, now: Instant) -> u64 {
        self.gone.retain(|(until, _)| *until > now);
        self.gone.iter().fold(0, |sum, (_, held)| sum.saturating_add(*held))
    }

    /// When it will be less.
    pub(super) fn next_look(&self) -> Option<Instant> {
        self.gone.iter().map(|(until, _)| *until).min()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_fallback_is_kept_free_for_a_session_timeout_after_its_member_went() {
        const T: Duration = Duration::from_secs(10);
        let now = Instant::now();
        let mut reserve = Reserve::default();
        for (name, fallback, ceiling) in [("a", Some(3), 9), ("b", Some(5), 4), ("c", None, 9)] {
            reserve.note(name, &Record { fallback, ..Record::new(name, ceiling) });
        }
        reserve.keep_for_the_gone(now + T, |_| true);
        assert_eq!((reserve.held(now), reserve.next_look()), (0, None));
        reserve.keep_for_the_gone(now + T, |name| name == "a");
        assert_eq!((reserve.held(now), reserve.next_look()), (4, Some(now + T)), "no more than it had");
        reserve.keep_for_the_gone(now + T * 2, |_| false);
        assert_eq!(reserve.held(now), 7);
        assert_eq!(reserve.held(now + T), 3);
        assert_eq!((reserve.held(now + T * 2), reserve.next_look()), (0, None));
    }
}
