//! What can be wrong, and what to do about it.

use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use zookeeper_recipes::inspect::{Deadlock, Line, Owner, Place, Role};

use super::problem::Problem;
use crate::output::shown;

/// A directory with fewer numbers left is reported: at a hundred nodes a second they last for two days.
const FEW_NUMBERS: u32 = 1 << 24;

/// How bad it is. Errors come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something is blocked, or no longer in order.
    Error,
    /// It may become an error, or hide one.
    Warning,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Where: a node, or the servers.
    pub path: String,
    /// What kind of problem it is.
    pub problem: Problem,
    /// What is wrong.
    pub what: String,
    /// What to do next.
    pub next: String,
}

impl Finding {
    pub(super) fn error(problem: Problem, path: &str, what: String, next: String) -> Finding {
        Finding { severity: Severity::Error, path: path.to_owned(), problem, what, next }
    }

    pub(super) fn warning(problem: Problem, path: &str, what: String, next: String) -> Finding {
        Finding { severity: Severity::Warning, path: path.to_owned(), problem, what, next }
    }

    /// Reports sessions that wait for each other.
    pub fn deadlock(circle: &Deadlock, now: SystemTime) -> Finding {
        let path = circle.waits.first().map_or("", |wait| &wait.node);
        let release = circle.waits.iter().map(|wait| &wait.waits_for).find(|node| can_be_asked(node));
        let waits: Vec<String> = circle.waits.iter().map(ToString::to_string).collect();
        let age = rounded(now.duration_since(circle.since()).unwrap_or_default());
        let what = format!("{} sessions wait for each other, for {age} by now: {}", waits.len(), waits.join("; "));
        let ask = release.map(|node| format!(", or ask it to release: zkr revoke {}", argument(node)));
        let ask = ask.unwrap_or_default();
        let next = format!("end the process of one of them{ask}");
        Finding::error(Problem::Deadlock, path, what, next)
    }

    /// Reports something that this client may not read.
    pub fn denied(path: &str) -> Finding {
        let what = "this client may not read or list it: what is there was not examined".to_owned();
        let next = format!(
            "give this client an identity that has READ there (--auth, --sasl); with READ or ADMIN, zkCli.sh shows who \
             has it (getAcl {})",
            argument(path)
        );
        Finding::warning(Problem::NotReadable, path, what, next)
    }

    /// Reports a counter of a directory that ends soon, or has ended.
    pub fn counter(path: &str, left: u32) -> Option<Finding> {
        let next = "delete the directory while no process uses it: in a new one the counter starts at 0";
        match left {
            0 => {
                let what = "the counter of the directory is exhausted: other libraries no longer know the order";
                Some(Finding::error(Problem::Counter, path, what.to_owned(), next.to_owned()))
            }
            1..FEW_NUMBERS => {
                let what = format!("{left} numbers are left in the counter of the directory, fewer than {FEW_NUMBERS}");
                Some(Finding::warning(Problem::Counter, path, what, next.to_owned()))
            }
            _ => None,
        }
    }

    /// Reports nodes in a line that no session owns.
    pub fn orphans(line: &Line) -> impl Iterator<Item = Finding> {
        let orphans = line.places.iter().filter(|place| place.owner.as_ref().is_some_and(Owner::is_orphan));
        orphans.map(move |place| {
            let path = &place.path;
            let next = format!("look at it (zkCli.sh: get {}); if no process uses it, delete it", argument(path));
            let what = "it has no session whose end would delete it".to_owned();
            match waiting_behind(line, place) {
                0 => Finding::warning(Problem::NoSession, path, what, next),
                waiting => {
                    Finding::error(Problem::NoSession, path, format!("{what}, and {} behind it", wait(waiting)), next)
                }
            }
        })
    }

    /// Reports holders that have been there for long while others wait, except leaders of latches and nodes of circles.
    pub fn stuck(line: &Line, circles: &[Deadlock], now: SystemTime, limit: Duration) -> impl Iterator<Item = Finding> {
        let holders = line.holders().filter(|place| {
            place.role != Role::Candidate
                && place.session_id().is_some()
                && !circles.iter().any(|circle| circle.nodes().any(|node| node == place.path))
        });
        holders.filter_map(move |place| {
            let owner = place.owner.as_ref()?;
            let waiting = waiting_behind(line, place);
            let age = now.duration_since(owner.created()).unwrap_or_default();
            (waiting > 0 && age >= limit).then(|| Finding::holder(place, owner, age, waiting))
        })
    }

