//! Services: who is registered, and instances that are drained.

use zookeeper_recipes::service_discovery::{ServiceDiscovery, ServiceInstance};

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn services_and_their_instances_are_shown() {
    let fixture = Fixture::new("services").await;
    let path = fixture.path.as_str();
    let missing = fixture.zkr(&["services", "--path", path]).await;
    assert_eq!((missing.status, &*missing.out), (1, ""));
    assert!(missing.err.contains("check the path, --namespace and --connect"), "{}", missing.err);

    let discovery = ServiceDiscovery::new(&fixture.client, path).expect("a good path");
    let instance = ServiceInstance::builder("web").id("a").address("10.0.0.1").port(80).payload(serde_json::json!([1]));
    let registered = discovery.register(instance.build().expect("a good instance")).await.expect("it is registered");
    let other = format!("{path}/web/b");
    fixture.client.create(&other, "10.0.0.2", CreateMode::Persistent).await.expect("it is created");
    let all = fixture.answer(&["services", "--path", path]).await;
    let table =
        "SERVICE  INSTANCES  ENABLED  DISABLED  UNREADABLE\nweb              2        1         0           1\n";
    assert_eq!(all, table);
    let web = fixture.answer(&["services", "web", "--path", path]).await;
    assert!(web.starts_with("ID   ADDRESS  PORT  TLS PORT  ENABLED     TYPE"), "{web}");
    assert!(web.contains("\na   10.0.0.1    80         -      yes  dynamic  ") && web.contains("  [1]\n"), "{web}");
    assert!(web.contains("\nunreadable: b: "), "{web}");
    let values = fixture.values(&["services", "web", "--path", path]).await;
    assert_eq!((&values[0]["instances"][0]["address"], values.len()), (&"10.0.0.1".into(), 1));
    // What it is by default, below a namespace.
    let inside = fixture.zkr(&["services", "--namespace", path]).await;
    assert_eq!((inside.status, inside.err.contains("/services")), (1, true), "{}", inside.err);
    let none = fixture.zkr(&["services", "api", "--path", path]).await;
    assert_eq!((none.status, none.err.contains(&format!("{path}/api"))), (1, true), "{}", none.err);
    registered.unregister().await.expect("it is unregistered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_is_drained_and_undrained_and_keeps_its_other_fields() {
    let fixture = Fixture::new("drain").await;
    let path = fixture.path.as_str();
    let of_curator = concat!(
        r#"{"name":"web","id":"1","address":"10.0.0.1","port":80,"sslPort":null,"#,
        r#""payload":{"@class":"com.acme.Zone","zone":"a"},"registrationTimeUTC":1795690773844,"#,
        r#""serviceType":"DYNAMIC","uriSpec":null,"weight":1.50}"#
    );
    fixture.client.create_containers(&format!("{path}/web")).await.expect("it is created");
    let node = format!("{path}/web/1");
    fixture.client.create(&node, of_curator, CreateMode::Ephemeral).await.expect("it is created");
    let data = async || String::from_utf8(fixture.client.get(&node).await.expect("its data").0).expect("it is text");
    let call = |what, id| ["service", what, "web", id, "--path", path];

    let drained = fixture.answer(&call("drain", "1")).await;
    assert_eq!(drained, format!("{node}: disabled; it was enabled\n"));
    assert_eq!(data().await, of_curator.replace("1.50}", "1.50,\"enabled\":false}"));
    let again = fixture.values(&call("drain", "1")).await;
    assert_eq!(again, [serde_json::json!({ "path": node, "enabled": false, "before": false })]);
    let undrained = fixture.answer(&call("undrain", "1")).await;
    assert_eq!(undrained, format!("{node}: enabled; it was disabled\n"));
    assert_eq!(data().await, of_curator);

    let none = fixture.zkr(&call("drain", "2")).await;
    assert_eq!((none.status, none.err.contains("no such instance")), (1, true), "{}", none.err);
    fixture.client.set(&node, "x", None).await.expect("written");
    let unreadable = fixture.zkr(&call("drain", "1")).await;
    assert_eq!((unreadable.status, unreadable.err.contains("expected value")), (125, true), "{}", unreadable.err);
    assert_eq!(data().await, "x");
    let bad = fixture.zkr(&call("drain", "a/b")).await;
    assert_eq!((bad.status, bad.err.contains("the name of a node")), (125, true), "{}", bad.err);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_changes_of_a_service_are_lines() {
    let fixture = Fixture::new("watched").await;
    let path = fixture.path.as_str();
    let discovery = ServiceDiscovery::<()>::new(&fixture.client, path).expect("a good path");
    let instance = ServiceInstance::builder("web").id("a").address("10.0.0.1").port(80);
    let registered = discovery.register(instance.build().expect("a good instance")).await.expect("it is registered");
    let mut child = fixture.start(&["services", "web", "--path", path, "--watch"]);
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut line = async || within("a line", SOON, lines.next_line()).await.expect("it is text").expect("a line");
    assert!(line().await.ends_with("Z a 10.0.0.1:80"));
    registered.set_enabled(false).await.expect("it is disabled");
    assert!(line().await.ends_with("Z a 10.0.0.1:80 (disabled)"));
    registered.unregister().await.expect("it is unregistered");
    assert!(line().await.ends_with("Z no instances"));
    signal(&child, Signal::SIGINT);
    assert_eq!(ended(child).await.status, 0);
}
