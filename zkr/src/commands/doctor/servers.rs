//! What can be wrong with the servers, as they report it themselves.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::{join, join_all};
use humantime::format_duration;

use super::finding::Finding;
use super::problem::Problem;
use crate::commands::servers::{Answer, Host, Hosts, Times, ask, distinct, mode, watches};

/// More watches than this on one server are reported: each takes memory of the server, even while nothing happens.
const MANY_WATCHES: u64 = 1_000_000;

/// The four-letter words to send, and what the answers contain.
const WORDS: [(&str, &[&str]); 3] =
    [("srvr", &["modes"]), ("conf", &["tick times", "session timeouts"]), ("wchs", &["watches"])];

/// What the options of this client assume.
#[derive(Debug, Clone)]
pub struct Expected<'a> {
    /// The servers, as they were given.
    pub servers: &'a str,
    /// `--tick-time`.
    pub tick: Duration,
    /// `--min-session-timeout`.
    pub min: Option<Duration>,
    /// `--session-timeout`.
    pub asked: Duration,
    /// The session timeout that the server of this client has granted.
    pub granted: Option<Duration>,
}

/// What the servers have answered.
#[derive(Debug, Default)]
pub struct Survey {
    /// Each server, and what it has answered, or why it does not answer.
    servers: Vec<(Host, Result<Server, String>)>,
    /// Those that were not asked.
    encrypted: Vec<Host>,
    /// The name whose SRV records name servers that were not asked.
    srv: Option<String>,
}

/// What one server has answered.
#[derive(Debug, Clone, Default)]
struct Server {
    is_serving: bool,
    mode: Option<String>,
    times: Times,
    watches: Option<u64>,
    /// The words that it does not permit.
    refused: Vec<&'static str>,
    /// The words that it does not answer, and why.
    unanswered: Vec<String>,
}

impl Survey {
    /// Asks all servers.
    pub async fn ask(hosts: Hosts) -> Survey {
        // One server may have several names.
        let plain = distinct(hosts.plain).await;
        let answers = join_all(plain.iter().map(Server::ask)).await;
        Survey { servers: plain.into_iter().zip(answers).collect(), encrypted: hosts.encrypted, srv: hosts.srv }
    }

    /// Returns what is wrong.
    pub fn findings(&self, expected: &Expected<'_>) -> Vec<Finding> {
        let mut findings: Vec<Finding> = self.unavailable().collect();
        findings.extend(self.alone());
        findings.extend(self.different_times(expected));
        findings.extend(self.tick_times(expected));
        findings.extend(self.session_timeouts(expected));
        let watches = self.answered().filter_map(|(host, server)| Finding::watches(host, server.watches?));
        findings.extend(watches);
        findings
    }

    /// Returns what could not be examined, and what would change that.
    pub fn not_examined(&self) -> Option<String> {
        let refused: BTreeSet<&str> = self.answered().flat_map(|(_, server)| &server.refused).copied().collect();
        let refused: Vec<_> = WORDS.iter().filter(|(word, _)| refused.contains(word)).copied().collect();
        let mut parts = Vec::new();
        if !refused.is_empty() {
            let (words, topics): (Vec<_>, Vec<_>) = refused.into_iter().unzip();
            let (words, topics) = (listed(&words), listed(&topics.concat()));
            parts.push(format!("{topics} (permit {words}: 4lw.commands.whitelist on the servers)"));
        }
        // This client has a session, so only the four-letter words do not get through.
        if let (None, Some((host, Err(why)))) = (self.answered().next(), self.servers.first()) {
            parts.push(format!("the servers themselves ({host}: {why})"));
        }
        for (host, server) in self.answered() {
            parts.extend(server.unanswered.iter().map(|why| format!("{host} ({why})")));
        }
        if !self.encrypted.is_empty() {
            let hosts: Vec<String> = self.encrypted.iter().map(Host::to_string).collect();
            parts.push(format!("{} (servers are not asked over TLS)", hosts.join(", ")));
        }
        if let Some(name) = &self.srv {
            parts.push(format!("the servers of srv://{name} (name them in --connect)"));
        }
        (!parts.is_empty()).then(|| format!("not examined: {}", parts.join("; ")))
    }

