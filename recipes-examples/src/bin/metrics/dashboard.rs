//! A dashboard for Grafana, made from the table of the metrics: a panel for each.

use serde_json::{Value, json};
use zookeeper_recipes::metrics::{Aggregate, METRICS, Metric, MetricKind, MetricUnit};

/// The prefix of all names.
const PREFIX: &str = "zookeeper_recipes_";
/// The rows, and the prefixes of the names in each of them.
const ROWS: [(&str, &[&str]); 8] = [
    ("Clients and sessions", &["clients", "connection", "sessions", "background", "request", "lease"]),
    ("Locks and permits", &["lock", "takeover"]),
    ("Leaders", &["election", "leader"]),
    ("Queues", &["queue"]),
    ("Balancers", &["balancer"]),
    ("Partitions", &["partition"]),
    ("Caches", &["cache"]),
    ("Services", &["service"]),
];
/// The panels of a row, and their height; the grid is 24 wide.
const IN_A_ROW: usize = 3;
const HEIGHT: usize = 8;

/// Returns the dashboard, in the format of Grafana 10 and later.
pub(crate) fn dashboard() -> Value {
    let (mut panels, mut y) = (Vec::new(), 0);
    for (title, beginnings) in ROWS {
        panels.push(json!({
            "id": panels.len() + 1,
            "type": "row",
            "title": title,
            "collapsed": false,
            "panels": [],
            "gridPos": { "x": 0, "y": y, "w": 24, "h": 1 }
        }));
        y += 1;
        let is_here = |metric: &&&Metric| beginnings.iter().any(|beginning| short(metric).starts_with(beginning));
        let metrics: Vec<_> = METRICS.iter().filter(is_here).collect();
        for (number, metric) in metrics.iter().enumerate() {
            let (x, down) = (number % IN_A_ROW * 24 / IN_A_ROW, number / IN_A_ROW * HEIGHT);
            panels.push(panel(panels.len() + 1, metric, x, y + down));
        }
        y += metrics.len().div_ceil(IN_A_ROW) * HEIGHT;
    }
    json!({
        "title": "zookeeper-recipes",
        "uid": "zookeeper-recipes",
        "description": "Clients and recipes of zookeeper-recipes: a panel for each metric.",
        "tags": ["zookeeper"],
        "editable": true,
        "schemaVersion": 39,
        "refresh": "30s",
        "time": { "from": "now-1h", "to": "now" },
        "templating": { "list": [
            {
                "name": "datasource",
                "label": "Prometheus",
                "type": "datasource",
                "query": "prometheus"
            },
            variable("job", "Service", "zookeeper_recipes_clients"),
            variable("instance", "Process", "zookeeper_recipes_clients{job=~\"$job\"}"),
            // Services use different recipes, so no single metric has all paths.
            variable("path", "Path", "{__name__=~\"zookeeper_recipes_.+\", job=~\"$job\", path!=\"\"}"),
        ] },
        "panels": panels
    })
}

fn variable(name: &str, label: &str, metric: &str) -> Value {
    json!({
        "name": name,
        "label": label,
        "type": "query",
        "datasource": datasource(),
        "query": { "query": format!("label_values({metric}, {name})"), "refId": name },
        "includeAll": true,
        "multi": true,
        "allValue": ".*",
        "current": { "text": "All", "value": "$__all" },
        "refresh": 2,
        "sort": 1
    })
}

fn datasource() -> Value {
    json!({ "type": "prometheus", "uid": "${datasource}" })
}

fn panel(id: usize, metric: &Metric, x: usize, y: usize) -> Value {
    let (unit, targets) = queries(metric);
    json!({
        "id": id,
        "type": "timeseries",
        "title": title(metric),
        "description": metric.help,
        "datasource": datasource(),
        "gridPos": { "x": x, "y": y, "w": 24 / IN_A_ROW, "h": HEIGHT },
        "fieldConfig": { "defaults": { "unit": unit, "min": 0 }, "overrides": [] },
        "options": { "legend": { "displayMode": "list", "placement": "bottom" }, "tooltip": { "mode": "multi" } },
        "targets": targets
    })
}

/// What a panel shows of a metric.
enum Shown {
    /// How much it grows in a second.
    Rate,
    /// The value, or how long ago it is.
    Value,
    /// The median time, and the worst ones.
    Quantiles,
    /// How many ended within an hour: for what lasts long.
    AnHour,
    /// The fraction of values above one.
    MoreThanOne,
}

