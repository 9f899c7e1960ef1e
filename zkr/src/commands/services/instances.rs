//! The instances of one service.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::Value;
use zookeeper_recipes::Client;
use zookeeper_recipes::service_discovery::{Change, Instance, Instances, ServiceType};

use super::{QUIET, below, read, why_unreadable};
use crate::commands::check_exists;
use crate::ending::Ending;
use crate::output::{Output, note, shown, table};

/// The year 10000, since 1970.
const END_OF_TIME: Duration = Duration::from_secs(253_402_300_800);

/// A service, as it was read.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct State {
    path: String,
    instances: Vec<Row>,
    unreadable: Vec<Unreadable>,
}

/// An instance.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Row {
    /// The name of the node, which differs from the id if the node is sequential.
    node: String,
    id: String,
    address: Option<String>,
    port: Option<u16>,
    ssl_port: Option<u16>,
    uri: Option<String>,
    enabled: bool,
    service_type: ServiceType,
    /// `None` if the instance does not say it.
    registered: Option<String>,
    #[serde(skip)]
    registration_time: SystemTime,
    payload: Option<Value>,
    payload_class: Option<String>,
}

/// A node that cannot be read.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Unreadable {
    node: String,
    why: String,
}

/// A service, and when it was read.
#[derive(Serialize)]
struct Seen<'a> {
    time: &'a str,
    #[serde(flatten)]
    state: &'a State,
}

/// Prints a table of the instances.
pub async fn show(client: &Client, output: Output, path: &str, name: &str) -> Result<Ending, Ending> {
    check_exists(client, &below(path, name)).await?;
    let service = read(client, path, name).await?;
    let state = State::of(service.path(), &service.instances());
    output.print(state.table(SystemTime::now()), &state).await?;
    Ok(Ending::Success)
}

/// Prints a line now and at each change, until the client is closed.
pub async fn watch(client: &Client, output: Output, path: &str, name: &str) -> Result<Ending, Ending> {
    check_exists(client, &below(path, name)).await?;
    let service = read(client, path, name).await?;
    let mut changes = service.changes();
    let mut printed = None;
    loop {
        let state = State::of(service.path(), &service.instances());
        if printed.as_ref() != Some(&state) {
            let time = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
            output.print(state.line(&time), &Seen { time: &time, state: &state }).await?;
            printed = Some(state);
        }
        match changes.next().await {
            None => return Ok(Ending::Success),
            Some(Change::Failed(error)) => note(error),
            Some(_) => tokio::time::sleep(QUIET).await,
        }
        // The next look covers all changes that have arrived meanwhile.
        while let Some(Some(_)) = futures::FutureExt::now_or_never(changes.next()) {}
    }
}

impl State {
    fn of(path: &str, instances: &Instances<Value>) -> State {
        let unreadable = instances
            .unreadable()
            .map(|node| Unreadable { node: node.name().to_owned(), why: why_unreadable(node) })
            .collect();
        State { path: path.to_owned(), instances: instances.iter().map(|one| Row::of(&one)).collect(), unreadable }
    }

    /// Returns a table with a row for each instance, and a line below it for each node that cannot be read.
    fn table(&self, now: SystemTime) -> String {
        let with_nodes = self.instances.iter().any(|row| row.node != row.id);
        let with_payloads = self.instances.iter().any(|row| row.payload.is_some());
        let mut head = ["ID", "ADDRESS", "PORT", "TLS PORT", "ENABLED", "TYPE", "REGISTERED", "AGE"].to_vec();
        if with_nodes {
            head.insert(1, "NODE");
        }
        let head = head.into_iter().map(str::to_owned).collect();
        let rows: Vec<_> =
            std::iter::once(head).chain(self.instances.iter().map(|row| row.cells(now, with_nodes))).collect();
        // The last column is not aligned to the right: a payload may be long.
        let payloads = self.instances.iter().map(|row| row.payload.as_ref().map_or("-".to_owned(), Value::to_string));
        let payloads = std::iter::once("PAYLOAD".to_owned()).chain(payloads);
        let of_instances = table(&rows);
        let lines = of_instances.lines().zip(payloads).map(|(line, payload)| match with_payloads {
            true => format!("{line}  {}", shown(&payload)),
            false => line.to_owned(),
        });
        let unreadable = self.unreadable.iter().map(|node| format!("unreadable: {}: {}", shown(&node.node), node.why));
        lines.chain(unreadable).collect::<Vec<_>>().join("\n")
    }