    fn answered(&self) -> impl Iterator<Item = (&Host, &Server)> {
        self.servers.iter().filter_map(|(host, server)| Some((host, server.as_ref().ok()?)))
    }

    /// Returns this value of each server that reports it.
    fn values<T>(&self, value: impl Fn(&Server) -> Option<T>) -> Vec<(&Host, T)> {
        self.answered().filter_map(|(host, server)| Some((host, value(server)?))).collect()
    }

    /// Reports servers that do not answer while others do, or do not serve.
    fn unavailable(&self) -> impl Iterator<Item = Finding> {
        let others_answer = self.answered().next().is_some();
        self.servers.iter().filter_map(move |(host, server)| match server {
            Ok(server) => Finding::not_serving(host, server),
            Err(why) => others_answer.then(|| Finding::silent(host, why)),
        })
    }

    /// Reports servers that form no ensemble, although several are named.
    fn alone(&self) -> Option<Finding> {
        let alone = |server: &Server| server.mode.as_deref().filter(|mode| *mode == "standalone").map(drop);
        let alone = self.values(alone);
        let several = self.answered().count() + self.encrypted.len() > 1;
        (several && !alone.is_empty()).then(|| {
            let what = "Mode is standalone there, and --connect names several servers: what is held there is not held \
                        on the others";
            let next = "make one ensemble of them (server.N in their configuration), or name only one of them";
            Finding::error(Problem::Standalone, &named(&alone), what.to_owned(), next.to_owned())
        })
    }

    fn different_times(&self, expected: &Expected<'_>) -> impl Iterator<Item = Finding> {
        let different = |name: &str, value: fn(&Server) -> Option<Duration>, why: &str| {
            let values = self.values(value);
            let first = values.first().map(|(_, value)| *value)?;
            values.iter().any(|(_, value)| *value != first).then(|| {
                let each = values.iter().map(|(host, value)| format!("{host} has {}", format_duration(*value)));
                let each: Vec<String> = each.collect();
                let what = format!("{name} is not the same on all servers ({}): {why}", each.join(", "));
                Finding::warning(
                    Problem::Settings,
                    expected.servers,
                    what,
                    format!("set the same {name} on all servers"),
                )
            })
        };
        let for_sessions = "after a reconnect to another server a session may be granted less, which shortens leases";
        let found = [
            different("tickTime", |server| server.times.tick, "the servers wait for each other for different times"),
            different("minSessionTimeout", |server| server.times.min, for_sessions),
            different("maxSessionTimeout", |server| server.times.max, for_sessions),
        ];
        found.into_iter().flatten()
    }

    fn tick_times(&self, expected: &Expected<'_>) -> Option<Finding> {
        let given = expected.tick;
        let ticks = self.values(|server| server.times.tick);
        let longest = ticks.iter().map(|(_, tick)| *tick).max().filter(|longest| *longest != given)?;
        let others: Vec<_> = ticks.into_iter().filter(|(_, tick)| *tick == longest).collect();
        let (longest, given, path) = (format_duration(longest), format_duration(given), named(&others));
        let is = format!("tickTime is {longest} there, and --tick-time is {given}");
        let next = format!("set --tick-time, and tick_time of all clients, to {longest}");
        Some(if others.iter().any(|(_, tick)| *tick > expected.tick) {
            Finding::error(Problem::Times, &path, format!("{is}: what is held may outlast its session"), next)
        } else {
            Finding::warning(Problem::Times, &path, format!("{is}: leases are shorter than they need to be"), next)
        })
    }