impl Shown {
    fn of(metric: &Metric) -> Shown {
        const LONG: f64 = 86_400.0;
        match metric.kind {
            MetricKind::Counter => Shown::Rate,
            MetricKind::Histogram if metric.unit == MetricUnit::Count => Shown::MoreThanOne,
            MetricKind::Histogram if metric.buckets.iter().any(|bound| *bound > LONG) => Shown::AnHour,
            MetricKind::Histogram => Shown::Quantiles,
            _ => Shown::Value,
        }
    }
}

/// Returns the unit of a metric's panel, and what it shows.
fn queries(metric: &Metric) -> (&'static str, Vec<Value>) {
    let has_path = metric.labels.contains(&"path");
    let selector = if has_path {
        r#"job=~"$job", instance=~"$instance", path=~"$path""#
    } else {
        r#"job=~"$job", instance=~"$instance""#
    };
    // It matters which process leads or has trouble; metrics of a path rarely depend on the process.
    let with_instance = !has_path || metric.name.ends_with("_leaders");
    let labels = [if with_instance { &["instance"][..] } else { &[] }, metric.labels].concat();
    let (name, by) = (metric.name, labels.join(", "));
    let legend: Vec<String> = labels.iter().map(|label| format!("{{{{{label}}}}}")).collect();
    let legend = legend.join(" ");
    let aggregate = match metric.aggregate {
        Aggregate::Max => "max",
        Aggregate::Min => "min",
        _ => "sum",
    };
    match Shown::of(metric) {
        Shown::Rate => {
            ("ops", vec![target("A", format!("sum by ({by}) (rate({name}{{{selector}}}[$__rate_interval]))"), &legend)])
        }
        Shown::Value if metric.unit == MetricUnit::Seconds => {
            ("s", vec![target("A", format!("time() - min by ({by}) ({name}{{{selector}}})"), &legend)])
        }
        Shown::Value => ("short", vec![target("A", format!("{aggregate} by ({by}) ({name}{{{selector}}})"), &legend)]),
        Shown::Quantiles => {
            // For values that should be large, the smallest are the worst.
            let (worst, what) = if metric.aggregate == Aggregate::Min { ("0.01", "1 %") } else { ("0.99", "99 %") };
            let quantile = |id, quantile: &str, what: &str| {
                let by = [&["le"][..], &labels].concat().join(", ");
                let rate = format!("sum by ({by}) (rate({name}_bucket{{{selector}}}[$__rate_interval]))");
                target(id, format!("histogram_quantile({quantile}, {rate})"), format!("{legend} {what}").trim_start())
            };
            ("s", vec![quantile("A", "0.5", "median"), quantile("B", worst, what)])
        }
        Shown::AnHour => {
            ("short", vec![target("A", format!("sum by ({by}) (increase({name}_count{{{selector}}}[1h]))"), &legend)])
        }
        Shown::MoreThanOne => {
            let once = format!("sum by ({by}) (rate({name}_bucket{{{selector}, le=\"1\"}}[$__rate_interval]))");
            let all = format!("sum by ({by}) (rate({name}_count{{{selector}}}[$__rate_interval]))");
            ("percentunit", vec![target("A", format!("1 - {once} / {all}"), &legend)])
        }
    }
}

fn target(id: &str, expression: String, legend: &str) -> Value {
    json!({ "refId": id, "expr": expression, "legendFormat": legend, "datasource": datasource() })
}

/// Returns the title of a panel: the name in words, and what is shown of it.
fn title(metric: &Metric) -> String {
    let name = short(metric);
    let (name, shown) = match Shown::of(metric) {
        Shown::Rate => (name.trim_end_matches("_total"), " per second"),
        Shown::Quantiles => (name.trim_end_matches("_seconds"), ""),
        Shown::AnHour => (name.trim_end_matches("_seconds"), "s ended within an hour"),
        Shown::MoreThanOne => (name, ": the part above one"),
        Shown::Value if metric.unit == MetricUnit::Seconds => ("cache_age", ""),
        Shown::Value => (name, ""),
    };
    let words = name.replace('_', " ");
    let mut letters = words.chars();
    letters.next().map_or(String::new(), |first| format!("{}{}{shown}", first.to_uppercase(), letters.as_str()))
}

fn short(metric: &Metric) -> &'static str {
    metric.name.trim_start_matches(PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metric_has_one_panel() {
        let dashboard = dashboard();
        let panels = dashboard["panels"].as_array().expect("a list");
        for metric in METRICS {
            let shows = |panel: &&Value| panel["description"] == metric.help;
            assert_eq!(panels.iter().filter(shows).count(), 1, "{}", metric.name);
        }
        let mut ids: Vec<_> = panels.iter().map(|panel| panel["id"].as_u64()).collect();
        ids.dedup();
        assert_eq!(ids.len(), panels.len());
        assert_eq!(panels.len(), METRICS.len() + ROWS.len());
    }
}
