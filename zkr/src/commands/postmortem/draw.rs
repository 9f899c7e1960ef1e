//! The time line as text with colours: a row for each hold, item and overlap.

use anstyle::{AnsiColor, Style};
use zookeeper_recipes::inspect::postmortem::{Cause, Delivery, End, Hold, Item, ItemEnd, Overlap, What};

use super::server_log::ServerLogs;
use super::time::{lasted, shown as shown_time};
use crate::commands::content;
use crate::output::{count, shown};

const GOOD: Style = AnsiColor::Green.on_default();
const HOLDS: Style = AnsiColor::Cyan.on_default();
const WAITS: Style = AnsiColor::Yellow.on_default();
const WRONG: Style = AnsiColor::Red.on_default();
const FAINT: Style = Style::new().dimmed();

/// The widths of the columns for a duration and an end.
const LASTED: usize = 10;
const ENDED: usize = 16;

/// What all rows need.
pub struct Rows<'a> {
    /// The path that was asked for.
    pub path: &'a str,
    pub addresses: &'a ServerLogs,
    /// The end of what is told: what remains has lasted until then.
    pub until_ms: i64,
}

impl Rows<'_> {
    /// Returns the row of a hold: since when, how long, how it ended, who, and where. That of one that only waited
    /// begins with when it came.
    pub fn hold(&self, hold: &Hold) -> String {
        let end_ms = hold.ended.map_or(self.until_ms, |ended| ended.ms);
        let Some(granted) = hold.granted else {
            let waited = painted(WAITS, format_args!("{:ENDED$}", waited(hold.end)));
            return self.row(hold.joined.ms, &between(hold.joined.ms, end_ms), &waited, &self.who(hold));
        };
        let (style, text) = match hold.what {
            // It holds nothing but its turn.
            What::Turn if hold.end == End::Remains => (FAINT, "first in line"),
            What::Turn => (FAINT, held(hold).1),
            _ => held(hold),
        };
        let length = if hold.granted_before { "?".to_owned() } else { between(granted.ms, end_ms) };
        let since = if hold.granted_before { hold.joined.ms } else { granted.ms };
        let mut who = self.who(hold);
        let waited_ms = granted.ms.saturating_sub(hold.joined.ms);
        if hold.granted_before {
            who.push_str(", held before the logs begin or go on");
        } else if waited_ms > 0 && hold.what != What::Permit {
            who.push_str(&format!(", waited {}", lasted(waited_ms)));
        }
        self.row(since, &length, &painted(style, format_args!("{text:ENDED$}")), &who)
    }

    fn row(&self, since_ms: i64, length: &str, end: &str, who: &str) -> String {
        format!("{}  {length:>LASTED$}  {end}  {who}", painted(FAINT, shown_time(since_ms)))
    }

    fn who(&self, hold: &Hold) -> String {
        let what = match hold.what {
            What::Place(role) => role.to_string(),
            What::Turn => "turn for permits".to_owned(),
            What::Permit => "permit".to_owned(),
            _ => "node".to_owned(),
        };
        let data = if hold.data.is_empty() { String::new() } else { format!(" {}", content::quoted(&hold.data)) };
        let mut text = format!("{what}, {}{data}, {}", self.session(hold.session_id), self.relative(&hold.path));
        if hold.end == End::Deleted {
            text.push_str(&format!(", by {}", self.session(hold.ended_by)));
        }
        if let Some(revoked) = hold.revoked {
            let by = self.session(Some(revoked.session_id));
            text.push_str(&format!(", asked to release at {} by {by}", shown_time(revoked.at.ms)));
        }
        text
    }

    /// Returns the row of an item: since when it was there, how long, what became of it, and its deliveries.
    pub fn item(&self, item: &Item) -> String {
        let (style, text) = match item.end {
            ItemEnd::Done => (GOOD, "done"),
            ItemEnd::Taken => (GOOD, "taken"),
            ItemEnd::DeadLettered => (WRONG, "dead letter"),
            ItemEnd::Deleted => (WRONG, "deleted"),
            ItemEnd::Remains => (WAITS, "in the queue"),
            _ => (WRONG, "unknown"),
        };
        let end_ms = item.ended.map_or(self.until_ms, |ended| ended.ms);
        let mut who = format!("item {}", self.relative(&item.path));
        if let Some(by) = item.put_by {
            who.push_str(&format!(", put by {}", self.session(Some(by))));
        }
        let has_taken = matches!(item.end, ItemEnd::Taken | ItemEnd::Deleted);
        if let Some(by) = item.ended_by.filter(|_| has_taken) {
            who.push_str(&format!(", {text} by {}", self.session(Some(by))));
        }
        if let Some(letter) = &item.letter {
            who.push_str(&format!(", {}", self.relative(letter)));
        }
        if !item.deliveries.is_empty() {
            let deliveries: Vec<_> = item.deliveries.iter().map(|one| self.delivery(one, item.end)).collect();
            let number = count(deliveries.len(), "delivery", "deliveries");
            who.push_str(&format!(", {number}: {}", deliveries.join("; ")));
        }
        let end = painted(style, format_args!("{text:ENDED$}"));
        self.row(item.put.ms, &between(item.put.ms, end_ms), &end, &who)
    }

    fn delivery(&self, delivery: &Delivery, item: ItemEnd) -> String {
        let is_over = matches!(item, ItemEnd::Done | ItemEnd::DeadLettered);
        let end = match delivery.end {
            End::Released if is_over => "",
            End::Released => " returned it",
            End::SessionClosed => " closed its session",
            End::SessionExpired => " expired",
            End::Deleted => " lost its claim",
            End::Remains => " has it",
            _ => " ended in an unknown way",
        };
        format!("{}{end}", self.session(delivery.session_id))
    }

    /// Returns the row of an overlap.
    pub fn overlap(&self, overlap: &Overlap) -> String {
        let until_ms = overlap.until.map_or(self.until_ms, |until| until.ms);
        let [first, second] = [&overlap.first, &overlap.second].map(|path| self.relative(path));
        let why = match overlap.cause {
            Cause::Deleted(by) => {
                let (by, at) = (self.session(Some(by.session_id)), shown_time(by.at.ms));
                format!("the first was deleted at {at} by {by}, and its session went on")
            }
            _ => "the second came before the first, which held already".to_owned(),
        };
        let [one, other] = [overlap.first_session_id, overlap.second_session_id].map(|id| self.session(id));
        let others = match overlap.others {
            0 => String::new(),
            others => format!(" and {} after it", count(others, "other", "others")),
        };
        let who = format!("{one}, {first}, and {other}, {second}{others}: {why}");
        let end = painted(WRONG, format_args!("{:ENDED$}", "overlap"));
        self.row(overlap.from.ms, &format!("<{}", between(overlap.from.ms, until_ms)), &end, &who)
    }

    fn session(&self, id: Option<i64>) -> String {
        id.map_or("no session".to_owned(), |id| format!("session {id:#x}{}", shown(&self.addresses.from(id))))
    }

    /// Returns a path from the one that was asked for on.
    fn relative(&self, path: &str) -> String {
        let rest = path.strip_prefix(self.path).and_then(|rest| rest.strip_prefix('/'));
        shown(rest.filter(|rest| !rest.is_empty()).unwrap_or(path))
    }
}