    fn session_timeouts(&self, expected: &Expected<'_>) -> impl Iterator<Item = Finding> {
        let least = self.values(|server| server.times.min.filter(|min| Some(*min) < expected.min));
        let least = least.iter().map(|(_, min)| *min).min().map(|min| (min, named(&least)));
        let below = least.zip(expected.min).map(|((min, path), given)| {
            let (min, given) = (format_duration(min), format_duration(given));
            let what = format!(
                "minSessionTimeout is {min} there, and --min-session-timeout is {given}: what is held may outlast its \
                 session"
            );
            let next = format!("set --min-session-timeout, and min_session_timeout of all clients, to {min} at most");
            Finding::error(Problem::Times, &path, what, next)
        });
        // What the server of this client has granted is reported already.
        let is_told = expected.granted.is_some_and(|granted| granted.as_millis() < expected.asked.as_millis());
        let is_less = |max: &Duration| !is_told && max.as_millis() < expected.asked.as_millis();
        let most = self.values(|server| server.times.max.filter(is_less));
        let above = most.iter().map(|(_, max)| *max).min().map(|max| {
            let (max, asked) = (format_duration(max), format_duration(expected.asked));
            let what = format!(
                "maxSessionTimeout is {max} there, and --session-timeout is {asked}: leases are shorter after a \
                 reconnect"
            );
            let next = format!("set --session-timeout to {max} at most, or raise maxSessionTimeout of the servers");
            Finding::warning(Problem::Times, &named(&most), what, next)
        });
        below.into_iter().chain(above)
    }
}

impl Server {
    async fn ask(host: &Host) -> Result<Server, String> {
        let mut server = Server { is_serving: true, ..Server::default() };
        // The first word shows whether the server answers at all.
        if let Some(text) = server.text("srvr", ask(host, "srvr").await?) {
            let mode = mode(&text).ok_or("it does not answer as a ZooKeeper server does")?;
            server.mode = Some(mode.to_owned());
        }
        if server.is_serving {
            let (conf, wchs) = join(ask(host, "conf"), ask(host, "wchs")).await;
            server.times = server.text_if_any("conf", conf).map(|text| Times::of(&text)).unwrap_or_default();
            server.watches = server.text_if_any("wchs", wchs).and_then(|text| watches(&text));
        }
        Ok(server)
    }

    /// Like [`text`](Self::text). Without an answer to this word, what the server has already answered still counts.
    fn text_if_any(&mut self, word: &'static str, answer: Result<Answer, String>) -> Option<String> {
        let answer = answer.map_err(|why| self.unanswered.push(format!("{word}: {why}"))).ok()?;
        self.text(word, answer)
    }

    /// Returns what was asked for, or remembers why it is missing.
    fn text(&mut self, word: &'static str, answer: Answer) -> Option<String> {
        match answer {
            Answer::Text(text) => return Some(text),
            Answer::NotPermitted => self.refused.push(word),
            Answer::NotServing => self.is_serving = false,
        }
        None
    }
}

impl Finding {
    fn silent(host: &Host, why: &str) -> Finding {
        let what = format!("it does not answer, while another server does: {why}");
        let next = "start it, or look at its log and at the network; if it is no longer a server, remove it from \
                    --connect";
        Finding::warning(Problem::NoAnswer, &host.to_string(), what, next.to_owned())
    }

    fn not_serving(host: &Host, server: &Server) -> Option<Finding> {
        let what = match server.mode.as_deref() {
            _ if !server.is_serving => "it does not serve clients: it is not connected to a quorum of the servers",
            Some("read-only") => "it is in read-only mode: it has lost the other servers, and its data may be old",
            _ => return None,
        };
        let next = "look at its log, and check whether it reaches the other servers at their ports (server.N in its \
                    configuration)";
        Some(Finding::error(Problem::NotServing, &host.to_string(), what.to_owned(), next.to_owned()))
    }

    fn watches(host: &Host, number: u64) -> Option<Finding> {
        let what = format!("it has {number} watches, more than {MANY_WATCHES}: they take up its memory");
        let next = "find the clients that set them: wchc lists them by session, which takes the server a while";
        (number > MANY_WATCHES).then(|| Finding::warning(Problem::Watches, &host.to_string(), what, next.to_owned()))
    }
}

