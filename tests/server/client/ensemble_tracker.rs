//! A client that follows the servers which the ensemble's configuration names.

use zookeeper::EnsembleUpdate;
use zookeeper_recipes::CreateMode;

use super::fixture::{SOON, builder};
use crate::support::{Ensemble, Observer, Proxy, eventually, four_letter, unique_path};

const CONFIGURATION: &str = "/zookeeper/config";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_reconfig_adds_takes_the_session_when_the_known_one_ends() {
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
    // When its server has caught up, the client's watch is used up: the next one comes with the new configuration.
    Observer::connect(&known.connect_string()).await.sync(CONFIGURATION).await;
    eventually("the client watches the configuration again", SOON, async || {
        let watches = four_letter::watches(known.addr(), session.expect("a session"), CONFIGURATION).await;
        watches.is_ok_and(|watches| watches > 0)
    })
    .await;
    // Answers arrive in order, so the client has received the configuration too.
    client.exists(&path).await.unwrap().expect("its node");
    ensemble.kill(followers[0]).await;
    eventually("the session is taken up through the new address", SOON, async || way.connections() > 0).await;
    eventually("the client is connected", SOON, async || client.connection_state().is_connected()).await;
    assert_eq!(client.session_id(), session);
    assert_eq!(outside.owner(&path).await, session, "its node is still there");
    client.close().await.unwrap();
}