/// Returns the time from one moment to another, which a damaged log may have anywhere.
fn between(from_ms: i64, to_ms: i64) -> String {
    lasted(to_ms.saturating_sub(from_ms))
}

/// Returns how a hold ended.
fn held(hold: &Hold) -> (Style, &'static str) {
    match hold.end {
        End::Released => (GOOD, "released"),
        End::SessionClosed => (GOOD, "session closed"),
        End::SessionExpired => (WRONG, "expired"),
        End::Deleted => (WRONG, "deleted"),
        End::Removed => (WRONG, "removed"),
        End::Remains => (HOLDS, "holds"),
        _ => (WRONG, "unknown"),
    }
}

/// Returns how a wait ended.
fn waited(end: End) -> &'static str {
    match end {
        End::Released => "gave up waiting",
        End::SessionClosed => "closed, waiting",
        End::SessionExpired => "expired, waiting",
        End::Deleted => "deleted, waiting",
        End::Remains => "waits",
        _ => "unknown, waiting",
    }
}

fn painted(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_without_sense_do_not_overflow() {
        assert_eq!(between(1000, 3333), "2.333s");
        assert_eq!(between(i64::MIN, i64::MAX), lasted(i64::MAX));
        assert_eq!(between(i64::MAX, i64::MIN), lasted(i64::MIN));
    }
}
