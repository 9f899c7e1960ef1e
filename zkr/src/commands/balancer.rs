//! Throughput balancers: the members and their shares, and the maximum.

use std::fmt;
use std::time::{Duration, SystemTime};

use clap::Subcommand;
use serde::Serialize;
use zookeeper_recipes::Client;
use zookeeper_recipes::cache::{Cache, Change};
use zookeeper_recipes::throughput_balancer::{
    Error, MAX_THROUGHPUT, MemberInfo, max_throughput, members, set_max_throughput,
};

use super::{check_exists, failed};
use crate::connection::path;
use crate::ending::{Ending, Status};
use crate::output::{Output, note, table};

/// Changes within this time are shown as one: a leader rewrites all shares, or members join together.
const QUIET: Duration = Duration::from_millis(100);
/// How long to wait before reading again after the servers could not be reached.
const PAUSE: Duration = Duration::from_secs(1);

/// What is asked of a balancer.
#[derive(Subcommand, Debug)]
pub enum Balancer {
    /// Show the members with their shares, and the maximum; status 1 if the maximum is invalid
    Show {
        /// The path of the balancer
        #[arg(value_parser = path)]
        path: String,
    },
    /// Set the maximum that the members divide among themselves; it may be set before there are any members
    SetMax {
        /// The path of the balancer
        #[arg(value_parser = path)]
        path: String,
        /// The maximum, in the unit that the members use
        #[arg(value_name = "N", value_parser = clap::value_parser!(u64).range(..=MAX_THROUGHPUT))]
        maximum: u64,
    },
    /// Print a line now and at each change, until Ctrl-C or until the reader of the output closes it
    Watch {
        /// The path of the balancer
        #[arg(value_parser = path)]
        path: String,
    },
}

/// A balancer, as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct State {
    path: String,
    /// `None` if there is none, or if it is invalid.
    maximum: Option<u64>,
    /// Why the maximum is invalid.
    #[serde(skip_serializing_if = "Option::is_none")]
    invalid: Option<String>,
    /// The sum of all shares.
    sum: u64,
    members: Vec<MemberInfo>,
}

/// A balancer, and when it was read.
#[derive(Serialize)]
struct Seen<'a> {
    time: &'a str,
    #[serde(flatten)]
    state: &'a State,
}

/// A maximum that was set.
#[derive(Serialize)]
struct Set<'a> {
    path: &'a str,
    maximum: u64,
    before: Option<u64>,
}

impl Balancer {
    /// Returns whether it changes nothing.
    pub fn only_looks(&self) -> bool {
        !matches!(self, Balancer::SetMax { .. })
    }

    /// Does what was asked.
    pub async fn run(self, client: &Client, output: Output) -> Result<Ending, Ending> {
        match self {
            Balancer::Show { path } => show(client, output, &path).await,
            Balancer::SetMax { path, maximum } => set_max(client, output, &path, maximum).await,
            Balancer::Watch { path } => watch(client, output, &path).await,
        }
    }
}

async fn show(client: &Client, output: Output, path: &str) -> Result<Ending, Ending> {
    check_exists(client, path).await?;
    let state = State::read(client, path).await.map_err(of)?;
    output.print(&state, &state).await?;
    match state.invalid {
        Some(why) => Err(Ending::because(Status::No, why)),
        None => Ok(Ending::Success),
    }
}

async fn set_max(client: &Client, output: Output, path: &str, maximum: u64) -> Result<Ending, Ending> {
    let before = match max_throughput(client, path).await {
        // An invalid maximum is replaced too.
        Err(Error::InvalidMaximum { .. }) => None,
        before => before.map_err(of)?,
    };
    set_max_throughput(client, path, maximum).await.map_err(of)?;
    // This reveals a mistyped path.
    let then = before.map_or_else(|| "there was none".to_owned(), |before| format!("it was {before}"));
    output.print(format_args!("{path}: maximum {maximum}; {then}"), &Set { path, maximum, before }).await?;
    Ok(Ending::Success)
}