    /// Returns the whole state on one line.
    fn line(&self, time: &str) -> String {
        let unreadable = self.unreadable.iter().map(|node| format!("{} (unreadable)", shown(&node.node)));
        let all: Vec<_> = self.instances.iter().map(Row::on_a_line).chain(unreadable).collect();
        match all[..] {
            [] => format!("{time} no instances"),
            _ => format!("{time} {}", all.join(", ")),
        }
    }
}

impl Row {
    fn of(instance: &Instance<Value>) -> Row {
        let registration_time = instance.registration_time();
        Row {
            node: instance.path().rsplit('/').next().unwrap_or_default().to_owned(),
            id: instance.id().to_owned(),
            address: instance.address().map(str::to_owned),
            port: instance.port(),
            ssl_port: instance.ssl_port(),
            uri: instance.uri(),
            enabled: instance.is_enabled(),
            service_type: instance.service_type(),
            registered: text_of(registration_time),
            registration_time,
            payload: instance.payload().cloned(),
            payload_class: instance.payload_class().map(str::to_owned),
        }
    }

    fn cells(&self, now: SystemTime, with_node: bool) -> Vec<String> {
        let or_none = |text: Option<String>| text.map_or_else(|| "-".to_owned(), |text| shown(&text));
        let mut cells = vec![
            shown(&self.id),
            or_none(self.address.clone()),
            or_none(self.port.map(|port| port.to_string())),
            or_none(self.ssl_port.map(|port| port.to_string())),
            if self.enabled { "yes" } else { "no" }.to_owned(),
            self.service_type.to_string().to_lowercase(),
            or_none(self.registered.clone()),
            self.registered.as_ref().map_or_else(|| "-".to_owned(), |_| age(now, self.registration_time)),
        ];
        if with_node {
            cells.insert(1, shown(&self.node));
        }
        cells
    }

    fn on_a_line(&self) -> String {
        let port = self.port.or(self.ssl_port).map_or_else(String::new, |port| format!(":{port}"));
        let place = format!("{}{port}", self.address.as_deref().unwrap_or_default());
        let disabled = if self.enabled { "" } else { " (disabled)" };
        shown(&format!("{} {place}{disabled}", self.id))
    }
}

/// Returns a time as text. `None` for one that an instance has only if it does not say it, or in another unit: before
/// 1970, or after 9999.
fn text_of(time: SystemTime) -> Option<String> {
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    (Duration::ZERO < since && since < END_OF_TIME).then(|| humantime::format_rfc3339_seconds(time).to_string())
}

/// Returns how long ago that was, by the clocks of two machines: to the minute after an hour, to the hour after a day.
fn age(now: SystemTime, then: SystemTime) -> String {
    let seconds = now.duration_since(then).unwrap_or_default().as_secs();
    let unit = match seconds {
        0..3_600 => 1,
        3_600..86_400 => 60,
        _ => 3_600,
    };
    humantime::format_duration(Duration::from_secs(seconds / unit * unit)).to_string()
}

#[cfg(test)]
mod tests {
    use zookeeper_recipes::CreateMode;
    use zookeeper_recipes::testing::TestingServer;

    use super::*;

