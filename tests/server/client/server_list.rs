//! Servers that become others while clients hold.

use zookeeper::EnsembleUpdate;
use zookeeper_recipes::mutex::InterProcessMutex;
use zookeeper_recipes::{Client, CreateMode, ErrorPolicy, ServerList};

use super::fixture::{SOON, T, builder};
use crate::support::{Ensemble, Observer, eventually, four_letter, server, unique_path};

/// The addresses of some members.
fn addresses(ensemble: &Ensemble, members: std::ops::Range<usize>) -> String {
    members.map(|i| ensemble.member(i).connect_string()).collect::<Vec<_>>().join(",")
}

/// Returns the member that has the client's connection.
async fn member_of(ensemble: &Ensemble, client: &Client, among: std::ops::Range<usize>) -> Option<usize> {
    let session = client.session_id()?;
    for i in among {
        let connections = four_letter::connections(ensemble.member(i).addr()).await.unwrap_or_default();
        if connections.contains(&session) {
            return Some(i);
        }
    }
    None
}

/// Changes the ensemble's configuration.
async fn reconfigure(outside: &Observer, joinings: &[String], leavings: &[&str]) {
    let joinings: Vec<&str> = joinings.iter().map(String::as_str).collect();
    // The servers that join must have caught up first.
    eventually("the configuration is changed", SOON * 3, async || {
        let (joinings, leavings) = (joinings.clone(), Vec::from(leavings));
        let update = EnsembleUpdate::Incremental { joinings: joinings.into_iter(), leavings: leavings.into_iter() };
        outside.client().update_ensemble(update, None).await.is_ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_servers_become_three_others_while_holders_hold() {
    let settings =
        |_, settings: server::Builder| settings.config("reconfigEnabled=true").jvm_flag("-Dzookeeper.skipACL=yes");
    let mut ensemble = Ensemble::start_with(settings).await;
    let servers = ServerList::new(&addresses(&ensemble, 0..3)).expect("a list");
    let connect = || builder("").server_list(&servers).session_timeout(T * 3).error_policy(ErrorPolicy::Session);
    let mut holders = Vec::new();
    for _ in 0..4 {
        let client = connect().connect().await.expect("connected");
        let guard = InterProcessMutex::new(&client, unique_path("moved")).expect("a path").acquire().await;
        let ephemeral = unique_path("moved-node");
        client.create(&ephemeral, b"", CreateMode::Ephemeral).await.expect("created");
        holders.push((client.session_id(), client, guard.expect("acquired"), ephemeral));
    }
    let outside = Observer::connect(&addresses(&ensemble, 0..3)).await;
    let joinings = ensemble.add(settings).await;
    reconfigure(&outside, &joinings, &[]).await;
    ensemble.wait_for_quorum().await;

    assert!(servers.replace(&addresses(&ensemble, 3..6)).expect("a list"));
    for (session, client, guard, _) in &holders {
        eventually("the session moves to a new server", SOON, async || {
            member_of(&ensemble, client, 3..6).await.is_some()
        })
        .await;
        assert_eq!(client.session_id(), *session);
        assert!(guard.is_held(), "{:?}", client.connection_state());
    }

    let outside = Observer::connect(&addresses(&ensemble, 3..6)).await;
    reconfigure(&outside, &[], &["1", "2", "3"]).await;
    ensemble.remove_first(3);
    ensemble.wait_for_quorum().await;
    for (session, client, guard, ephemeral) in holders {
        eventually("the client is connected", SOON, async || client.connection_state().is_connected()).await;
        assert_eq!(client.session_id(), session);
        assert!(guard.is_held(), "{:?}", client.connection_state());
        assert!(client.exists(&ephemeral).await.expect("a connection").is_some());
        guard.release().await.expect("released");
        client.close().await.expect("closed");
    }
}
