//! What is written, byte for byte, and what other programs write.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use zookeeper_recipes::CreateMode;
use zookeeper_recipes::service_discovery::{ServiceDiscovery, ServiceInstance, ServiceType};

use super::fixture::{API, BASE, described, setup};

fn text(data: Option<Vec<u8>>) -> String {
    String::from_utf8(data.expect("it is there")).expect("it is text")
}

#[tokio::test(start_paused = true)]
async fn an_instance_is_written_as_curator_writes_it() {
    let (server, [(_, first), _]) = setup().await;
    let spec = "{scheme}://{address}:{port}".parse().expect("a good spec");
    let described = described("1").ssl_port(443).uri_spec(spec).build().expect("good");
    let registration = first.register(described).await.expect("registered");
    let expected = concat!(
        r#"{"name":"api","id":"1","address":"10.0.0.1","port":80,"sslPort":443,"payload":"1","#,
        r#""registrationTimeUTC":1795690773844,"serviceType":"DYNAMIC","uriSpec":{"parts":["#,
        r#"{"value":"scheme","variable":true},{"value":"://","variable":false},{"value":"address","variable":true},"#,
        r#"{"value":":","variable":false},{"value":"port","variable":true}]}}"#
    );
    assert_eq!(text(server.get(&format!("{API}/1"))), expected);
    registration.set_enabled(false).await.expect("written");
    let disabled = format!(r#"{},"enabled":false}}"#, expected.strip_suffix('}').expect("it ends so"));
    assert_eq!(text(server.get(&format!("{API}/1"))), disabled);
    registration.set_enabled(true).await.expect("written");
    assert_eq!(text(server.get(&format!("{API}/1"))), expected);
}

/// As Curator with `compatibleSerializationMode(false)`.
#[tokio::test(start_paused = true)]
async fn enabled_is_always_written_on_request() {
    let (server, [(client, _), _]) = setup().await;
    let discovery = ServiceDiscovery::builder(&client, BASE).always_write_enabled().build().expect("a good path");
    let registration = discovery.register(described("1").build().expect("good")).await.expect("registered");
    let ends_with = |field: &str| text(server.get(&format!("{API}/1"))).ends_with(field);
    assert!(ends_with(r#""uriSpec":null,"enabled":true}"#));
    registration.set_enabled(false).await.expect("written");
    assert!(ends_with(r#""uriSpec":null,"enabled":false}"#));
    registration.update(described("1").build().expect("good")).await.expect("updated");
    assert!(ends_with(r#""uriSpec":null,"enabled":true}"#));
    let api = discovery.service("api").start().await.expect("a service");
    assert_eq!(*api.next().expect("it is found"), described("1").build().expect("good"));
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Details {
    zone: String,
}

#[tokio::test(start_paused = true)]
async fn a_payload_has_the_java_class_that_the_user_names() {
    let (server, [(client, _), _]) = setup().await;
    let discovery = ServiceDiscovery::<Details>::new(&client, BASE).expect("a good path");
    let builder = || ServiceInstance::builder("api").id("1").payload(Details { zone: "a".into() });
    let described = builder().payload_class("com.example.Details").build().expect("good");
    let _registration = discovery.register(described.clone()).await.expect("registered");
    let written: Value = serde_json::from_str(&text(server.get(&format!("{API}/1")))).expect("JSON");
    assert_eq!(written["payload"], json!({ "@class": "com.example.Details", "zone": "a" }));
    let api = discovery.service("api").start().await.expect("a service");
    let found = api.next().expect("it can be read, though the type knows no @class");
    assert_eq!(found.payload_class(), Some("com.example.Details"));
    assert_eq!((found.payload(), &*found), (Some(&Details { zone: "a".into() }), &described));
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "@class")]
enum Tagged {
    #[serde(rename = "com.example.Near")]
    Near { zone: String },
    #[serde(rename = "com.example.Far")]
    Far,
}

#[tokio::test(start_paused = true)]
async fn a_payload_may_choose_its_type_by_the_java_class() {
    let (_server, [(client, _), _]) = setup().await;
    let discovery = ServiceDiscovery::<Tagged>::new(&client, BASE).expect("a good path");
    let mut registrations = Vec::new();
    for (id, payload) in [("1", Tagged::Near { zone: "a".into() }), ("2", Tagged::Far)] {
        let described = ServiceInstance::builder("api").id(id).payload(payload).build().expect("good");
        registrations.push(discovery.register(described).await.expect("registered"));
    }
    let found = discovery.service("api").start().await.expect("a service").instances();
    assert_eq!(found.unreadable().count(), 0);
    let payloads: Vec<_> = found.iter().filter_map(|instance| instance.payload().cloned()).collect();
    assert_eq!(payloads, [Tagged::Near { zone: "a".into() }, Tagged::Far]);
    assert_eq!(found.get("2").expect("it is there").payload_class(), Some("com.example.Far"));
}

/// Both attempts to read it are told: one of them names the class.
#[tokio::test(start_paused = true)]
async fn an_unknown_class_is_named_in_the_error() {
    let (server, [(client, _), _]) = setup().await;
    client.create_containers(API).await.expect("created");
    let nodes = [
        (r#"{"@class":"org.example.Unknown","zone":"a"}"#, "unknown variant `org.example.Unknown`"),
        (r#"["java.util.ArrayList",[1]]"#, "as the class java.util.ArrayList: "),
    ];
    for (at, (payload, _)) in nodes.iter().enumerate() {
        let data = format!(r#"{{"name":"api","id":"{at}","payload":{payload}}}"#);
        server.create_by_hand(&format!("{API}/{at}"), data, CreateMode::Persistent).expect("a new node");
    }
    let discovery = ServiceDiscovery::<Tagged>::new(&client, BASE).expect("a good path");
    let found = discovery.service("api").start().await.expect("a service").instances();
    let said: Vec<String> = found.unreadable().map(|node| format!("{:?}", node.content())).collect();
    assert_eq!(said.len(), nodes.len());
    for ((_, why), said) in nodes.iter().zip(said) {
        assert!(said.contains(why), "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_payload_of_an_unknown_java_class_is_read_by_its_fields_and_hides_no_other_instance() {
    let (server, [(client, _), _]) = setup().await;
    client.create_containers(API).await.expect("created");
    for (id, class) in [("1", "com.example.Near"), ("2", "org.example.Unknown")] {
        let payload = json!({ "@class": class, "zone": "a" });
        let data = json!({ "name": "api", "id": id, "payload": payload }).to_string();
        server.create_by_hand(&format!("{API}/{id}"), data, CreateMode::Persistent).expect("a new node");
    }
    let by_class = ServiceDiscovery::<Tagged>::new(&client, BASE).expect("a good path");
    let found = by_class.service("api").start().await.expect("a service").instances();
    assert_eq!((found.len(), found.unreadable().count()), (1, 1));
    assert_eq!(found.get("1").expect("it is known").payload(), Some(&Tagged::Near { zone: "a".into() }));
    let by_fields = ServiceDiscovery::<Details>::new(&client, BASE).expect("a good path");
    let found = by_fields.service("api").start().await.expect("a service").instances();
    let unknown = found.get("2").expect("it has the fields");
    assert_eq!(unknown.payload(), Some(&Details { zone: "a".into() }));
    assert_eq!(unknown.payload_class(), Some("org.example.Unknown"));
}

/// dubbo-go writes six fields; Spring Cloud and Dubbo's Java a payload with a class. Made from the rules of their
/// sources, not recorded.
#[tokio::test(start_paused = true)]
async fn what_others_write_can_be_read() {
    let (server, [(client, _), _]) = setup().await;
    let discovery = ServiceDiscovery::<Value>::new(&client, BASE).expect("a good path");
    client.create_containers(API).await.expect("created");
    let nodes = [
        (
            "dubbo-go",
            r#"{"name":"api","id":"10.0.0.1:20880","address":"10.0.0.1","port":20880,"payload":{"id":"10.0.0.1:20880",
            "name":"api","metadata":{"dubbo.metadata.revision":"1"}},"registrationTimeUTC":7}"#,
        ),
        (
            "spring",
            r#"{"name":"api","id":"b2","address":"host","port":8080,"sslPort":null,"payload":{"@class":
            "org.springframework.cloud.zookeeper.discovery.ZookeeperInstance","id":"application-1","name":"api",
            "metadata":{"instance_status":"UP"}},"registrationTimeUTC":8,"serviceType":"DYNAMIC","uriSpec":{"parts":[
            {"value":"scheme","variable":true},{"value":"://","variable":false},{"value":"address","variable":true},
            {"value":":","variable":false},{"value":"port","variable":true}]}}"#,
        ),
        ("curator", r#"{"name":"api","id":"c","payload":null,"serviceType":"STATIC","enabled":false,"new":1}"#),
    ];
    for (name, data) in nodes {
        server.create_by_hand(&format!("{API}/{name}"), data, CreateMode::Ephemeral).ok();
        client.create(&format!("{API}/{name}"), data, CreateMode::Ephemeral).await.ok();
    }
    let api = discovery.service("api").start().await.expect("a service");
    let found = api.instances();
    assert_eq!((found.len(), found.unreadable().count()), (3, 0), "{found:?}");
    let dubbo = found.get("10.0.0.1:20880").expect("it is there");
    assert_eq!((dubbo.service_type(), dubbo.is_enabled(), dubbo.uri()), (ServiceType::Dynamic, true, None));
    assert_eq!(dubbo.registration_time(), SystemTime::UNIX_EPOCH + Duration::from_millis(7));
    let spring = found.get("b2").expect("it is there");
    assert_eq!(spring.uri().as_deref(), Some("http://host:8080"));
    assert!(spring.payload_class().is_some_and(|class| class.ends_with("ZookeeperInstance")));
    assert_eq!(spring.payload().expect("a payload")["metadata"]["instance_status"], "UP");
    let curator = found.get("c").expect("it is there");
    assert_eq!((curator.service_type(), curator.is_enabled()), (ServiceType::Static, false));
    assert_eq!((curator.payload(), curator.port(), curator.address()), (None, None, None));
    // It is equal to one that was built here, although the node lacks the type, or has a field that is left out here.
    for fields in ["", r#","enabled":true"#, r#","serviceType":"DYNAMIC""#] {
        let data = format!(r#"{{"name":"api","id":"c","registrationTimeUTC":9{fields}}}"#);
        server.set_data_by_hand(&format!("{API}/curator"), data).expect("it is there");
        super::fixture::settle().await;
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(9);
        let built = ServiceInstance::builder("api").id("c").registration_time(time).build().expect("good");
        assert_eq!(*api.instances().get("c").expect("it is there"), built);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_a_node_is_kept() {
    let (server, [(client, _), _]) = setup().await;
    let discovery = ServiceDiscovery::<Details>::new(&client, BASE).expect("a good path");
    client.create_containers(API).await.expect("created");
    let nodes = [
        ("payload", r#"{"name":"api","id":"1","payload":{"zones":1}}"#, "the payload: unknown field `zones`"),
        ("port", r#"{"name":"api","id":"1","port":70000}"#, "70000"),
        ("type", r#"{"name":"api","id":"1","serviceType":"ELASTIC"}"#, "unknown variant `ELASTIC`"),
        ("without", r#"{"name":"api"}"#, "missing field `id`"),
        ("zempty", "", "EOF"),
    ];
    for (name, data, _) in nodes {
        server.create_by_hand(&format!("{API}/{name}"), data, CreateMode::Persistent).expect("a new node");
    }
    let api = discovery.service("api").start().await.expect("a service");
    let found = api.instances();
    assert!(found.is_empty());
    let said: Vec<String> = found.unreadable().map(|node| format!("{:?}", node.content())).collect();
    assert_eq!(said.len(), nodes.len());
    for ((name, _, why), said) in nodes.iter().zip(said) {
        assert!(said.contains(why), "{name}: {said}");
    }
}

/// `TestJsonInstanceSerializer.testPayloadAsList` of Curator: Jackson writes the class before most other values.
#[tokio::test(start_paused = true)]
async fn a_list_and_a_long_have_their_java_class_before_them() {
    async fn is_read_and_written<P>(payload: P, class: &str, written: Value)
    where
        P: Serialize + serde::de::DeserializeOwned + Clone + PartialEq + std::fmt::Debug + Send + Sync + 'static,
    {
        let (server, [(client, _), _]) = setup().await;
        let discovery = ServiceDiscovery::<P>::new(&client, BASE).expect("a good path");
        let instance = ServiceInstance::builder("api").id("1").payload(payload.clone()).payload_class(class);
        let _registration = discovery.register(instance.build().expect("good")).await.expect("registered");
        let node: Value = serde_json::from_str(&text(server.get(&format!("{API}/1")))).expect("JSON");
        assert_eq!(node["payload"], written);
        let found = discovery.service("api").start().await.expect("a service").instances();
        let found = found.get("1").expect("it can be read");
        assert_eq!((found.payload(), found.payload_class()), (Some(&payload), Some(class)));
    }
    let list = vec!["Test value 1".to_owned(), "Test value 2".to_owned()];
    let written = json!(["java.util.ArrayList", ["Test value 1", "Test value 2"]]);
    is_read_and_written(list, "java.util.ArrayList", written).await;
    is_read_and_written(7_i64, "java.lang.Long", json!(["java.lang.Long", 7])).await;
    // Also by a type that could take the list as it is.
    is_read_and_written(json!([1]), "java.util.ArrayList", json!(["java.util.ArrayList", [1]])).await;
}

/// A list of two texts may look as if it had a class.
#[tokio::test(start_paused = true)]
async fn a_list_without_a_class_is_read_as_it_is() {
    let (_server, [(client, _), _]) = setup().await;
    let discovery = ServiceDiscovery::<Vec<String>>::new(&client, BASE).expect("a good path");
    let instance = ServiceInstance::builder("api").payload(vec!["a.b".to_owned(), "c".to_owned()]).build();
    let registration = discovery.register(instance.expect("good")).await.expect("registered");
    let found = discovery.service("api").start().await.expect("a service").next().expect("it can be read");
    assert_eq!(*found, registration.instance());
}