/// Returns words as people list them: `a, b and c`.
fn listed(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Returns the servers, as in a connect string.
fn named<T>(values: &[(&Host, T)]) -> String {
    values.iter().map(|(host, _)| host.to_string()).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::super::finding::Severity;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn expected() -> Expected<'static> {
        Expected { servers: "zk1,zk2", tick: 2 * SECOND, min: None, asked: 10 * SECOND, granted: Some(10 * SECOND) }
    }

    /// A follower with these times in seconds.
    fn server(tick: u64, min: u64, max: u64) -> Server {
        let [tick, min, max] = [tick, min, max].map(|seconds| Some(Duration::from_secs(seconds)));
        Server {
            is_serving: true,
            mode: Some("follower".to_owned()),
            times: Times { tick, min, max },
            ..Server::default()
        }
    }

    fn survey(servers: impl IntoIterator<Item = Result<Server, String>>) -> Survey {
        let host = |number: usize| Host { name: format!("zk{number}"), port: 2181 };
        Survey { servers: (1..).map(host).zip(servers).collect(), ..Survey::default() }
    }

    /// Returns what is reported about these servers: how bad it is, where, and what.
    fn told(servers: impl IntoIterator<Item = Result<Server, String>>, expected: &Expected<'_>) -> Vec<String> {
        let finding = |Finding { severity, path, what, .. }: Finding| format!("{severity} {path} {what}");
        survey(servers).findings(expected).into_iter().map(finding).collect()
    }

    #[track_caller]
    fn assert_told(found: &[String], starts: &[&str]) {
        let all = found.len() == starts.len() && found.iter().zip(starts).all(|(one, start)| one.starts_with(start));
        assert!(all, "{found:#?} instead of {starts:#?}");
    }

    #[test]
    fn servers_that_agree_with_the_options_are_in_order() {
        assert_told(&told([Ok(server(2, 4, 40)), Ok(server(2, 4, 40))], &expected()), &[]);
        let exact = Expected {
            min: Some(4 * SECOND),
            asked: 40 * SECOND + SECOND / 1_000_000,
            granted: Some(40 * SECOND),
            ..expected()
        };
        assert_told(&told([Ok(server(2, 4, 40))], &exact), &[]);
        let unknown = Server { is_serving: true, ..Server::default() };
        assert_told(&told([Ok(unknown), Ok(server(2, 4, 40))], &expected()), &[]);
    }

    #[test]
    fn times_that_differ_between_servers() {
        let found = told([Ok(server(2, 4, 40)), Ok(server(1, 2, 20))], &expected());
        let starts = ["tickTime", "minSessionTimeout", "maxSessionTimeout"];
        let starts = starts.map(|name| format!("warning zk1,zk2 {name} is not the same on all servers (zk1:2181 has "));
        assert_told(&found, &[&*starts[0], &*starts[1], &*starts[2]]);
        assert!(found[0].contains("(zk1:2181 has 2s, zk2:2181 has 1s)"), "{}", found[0]);
    }

    #[test]
    fn a_tick_time_that_is_not_that_of_the_option() {
        let longer = told([Ok(server(3, 6, 60))], &expected());
        assert_told(&longer, &["error zk1:2181 tickTime is 3s there, and --tick-time is 2s: what is held may outlast"]);
        let shorter = told([Ok(server(1, 2, 20)), Ok(server(1, 2, 20))], &expected());
        assert_told(&shorter, &["warning zk1:2181,zk2:2181 tickTime is 1s there, and --tick-time is 2s: leases are"]);
    }

    #[test]
    fn session_timeouts_that_are_not_those_of_the_options() {
        let least = Expected { min: Some(6 * SECOND), ..expected() };
        let found = told([Ok(server(2, 4, 40))], &least);
        assert_told(&found, &["error zk1:2181 minSessionTimeout is 4s there, and --min-session-timeout is 6s: what"]);
        let asked = Expected { asked: 60 * SECOND, granted: Some(60 * SECOND), ..expected() };
        let found = told([Ok(server(2, 4, 40)), Ok(server(2, 4, 40))], &asked);
        let start = "warning zk1:2181,zk2:2181 maxSessionTimeout is 40s there, and --session-timeout is 1m: leases";
        assert_told(&found, &[start]);
        // A shorter timeout of the session itself is a finding of its own.
        assert_told(&told([Ok(server(2, 4, 40))], &Expected { granted: Some(40 * SECOND), ..asked }), &[]);
    }

    #[test]
    fn servers_that_do_not_answer_do_not_serve_or_only_read() {
        let down = Server { is_serving: false, ..Server::default() };
        let read_only = Server { mode: Some("read-only".to_owned()), ..server(2, 4, 40) };
        let found = told([Ok(down), Err("refused".to_owned()), Ok(read_only)], &expected());
        let starts = [
            "error zk1:2181 it does not serve clients",
            "warning zk2:2181 it does not answer, while another server does: refused",
            "error zk3:2181 it is in read-only mode",
        ];
        assert_told(&found, &starts);
        let silent = || Err("refused".to_owned());
        assert_told(&told([silent(), silent()], &expected()), &[]);
        let not_examined = survey([silent(), silent()]).not_examined();
        assert_eq!(not_examined.as_deref(), Some("not examined: the servers themselves (zk1:2181: refused)"));
    }

    #[test]
    fn servers_that_are_alone_although_several_are_named() {
        let alone = || Ok(Server { mode: Some("standalone".to_owned()), ..server(2, 4, 40) });
        assert_told(&told([alone()], &expected()), &[]);
        let found = told([alone(), alone()], &expected());
        assert_told(&found, &["error zk1:2181,zk2:2181 Mode is standalone there, and --connect names several"]);
    }

    #[test]
    fn many_watches_are_told_with_the_threshold() {
        let with = |watches| Ok(Server { watches: Some(watches), ..server(2, 4, 40) });
        assert_told(&told([with(1_000_000)], &expected()), &[]);
        assert_told(
            &told([with(1_000_001)], &expected()),
            &["warning zk1:2181 it has 1000001 watches, more than 1000000"],
        );
    }

    #[tokio::test]
    async fn a_word_without_an_answer_is_told_and_the_others_count() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("its address").port();
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                let mut word = [0; 4];
                connection.read_exact(&mut word).await.expect("a word");
                let answer: &[u8] = match &word {
                    b"srvr" => b"Mode: standalone\n",
                    b"wchs" => b"Total watches:1000001\n",
                    _ => b"",
                };
                connection.write_all(answer).await.expect("it is read");
            }
        });
        let host = Host { name: "127.0.0.1".to_owned(), port };
        let survey = Survey::ask(Hosts { plain: vec![host.clone()], ..Hosts::default() }).await;
        let not_examined = format!("not examined: {host} (conf: it closes the connection without an answer to conf)");
        assert_eq!(survey.not_examined(), Some(not_examined));
        let found = survey.findings(&expected());
        assert!(found.len() == 1 && found[0].what.starts_with("it has 1000001 watches"), "{found:?}");
    }

    #[test]
    fn what_is_not_permitted_is_told_once_for_all_servers() {
        assert_eq!(survey([Ok(server(2, 4, 40))]).not_examined(), None);
        let refusing = |refused: &[&'static str]| Ok(Server { refused: refused.to_vec(), ..server(2, 4, 40) });
        let servers = || [refusing(&["conf", "wchs"]), refusing(&["conf"])];
        let expected_note = "not examined: tick times, session timeouts and watches (permit conf and wchs: \
                             4lw.commands.whitelist on the servers)";
        assert_eq!(survey(servers()).not_examined().as_deref(), Some(expected_note));
        assert_told(&told(servers(), &expected()), &[]);
        let encrypted = vec![Host { name: "zk9".to_owned(), port: 2281 }];
        let encrypted = Survey { encrypted, ..Survey::default() };
        let expected_note = "not examined: zk9:2281 (servers are not asked over TLS)";
        assert_eq!(encrypted.not_examined().as_deref(), Some(expected_note));
        assert!(encrypted.findings(&expected()).iter().all(|finding| finding.severity == Severity::Warning));
    }
}
