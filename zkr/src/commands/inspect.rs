//! Who holds and who waits, and who waits for whom in a circle.

use serde::Serialize;
use zookeeper_recipes::inspect::{self, Line, Place, Role};
use zookeeper_recipes::{Client, ErrorKind, mutex};

use super::addresses::{Addresses, WithAddresses, from};
use super::{failed, not_inspected, owners};
use crate::connection::Connection;
use crate::ending::{Ending, Status};
use crate::output::{Output, note};

/// A node that was marked.
#[derive(Serialize)]
struct Revoked<'a> {
    revoked: &'a str,
    /// What the owner had written into it.
    owner: &'a str,
}

/// Shows the line at a path, with the addresses of its sessions if they are asked for.
pub async fn line(
    client: &Client,
    connection: &Connection,
    output: Output,
    path: &str,
    addresses: bool,
) -> Result<Ending, Ending> {
    let line = inspect::line(client, path).await.map_err(|error| not_inspected(&error))?;
    let addresses = if addresses { Some(Addresses::ask(connection).await?) } else { None };
    let sessions = owners::of_line(&line).map(|owner| owner.session_id);
    let value = WithAddresses::new(&line, addresses.as_ref(), sessions);
    output.print(text(&line, addresses.as_ref()), &value).await?;
    addresses.iter().for_each(Addresses::note_silent);
    if line.places.is_empty() && line.others.iter().any(|name| name == "leases") {
        note(format_args!("{path} is a semaphore: zkr inspect {path} shows its permits"));
    }
    Ok(Ending::Success)
}

/// Returns a line as text, with the addresses of its sessions.
fn text(line: &Line, addresses: Option<&Addresses>) -> String {
    let text = line.to_string();
    let places = line.places.iter().map(|place| format!("\n  {}", with_address(place, addresses)));
    text.lines().take(1).map(str::to_owned).chain(places).collect()
}

fn with_address(place: &Place, addresses: Option<&Addresses>) -> String {
    let text = place.to_string();
    let Some((owner, id)) = place.owner.as_ref().zip(place.session_id()) else { return text };
    // The owner comes last, and its text begins with the session.
    let (owner, session) = (owner.to_string(), format!("session {id:#x}"));
    match (text.strip_suffix(&owner), owner.strip_prefix(&session)) {
        (Some(start), Some(rest)) => format!("{start}{session}{}{rest}", from(addresses, id)),
        _ => text,
    }
}

/// Asks the owner of a node to release its lock.
pub async fn revoke(client: &Client, output: Output, node: &str) -> Result<Ending, Ending> {
    check_is_revocable(node).map_err(Ending::failed)?;
    // `mutex::revoke` succeeds even if the node is missing.
    let (data, _) = match client.get(node).await {
        Err(error) if error.kind() == ErrorKind::NoNode => {
            let why = format!("{node} does not exist: it was released, or the path is wrong (see zkr lock ls)");
            return Err(Ending::because(Status::No, why));
        }
        found => found.map_err(|error| failed(error.kind(), error))?,
    };
    check_holds(client, node).await?;
    mutex::revoke(client, node).await.map_err(|error| failed(error.kind(), error))?;
    // The data before the mark replaced it.
    let owner = String::from_utf8_lossy(&data);
    let name = if owner.is_empty() { String::new() } else { format!(", {owner:?},") };
    let text = format_args!("{node}: its owner{name} is asked to release it");
    output.print(text, &Revoked { revoked: node, owner: &owner }).await?;
    Ok(Ending::Success)
}

/// Checks that the node does not wait: otherwise its owner would be asked to release as soon as it holds.
async fn check_holds(client: &Client, node: &str) -> Result<(), Ending> {
    let dir = node.rsplit_once('/').map_or("/", |(dir, _)| if dir.is_empty() { "/" } else { dir });
    let line = inspect::line(client, dir).await.map_err(|error| not_inspected(&error))?;
    let waits = |place: &&Place| place.path == node && !place.holds();
    match line.places.iter().find(waits) {
        None => Ok(()),
        Some(_) => {
            Err(Ending::because(Status::No, format_args!("{node} waits: it holds nothing that it could release")))
        }
    }
}

/// Checks that the owner knows the mark, which replaces the data of the node: only owners of locks do.
fn check_is_revocable(node: &str) -> Result<(), String> {
    let why = match Role::of(node.rsplit('/').next().unwrap_or(node)) {
        Some(Role::Lock | Role::Reader | Role::Writer) => return Ok(()),
        Some(Role::Candidate) => "a candidate of an election ignores the mark",
        Some(Role::KazooLock) => "kazoo's locks do not know the mark",
        _ => "it is not the node of a lock; zkr lock ls shows the nodes of one",
    };
    Err(format!("{node} cannot be revoked: {why}"))
}

/// Finds the sessions that wait for each other.
pub async fn deadlocks(client: &Client, output: Output, path: &str) -> Result<Ending, Ending> {
    let deadlocks = inspect::deadlocks(client, path).await.map_err(|error| not_inspected(&error))?;
    if deadlocks.denied.iter().any(|denied| denied == path) {
        return Err(Ending::failed(format_args!("{path} is not readable; check its ACL and --auth")));
    }
    output.print(&deadlocks, &deadlocks).await?;
    match deadlocks.found[..] {
        [] => Ok(Ending::Success),
        _ => Ok(Ending::Status(Status::No, None)),
    }
}

#[cfg(test)]
mod tests {
    use zookeeper_recipes::CreateMode;
    use zookeeper_recipes::testing::TestingServer;

    use super::super::addresses::tests::addresses;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_line_with_the_addresses_of_its_sessions() {
        let server = TestingServer::start();
        let client = server.client().await.expect("a client");
        let session = client.session_id().expect("a session");
        client.create_containers("/l").await.expect("it is created");
        let data = format!("session {session:#x}, token");
        for (name, mode) in
            [("/l/lock-", CreateMode::EphemeralSequential), ("/l/lock-", CreateMode::PersistentSequential)]
        {
            client.create(name, data.as_str(), mode).await.expect("it is created");
        }
        let line = inspect::line(&client, "/l").await.expect("the line");
        let addresses = addresses(&[(session, "10.0.0.7:40512"), (0, "10.0.0.8:1")]);
        assert_eq!(text(&line, None), line.to_string());
        let expected = line.to_string().replacen(
            &format!("session {session:#x}, token"),
            &format!("session {session:#x} from 10.0.0.7:40512, token"),
            1,
        );
        assert_eq!(text(&line, Some(&addresses)), expected);
        assert!(expected.contains("holds (lock), session") && expected.contains("no session, token"), "{expected}");
    }

    #[test]
    fn only_nodes_of_locks_are_marked() {
        for node in ["/l/_c_x-lock-0000000001", "/l/__READ__0000000001", "/l/__WRIT__0000000001"] {
            assert_eq!(check_is_revocable(node), Ok(()), "{node}");
        }
        for (node, why) in [
            ("/l/latch-0000000001", "candidate"),
            ("/l/x__lock__0000000001", "kazoo"),
            ("/l/queue-0000000001", "not the node of a lock"),
            ("/l", "not the node of a lock"),
        ] {
            let error = check_is_revocable(node).expect_err(node);
            assert!(error.starts_with(node) && error.contains(why), "{error}");
        }
    }
}
