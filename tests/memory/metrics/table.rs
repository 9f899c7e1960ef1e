//! The table of the metrics: it is documented, it follows the rules of Prometheus, and all of it is told.

use std::collections::BTreeSet;
use std::fmt::Write;

use zookeeper_recipes::metrics::{Aggregate, METRICS, Metric, MetricKind, MetricUnit};

use super::*;

/// The table in the documentation.
const DOCUMENTED: &str = include_str!("../../../src/metrics/table.md");

fn documentation() -> String {
    let mut table = "| metric | kind | labels | of several processes | what |\n|---|---|---|---|---|\n".to_owned();
    for metric in METRICS {
        let kind = match metric.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
            other => panic!("{other:?}"),
        };
        let aggregate = match metric.aggregate {
            Aggregate::Sum => "sum",
            Aggregate::Max => "max",
            Aggregate::Min => "min",
            other => panic!("{other:?}"),
        };
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, labels, help) = (metric.name, labels.join(", "), metric.help);
        writeln!(table, "| `{name}` | {kind} | {labels} | {aggregate} | {help} |").expect("a text");
    }
    table
}

#[test]
fn the_documentation_has_the_table() {
    let table = documentation();
    assert!(DOCUMENTED == table, "src/metrics/table.md must be:\n{table}");
}

#[test]
fn names_and_buckets_are_as_prometheus_asks_for() {
    let names: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), METRICS.len(), "each name once");
    for metric in METRICS {
        let name = metric.name;
        assert!(name.starts_with("zookeeper_recipes_"), "{name}");
        assert!(name.chars().all(|char| char.is_ascii_lowercase() || char == '_'), "{name}");
        assert_eq!(name.ends_with("_total"), metric.kind == MetricKind::Counter, "{name}");
        assert_eq!(name.ends_with("_seconds"), metric.unit == MetricUnit::Seconds, "{name}");
        assert_eq!(metric.buckets.is_empty(), metric.kind != MetricKind::Histogram, "{name}");
        assert!(metric.buckets.is_sorted_by(|one, next| one < next), "{name}: {:?}", metric.buckets);
        assert!(metric.help.ends_with('.'), "{name}: {}", metric.help);
        let none = ["node", "session", "id", "host", "message"];
        assert!(metric.labels.iter().all(|label| !none.contains(label)), "{name}: without an end: {:?}", metric.labels);
    }
}

#[test]
fn the_alerts_are_on_metrics_and_labels_of_the_table() {
    let alerts = include_str!("../../../docs/prometheus-alerts.yml");
    let mut found = 0;
    for (at, _) in alerts.match_indices("zookeeper_recipes_") {
        let end = alerts[at..].find(|char: char| !char.is_ascii_lowercase() && char != '_').expect("an end");
        let name = &alerts[at..at + end];
        let is_it = |metric: &&&Metric| {
            let part = |part| metric.kind == MetricKind::Histogram && name.strip_suffix(part) == Some(metric.name);
            metric.name == name || part("_bucket") || part("_count") || part("_sum")
        };
        let metric = METRICS.iter().find(is_it).unwrap_or_else(|| panic!("{name} is no metric"));
        if let Some(selector) = alerts[at + end..].strip_prefix('{') {
            let selector = selector.split('}').next().expect("a selector");
            for matcher in selector.split(',').filter(|matcher| !matcher.contains("job=")) {
                let label = matcher.split(['=', '!']).next().expect("a label");
                assert!(metric.labels.contains(&label), "{name} has no {label}");
            }
        }
        found += 1;
    }
    assert!(found > 15, "{found}");
}

/// A metric that nothing tells is a promise that is not kept.
#[tokio::test(start_paused = true)]
async fn all_of_it_is_told_and_described() {
    let exporter = Exporter::install();
    let server = TestingServer::start();
    let clients = [client(&server).await, client(&server).await];
    let one = &clients[0];
    let locks = clients.each_ref().map(|client| InterProcessMutex::new(client, "/lock").expect("a path"));
    let guard = locks[0].acquire().await.expect("held");
    let other = tokio::spawn(async move { locks[1].acquire().await.expect("held") });
    tokio::time::sleep(SOON).await;
    guard.release().await.expect("released");
    within("it is its turn", SOON, other).await.expect("no panic").release().await.expect("released");
    one.get("/nothing").await.expect_err("there is no node");
    let queue = DistributedQueue::builder(one, "/queue", Utf8).build().expect("built");
    queue.producer().put("a".to_owned()).await.expect("put");
    let delivery = within("an item", SOON, queue.consumer().take()).await.expect("an item");
    delivery.ack().await.expect("acked");
    let _cache = within("it is there", SOON, Cache::tree(one, "/queue").start()).await.expect("a cache");
    let discovery = ServiceDiscovery::<()>::new(one, "/services").expect("a good path");
    let _api = within("it is looked for", SOON, discovery.service("api").start()).await.expect("a service");
    set_max_throughput(one, "/balancer", 10).await.expect("set");
    let member = ThroughputBalancer::builder(one, "/balancer").join().await.expect("it joins");
    within("it has its share", SOON * 30, server.until(|| member.throughput() == 10)).await;
    let assigner = PartitionAssigner::builder(one, "/partitions").partitions(0..2).join().await.expect("it joins");
    within("it holds them", SOON * 30, server.until(|| assigner.assigned().len() == 2)).await;
    tokio::time::sleep(T).await;
    one.add_listener(|_| async { panic!("as this test wants") });
    drop(member);
    server.expire_session(one);
    within("it is back", T * 3, server.until(|| one.connection_state() == ConnectionState::Reconnected)).await;
    let scrape = exporter.scrape();
    let told: BTreeSet<&str> = scrape.names().into_iter().collect();
    for metric in METRICS {
        assert!(told.contains(metric.name), "{} is not told", metric.name);
        assert_eq!(scrape.help(metric.name), Some(metric.help));
    }
}
