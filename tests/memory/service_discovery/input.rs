//! Input that is refused, and what is said then.

use std::collections::HashMap;
use std::time::Duration;

use zookeeper_recipes::ErrorKind;
use zookeeper_recipes::service_discovery::{DownPolicy, Error, ServiceDiscovery, ServiceInstance, ServiceType};

use super::fixture::{described, instance, register, setup};

#[test]
fn a_bad_instance_is_refused_when_it_is_built() {
    let refused = |built: Result<ServiceInstance<String>, Error>, why: &str| {
        let error = built.expect_err(why);
        assert!(matches!(error, Error::InvalidOption { .. }), "{error:?}");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(why), "{error}");
    };
    for name in ["", "a/b", ".", "..", "a\0"] {
        refused(ServiceInstance::builder(name).build(), &format!("the name {name:?}"));
        refused(ServiceInstance::builder("api").id(name).build(), &format!("the id {name:?}"));
    }
    refused(described("a").port(0).build(), "a port of 0; 1 to 65535");
    refused(described("a").ssl_port(0).build(), "a TLS port of 0; 1 to 65535");
    refused(described("a").address("").build(), "an empty address");
    refused(
        ServiceInstance::builder("api").payload_class("x.Y").build(),
        "the payload class \"x.Y\" without a payload",
    );
    let not_json = ServiceInstance::builder("api").payload(HashMap::from([((1, 2), 3)])).build();
    let error = not_json.expect_err("keys must be text").to_string();
    assert!(error.starts_with("service at \"api\": a payload that cannot be written as JSON"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn bad_paths_names_and_policies_are_refused() {
    let (_server, [(client, first), _]) = setup().await;
    for path in ["", "services", "/services/", "/"] {
        let error = ServiceDiscovery::<()>::new(&client, path).expect_err(path);
        assert_eq!(error.kind(), ErrorKind::InvalidPath, "{path}");
    }
    let error = first.service("a/b").start().await.expect_err("a slash");
    assert!(error.to_string().contains("the name \"a/b\""), "{error}");
    let policy = DownPolicy::default();
    for (policy, why) in [
        (policy.errors(0), "down after 0 errors; 1 to 1000"),
        (policy.errors(1_001), "down after 1001 errors"),
        (policy.pause(Duration::ZERO), "a pause of 0ns"),
        (policy.pause(Duration::MAX), "1ms to 365 days"),
    ] {
        let error = first.service("api").down_policy(policy).start().await.expect_err(why);
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_payload_above_the_limit_is_refused_before_anything_is_sent() {
    let (server, [(client, first), _]) = setup().await;
    let large = described("a").payload("x".repeat(2 << 20)).build().expect("its size is not known to be wrong");
    let before = client.request_counts();
    let error = first.register(large).await.expect_err("too large");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("/services/api/a"), "{error}");
    assert_eq!(client.request_counts().writes, before.writes);
    assert_eq!(server.paths(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_update_keeps_name_id_and_type() {
    let (_server, [(_, first), _]) = setup().await;
    let registration = register(&first, "a").await;
    let others = [
        instance("b"),
        described("a").service_type(ServiceType::Static).build().expect("good"),
        ServiceInstance::builder("other").id("a").build().expect("good"),
    ];
    for other in others {
        let error = registration.update(other).await.expect_err("another one");
        assert!(error.to_string().contains("name, id and type cannot be changed"), "{error}");
    }
    assert_eq!(registration.instance(), instance("a"));
}
