//! Members that cannot be served: their nodes hold no record, or the server refuses to show or to change them.

use std::collections::BTreeMap;
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::Instant;

use crate::backend::Watch;

/// No watch tells that a node may be read again: so often it is looked at.
const AGAIN: Duration = Duration::from_secs(30);

/// See the module.
#[derive(Default)]
pub(super) struct Aside {
    members: BTreeMap<String, Reason>,
}

struct Reason {
    why: String,
    until: Until,
}

/// When it is worth another look.
pub(super) enum Until {
    /// When somebody changes the node.
    Changed(Watch),
    /// At that time: nothing would tell of a change.
    Then(Instant),
    /// It is being looked at.
    Now,
}

impl Until {
    pub(super) fn later(now: Instant) -> Self {
        Until::Then(now + AGAIN)
    }
}

impl Aside {
    /// Notes a member; whether that, or the reason, is new.
    pub(super) fn put(&mut self, member: &str, why: &str, until: Until) -> bool {
        let reason = Reason { why: why.to_owned(), until };
        self.members.insert(member.to_owned(), reason).is_none_or(|before| before.why != why)
    }

    /// Forgets those that are served again, or gone.
    pub(super) fn keep(&mut self, is_aside: impl Fn(&str) -> bool) {
        self.members.retain(|member, _| is_aside(member));
    }

    /// All of them: what has changed for others may have changed for them.
    pub(super) fn all(&mut self) -> Vec<String> {
        self.take(|_| true)
    }

    /// Those whose time has come.
    pub(super) fn due(&mut self, now: Instant) -> Vec<String> {
        self.take(|until| matches!(until, Until::Then(at) if *at <= now))
    }

    fn take(&mut self, which: impl Fn(&Until) -> bool) -> Vec<String> {
        let taken = self.members.iter_mut().filter(|(_, reason)| which(&reason.until));
        let taken = taken.map(|(member, reason)| {
            reason.until = Until::Now;
            member.clone()
        });
        taken.collect()
    }

    pub(super) fn next_look(&self) -> Option<Instant> {
        let times = self.members.values().filter_map(|reason| match &reason.until {
            Until::Then(at) => Some(*at),
            _ => None,
        });
        times.min()
    }

    /// The first that somebody has changed.
    pub(super) async fn changed(&mut self) -> String {
        std::future::poll_fn(|cx| {
            for (member, reason) in &mut self.members {
                if let Until::Changed(watch) = &mut reason.until
                    && watch.poll_unpin(cx).is_ready()
                {
                    reason.until = Until::Now;
                    return Poll::Ready(member.clone());
                }
            }
            Poll::Pending
        })
        .await
    }
}