    fn holder(place: &Place, owner: &Owner, age: Duration, waiting: usize) -> Finding {
        let path = &place.path;
        let what = format!("it has been there for {}, and {} behind it: {owner}", rounded(age), wait(waiting));
        let next = match place.role {
            Role::KazooLock => "unless it leads an election, look at what its process does".to_owned(),
            _ if owner.is_revoked() => "it does not release: look at what its process does, or end it".to_owned(),
            _ => format!(
                "look at its process, or ask it to release: zkr revoke {}; the leader of a selector may lead for long",
                argument(path)
            ),
        };
        Finding::warning(Problem::LongHeld, path, what, next)
    }

    /// Reports that the servers have granted another session timeout.
    pub fn session_timeout(servers: &str, asked: Duration, granted: Option<Duration>) -> Option<Finding> {
        // Servers count milliseconds.
        let granted = granted.filter(|granted| granted.as_millis() != asked.as_millis())?;
        let (asked, granted) = (humantime::format_duration(asked), humantime::format_duration(granted));
        let what = format!("the servers grant a session timeout of {granted}, and {asked} was asked for");
        let next =
            "set --session-timeout between minSessionTimeout and maxSessionTimeout of the servers, or change those";
        Some(Finding::warning(Problem::SessionTimeout, servers, what, next.to_owned()))
    }
}

/// Returns a path, quoted for a shell if necessary.
pub(super) fn argument(path: &str) -> Cow<'_, str> {
    // Only a zero byte cannot be quoted, and no path has one.
    shlex::try_quote(path).unwrap_or(Cow::Borrowed(path))
}

/// Returns whether the owner of a node in a circle may know the mark of `zkr revoke`.
fn can_be_asked(node: &str) -> bool {
    Role::of(node.rsplit('/').next().unwrap_or(node)) != Some(Role::KazooLock)
}

/// Returns how many of those whom a place excludes wait behind it.
fn waiting_behind(line: &Line, place: &Place) -> usize {
    let behind = line.places.iter().skip_while(|other| other.path != place.path).skip(1);
    behind.filter(|other| !other.holds() && place.role.excludes(other.role)).count()
}

/// Returns the number of those who wait, with the verb.
pub(super) fn wait(number: usize) -> String {
    format!("{number} {}", if number == 1 { "waits" } else { "wait" })
}

/// Returns a time in whole seconds, for people.
pub(super) fn rounded(time: Duration) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_secs(time.as_secs()))
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { severity, path, what, next, .. } = self;
        let [path, what, next] = [path, what, next].map(|text| shown(text));
        write!(f, "{severity}: {path}: {what}\n  {next}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_told_with_the_threshold_when_few_numbers_are_left() {
        assert_eq!(Finding::counter("/l", FEW_NUMBERS), None);
        let few = Finding::counter("/l", FEW_NUMBERS - 1).expect("few");
        let what = "16777215 numbers are left in the counter of the directory, fewer than 16777216";
        assert_eq!((few.severity, &*few.what), (Severity::Warning, what));
        assert_eq!(Finding::counter("/l", 0).expect("none").severity, Severity::Error);
    }

    #[test]
    fn a_session_timeout_is_told_if_it_is_another_one() {
        let [ten, forty] = [10, 40].map(Duration::from_secs);
        assert_eq!(Finding::session_timeout("zk:2181", ten, Some(ten)), None);
        assert_eq!(Finding::session_timeout("zk:2181", ten + Duration::from_micros(500), Some(ten)), None);
        assert_eq!(Finding::session_timeout("zk:2181", ten, None), None);
        let other = Finding::session_timeout("zk:2181", ten, Some(forty)).expect("another one");
        assert!(other.what.contains("of 40s, and 10s was asked for"), "{other}");
        let text = other.to_string();
        assert!(text.starts_with("warning: zk:2181: the servers grant") && text.lines().count() == 2, "{text}");
        let json = serde_json::to_value(&other).expect("it is a value");
        let expected = ["warning", "zk:2181", "session-timeout"];
        assert_eq!(["severity", "path", "problem"].map(|field| json[field].clone()), expected);
    }

    #[test]
    fn what_others_have_written_does_not_move_the_cursor() {
        let finding =
            Finding::warning(Problem::Acl, "/l", "digest:\x1b[31mred\nerror: forged".to_owned(), String::new());
        assert_eq!(finding.to_string(), "warning: /l: digest:\\u{1b}[31mred\\nerror: forged\n  ");
    }

    #[test]
    fn errors_come_first() {
        let warning = Finding::denied("/a");
        let error = Finding::counter("/b", 0).expect("exhausted");
        let mut findings = [warning.clone(), error.clone()];
        findings.sort();
        assert_eq!(findings, [error, warning]);
    }
}