async fn watch(client: &Client, output: Output, path: &str) -> Result<Ending, Ending> {
    check_exists(client, path).await?;
    // The cache only shows when to read again. Acknowledgements and the epoch change more often than what is shown.
    let aside = ["ack", "epoch"].map(|name| format!("{path}/{name}"));
    let nodes = Cache::tree(client, path).filter(move |node| !aside.iter().any(|aside| node == aside));
    let nodes = nodes.start().await.map_err(|error| failed(error.kind(), error))?;
    let mut changes = nodes.changes();
    let mut shown = None;
    loop {
        match State::read(client, path).await {
            Ok(state) if shown.as_ref() != Some(&state) => {
                let time = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
                output.print(state.line(&time), &Seen { time: &time, state: &state }).await?;
                shown = Some(state);
            }
            Ok(_) => {}
            Err(error) if error.is_retryable() => {
                note(format_args!("{error}; retrying"));
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            Err(error) => return Err(of(error)),
        }
        match changes.next().await {
            None => return Ok(Ending::Success),
            Some(Change::Failed(error)) => note(error),
            Some(_) => tokio::time::sleep(QUIET).await,
        }
        // The next read covers all changes that have arrived meanwhile.
        while let Some(Some(_)) = futures::FutureExt::now_or_never(changes.next()) {}
    }
}

/// Returns the ending after a request to a balancer has failed.
fn of(error: Error) -> Ending {
    failed(error.kind(), error)
}

impl State {
    async fn read(client: &Client, path: &str) -> Result<State, Error> {
        let members = members(client, path).await?;
        let (maximum, invalid) = match max_throughput(client, path).await {
            Err(error @ Error::InvalidMaximum { .. }) => (None, Some(error.to_string())),
            maximum => (maximum?, None),
        };
        let sum = members.iter().fold(0, |sum: u64, member| sum.saturating_add(member.throughput));
        Ok(State { path: path.to_owned(), maximum, invalid, sum, members })
    }

    fn maximum(&self) -> String {
        match self.maximum {
            Some(maximum) => maximum.to_string(),
            None if self.invalid.is_some() => "invalid".to_owned(),
            None => "none".to_owned(),
        }
    }

    /// Returns the whole state on one line.
    fn line(&self, time: &str) -> String {
        let share = |member: &MemberInfo| {
            let leads = if member.is_leader { "*" } else { "" };
            format!("{}{leads} {}", member.id, member.throughput)
        };
        let shares = match self.members[..] {
            [] => "no members".to_owned(),
            _ => self.members.iter().map(share).collect::<Vec<_>>().join(", "),
        };
        format!("{time} maximum {}, sum {}: {shares}", self.maximum(), self.sum)
    }
}

/// A table of the members, with the sum and the maximum below the shares.
impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = |member: &MemberInfo| {
            let max = member.max.map_or_else(|| "-".to_owned(), |max| max.to_string());
            let leads = if member.is_leader { "yes" } else { "" };
            let [weight, min, share] = [member.weight, member.min, member.throughput].map(|number| number.to_string());
            vec![member.id.clone(), leads.to_owned(), weight, min, max, share]
        };
        let below = |name: &str, value: String| {
            let mut row = vec![String::new(); 6];
            (row[0], row[5]) = (name.to_owned(), value);
            row
        };
        let mut rows = vec![["MEMBER", "LEADS", "WEIGHT", "MIN", "MAX", "SHARE"].map(str::to_owned).to_vec()];
        rows.extend(self.members.iter().map(row));
        rows.extend([below("sum", self.sum.to_string()), below("maximum", self.maximum())]);
        f.write_str(&table(&rows))
    }
}

#[cfg(test)]
mod tests {
    use zookeeper_recipes::CreateMode;
    use zookeeper_recipes::testing::TestingServer;

    use super::*;

    /// A balancer with two members, the second of which leads.
    async fn balancer(maximum: &str) -> (TestingServer, State) {
        let server = TestingServer::start();
        let client = server.client().await.expect("a client");
        for directory in ["client", "leader", "global-config"] {
            client.create_containers(&format!("/b/{directory}")).await.expect("it is created");
        }
        for (node, data) in [
            ("client/client-0000000000", r#"{"id":"a","throughput":600,"weight":2,"min":1}"#),
            ("client/client-0000000001", r#"{"id":"b","throughput":300,"max":300}"#),
            ("leader/x-latch-0000000000", "b"),
            ("global-config/max-throughput", maximum),
        ] {
            client.create(&format!("/b/{node}"), data, CreateMode::Persistent).await.expect("it is created");
        }
        let state = State::read(&client, "/b").await.expect("it can be read");
        (server, state)
    }

    #[tokio::test(start_paused = true)]
    async fn the_table_has_a_row_a_member_and_the_sum() {
        let (_server, state) = balancer("1000").await;
        let table = "\
            MEMBER             LEADS  WEIGHT  MIN  MAX  SHARE\n\
            client-0000000000              2    1    -    600\n\
            client-0000000001    yes       1    0  300    300\n\
            sum                                           900\n\
            maximum                                      1000";
        assert_eq!(state.to_string(), table);
        let line = "now maximum 1000, sum 900: client-0000000000 600, client-0000000001* 300";
        assert_eq!(state.line("now"), line);
        let json = serde_json::to_value(Seen { time: "now", state: &state }).expect("it is a value");
        assert_eq!(
            (&json["time"], &json["sum"], &json["members"][1]["is_leader"]),
            (&"now".into(), &900.into(), &true.into())
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_invalid_maximum_does_not_hide_the_members() {
        let (_server, state) = balancer("many").await;
        assert_eq!((state.maximum, state.members.len(), state.maximum()), (None, 2, "invalid".to_owned()));
        assert!(state.invalid.is_some_and(|why| why.contains("is not a number")));
    }
}
