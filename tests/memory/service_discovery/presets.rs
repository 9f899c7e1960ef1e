//! Instances as Spring Cloud and Dubbo register them. Made from the rules of their sources, not recorded.

use serde_json::{Value, json};
use zookeeper_recipes::service_discovery::{ServiceDiscovery, ServiceInstance, ZookeeperInstance};

use super::fixture::{API, BASE, setup};

async fn written(id: &str, instance: ServiceInstance<ZookeeperInstance>) -> Value {
    let (server, [(client, _), _]) = setup().await;
    let discovery = ServiceDiscovery::new(&client, BASE).expect("a good path");
    let _registration = discovery.register(instance.clone()).await.expect("registered");
    let api = discovery.service("api").start().await.expect("a service");
    assert_eq!(*api.next().expect("it can be read"), instance);
    let data = server.get(&format!("{API}/{id}")).expect("it is there");
    serde_json::from_slice(&data).expect("JSON")
}

#[tokio::test(start_paused = true)]
async fn spring_cloud() {
    let builder = ServiceInstance::spring_cloud("api", "host", 8080).id("b2").metadata("zone", "a");
    let written = written("b2", builder.build().expect("good")).await;
    let class = "org.springframework.cloud.zookeeper.discovery.ZookeeperInstance";
    let metadata = json!({ "instance_status": "UP", "zone": "a" });
    assert_eq!(written["payload"], json!({ "@class": class, "id": "api", "name": "api", "metadata": metadata }));
    assert_eq!(
        (&written["address"], &written["port"], &written["sslPort"], &written["serviceType"]),
        (&json!("host"), &json!(8080), &Value::Null, &json!("DYNAMIC"))
    );
    let parts = [("scheme", true), ("://", false), ("address", true), (":", false), ("port", true)];
    let parts = parts.map(|(value, variable)| json!({ "value": value, "variable": variable }));
    assert_eq!(written["uriSpec"], json!({ "parts": parts }));
}

#[tokio::test(start_paused = true)]
async fn dubbo() {
    let builder = ServiceInstance::dubbo("api", "10.0.0.1", 20880).metadata("dubbo.metadata.revision", "1");
    let written = written("10.0.0.1:20880", builder.build().expect("good")).await;
    let class = "org.apache.dubbo.registry.zookeeper.ZookeeperInstance";
    let metadata = json!({ "dubbo.metadata.revision": "1" });
    assert_eq!(written["payload"], json!({ "@class": class, "id": null, "name": "api", "metadata": metadata }));
    assert_eq!((&written["id"], &written["uriSpec"]), (&json!("10.0.0.1:20880"), &Value::Null));
}

#[test]
fn null_is_no_metadata() {
    for (metadata, expected) in [("null", 0), (r#"{"a":null,"b":"1"}"#, 1), ("{}", 0)] {
        let payload = format!(r#"{{"id":null,"name":null,"metadata":{metadata}}}"#);
        let payload: ZookeeperInstance = serde_json::from_str(&payload).expect("it can be read");
        assert_eq!(payload.metadata.len(), expected, "{metadata}");
    }
}

#[test]
fn one_without_a_status_is_up() {
    let with = |status: &str| {
        let builder = ServiceInstance::spring_cloud("api", "host", 1).metadata("instance_status", status);
        builder.build().expect("good").payload().expect("it has one").is_up()
    };
    for (status, is_up) in [("UP", true), ("up", true), ("", true), (" ", true), ("OUT_OF_SERVICE", false)] {
        assert_eq!(with(status), is_up, "{status:?}");
    }
    assert!(ZookeeperInstance::default().is_up());
}