    #[test]
    fn a_time_that_no_instance_can_have_is_not_shown() {
        let at = |seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).and_then(text_of);
        assert_eq!(at(1).as_deref(), Some("1970-01-01T00:00:01Z"));
        assert_eq!(at(253_402_300_799).as_deref(), Some("9999-12-31T23:59:59Z"));
        let before = UNIX_EPOCH - Duration::from_millis(1);
        assert_eq!((at(0), at(253_402_300_800), text_of(before)), (None, None, None));
    }

    async fn state(nodes: &[(&str, &str)]) -> State {
        let server = TestingServer::start();
        let client = server.client().await.expect("a client");
        client.create_containers("/s/web").await.expect("it is created");
        for (node, data) in nodes {
            client.create(&format!("/s/web/{node}"), *data, CreateMode::Persistent).await.expect("it is created");
        }
        let service = read(&client, "/s", "web").await.expect("it can be read");
        State::of(service.path(), &service.instances())
    }

    /// Half a day after 2026-01-01.
    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_767_225_600 + 43_200)
    }

    #[tokio::test(start_paused = true)]
    async fn the_table_has_a_row_for_each_instance_and_a_line_for_each_unreadable_node() {
        let full = concat!(
            r#"{"name":"web","id":"a","address":"10.0.0.1","port":80,"sslPort":443,"payload":{"zone": 1},"#,
            r#""registrationTimeUTC":1767225600000,"serviceType":"STATIC","enabled":false}"#
        );
        let state = state(&[("a", full), ("b", r#"{"name":"web","id":"b","port":81}"#), ("c", "x")]).await;
        let table = "\
            ID   ADDRESS  PORT  TLS PORT  ENABLED     TYPE            REGISTERED  AGE  PAYLOAD\n\
            a   10.0.0.1    80       443       no   static  2026-01-01T00:00:00Z  12h  {\"zone\":1}\n\
            b          -    81         -      yes  dynamic                     -    -  -\n\
            unreadable: c: expected value at line 1 column 1: \"x\"";
        assert_eq!(state.table(now()), table);
        assert_eq!(state.line("now"), "now a 10.0.0.1:80 (disabled), b :81, c (unreadable)");
        let json = serde_json::to_value(Seen { time: "now", state: &state }).expect("it is a value");
        let first = &json["instances"][0];
        assert_eq!((&first["ssl_port"], &first["payload"]["zone"]), (&443.into(), &1.into()));
        assert_eq!((&first["registered"], &first["enabled"]), (&"2026-01-01T00:00:00Z".into(), &false.into()));
        assert_eq!((&json["time"], &json["unreadable"][0]["node"]), (&"now".into(), &"c".into()));
    }

    #[tokio::test(start_paused = true)]
    async fn the_name_of_a_node_is_shown_if_it_is_not_the_id() {
        let state = state(&[("30000000002", r#"{"name":"web","id":"3","serviceType":"DYNAMIC_SEQUENTIAL"}"#)]).await;
        let table = "\
            ID         NODE  ADDRESS  PORT  TLS PORT  ENABLED                TYPE  REGISTERED  AGE\n\
            3   30000000002        -     -         -      yes  dynamic_sequential           -    -";
        assert_eq!(state.table(now()), table);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_moves_the_cursor() {
        let state = state(&[("a", r#"{"name":"web","id":"\u001b[2J","payload":"\u001b"}"#), ("b", "\u{1b}")]).await;
        let printed = state.table(now()) + &state.line("now");
        assert!(!printed.contains('\u{1b}') && printed.contains("\\u{1b}[2J"), "{printed}");
        assert_eq!(State { instances: Vec::new(), unreadable: Vec::new(), ..state }.line("now"), "now no instances");
    }

    #[test]
    fn an_age_is_as_exact_as_it_is_of_use() {
        let ago = |seconds| age(now(), now() - Duration::from_secs(seconds));
        assert_eq!([0, 61, 3_661, 90_061].map(ago), ["0s", "1m 1s", "1h 1m", "1day 1h"]);
        assert_eq!(age(now(), now() + Duration::from_secs(5)), "0s");
    }
}
