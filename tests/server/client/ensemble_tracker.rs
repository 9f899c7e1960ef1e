//! A client that follows the servers which the ensemble's configuration names.

use zookeeper::EnsembleUpdate;
use zookeeper_recipes::CreateMode;

use super::fixture::{SOON, builder};
use crate::support::ensemble::Member;
use crate::support::{Ensemble, Observer, Proxy, eventually, four_letter, unique_path};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_session_moves_to_a_server_that_the_configuration_names() {
    let ensemble =
        Ensemble::start_with(|_, settings| settings.config("reconfigEnabled=true").jvm_flag("-Dzookeeper.skipACL=yes"))
            .await;
    let followers = ensemble.followers().await;
    let (known, other) = (ensemble.member(followers[0]), ensemble.member(followers[1]));
    let client = builder(&known.connect_string()).ensemble_tracker(true).connect().await.expect("connected");
    let path = unique_path("followed");
    client.create(&path, b"", CreateMode::Ephemeral).await.unwrap();
    let session = client.session_id();
    // The names of the members mean nothing outside their network: an observer that need not run represents another
    // address of one of them.
    let way = Proxy::start(other.addr()).await;
    let outside = Observer::connect(&other.connect_string()).await;
    let server = format!("server.9=127.0.0.1:2888:3888:observer;{}", way.addr());
    let update =
        EnsembleUpdate::Incremental { joinings: vec![server.as_str()].into_iter(), leavings: vec![].into_iter() };
    let (configuration, _) = outside.client().update_ensemble(update, None).await.expect("a changed configuration");
    assert!(String::from_utf8_lossy(&configuration).contains(&server));
    // The names of the other members cannot be reached from here, and the configuration does not have the address by
    // which the client reaches its server.
    let has_it = async |member: &Member| {
        four_letter::connections(member.addr()).await.is_ok_and(|sessions| sessions.contains(&session.unwrap()))
    };
    eventually("the session moves to the new address", SOON * 4, async || has_it(other).await).await;
    eventually("the old connection is closed", SOON, async || !has_it(known).await).await;
    assert!(way.connections() > 0);
    eventually("the client is connected", SOON, async || client.connection_state().is_connected()).await;
    assert_eq!(client.session_id(), session);
    assert_eq!(outside.owner(&path).await, session, "its node is still there");
    client.close().await.unwrap();
}
