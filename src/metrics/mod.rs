//! What clients and recipes do, as numbers, through the facade of the crate [`metrics`](https://docs.rs/metrics).
//!
//! Any recorder of that facade gets them. Install it before the first client connects: what is registered earlier goes
//! nowhere. [`describe`] tells it what each metric means. Without a recorder they cost little, and without the feature
//! `metrics` no more than some looks at the clock. With Prometheus:
//!
//! ```
//! use metrics_exporter_prometheus::{
//!     BuildError, Matcher, PrometheusBuilder, PrometheusHandle,
//! };
//! use zookeeper_recipes::metrics::{METRICS, MetricKind, describe};
//!
//! fn install() -> Result<PrometheusHandle, BuildError> {
//!     let mut exporter = PrometheusBuilder::new();
//!     for metric in METRICS {
//!         if metric.kind == MetricKind::Histogram {
//!             let name = Matcher::Full(metric.name.to_owned());
//!             exporter = exporter.set_buckets_for_metric(name, metric.buckets)?;
//!         }
//!     }
//!     let handle = exporter.install_recorder()?;
//!     describe();
//!     Ok(handle)
//! }
//! # install().unwrap();
//! ```
//!
//! Serve what `handle.render()` returns, and call `handle.run_upkeep()` every few seconds, or histograms grow without
//! an end. With the exporter's feature `http-listener`, `exporter.install()` does both. The example `metrics` in the
//! repository does so, and `docs/grafana-dashboard.json` is a dashboard that is made from this table.
//!
//! A recorder may ask the client and its recipes. If it panics, that is logged, and nothing else happens.
//!
//! # The metrics
//!
#![doc = include_str!("table.md")]
//!
//! All are those of one process. Several clients, and several recipes at one path, add up, except in `queue_items`,
//! `queue_claimed_items`, `cache_nodes` and `cache_confirmed_timestamp_seconds`: these are what any of them has seen
//! last. The fourth column tells how the values of several processes make one: what only a leader tells
//! (`balancer_maximum` and the like) is 0 in all others.
//!
//! What has ended is told no longer: a gauge that several add up to goes down, the others show no number (NaN) once the
//! last of those has ended that it stands for. What an
//! operator has to know of (a session that is lost, a lock that is lost, a dead letter) is there with 0 before it
//! happens, as Prometheus sees no change in what appears with its first event. A wait, a hold and a term are told when
//! they end; `lock_waiters`, `locks_held` and `leaders` tell of those that have not.
//!
//! # The labels
//!
//! No label has the name of a node, a session or an error's text, so their number is bounded:
//!
//! | label | values |
//! |---|---|
//! | `path` | the path of the recipe, or the template that stands for it (see below), in the client's namespace |
//! | `recipe` | `mutex`, `read_lock`, `write_lock`, `semaphore`; `leader_latch`, `leader_selector` |
//! | `state` | of a client: `connected`, `suspended`, `lost`; of a change also `reconnected` |
//! | `reason` | why a session ended: `expired`, `given_up`, `replaced`, `refused`, `closed` |
//! | `operation` | `create`, `delete`, `read`, `watch`, `write`, `list`, `multi`, `sync`, `heartbeat` |
//! | `error` | of a request: what the connection or the servers said, such as `connection_loss`, `no_node` |
//! | `kind` | an [`ErrorKind`](crate::ErrorKind), such as `connection_loss`, `no_auth` |
//! | `outcome` of a wait | `acquired`, `busy` (its time was over), `failed`, `dropped` |
//! | `outcome` of a delivery | `acked`, `returned`, `dead_letter`, `lost`, `unknown`, `failed` |
//! | `end` of a hold | `released`, `lost` |
//! | `end` of a term | of a latch `suspended`, `waiting` (its lease was not proven), `lost`, `failed`, `closed` |
//! | | of a selector `returned`, `failed`, `panicked`, `lost`, `interrupted` |
//!
//! A service that has a path for each of its orders would have as many values of `path`. Name the template of such
//! paths: see [`ClientBuilder::metric_paths`](crate::ClientBuilder::metric_paths). Of the paths that fit no template,
//! each metric of a client tells the first hundred, and calls all others `other`. Let no alert rely on what is in
//! `other`.

// Without the feature the recipes record into nothing.
#![cfg_attr(not(feature = "metrics"), allow(dead_code, unreachable_pub))]

#[cfg(feature = "metrics")]
mod describe;
mod meter;
#[cfg(feature = "metrics")]
mod paths;
mod reading;
#[cfg(feature = "metrics")]
mod recorder;
pub(crate) mod table;

#[cfg(feature = "metrics")]
pub use self::describe::describe;
#[allow(unused_imports)] // Not every recipe has each kind.
pub(crate) use self::meter::{Label, Level, Meter};
#[cfg(feature = "metrics")]
pub(crate) use self::paths::Paths;
#[allow(unused_imports)]
pub(crate) use self::reading::Reading;
#[cfg(feature = "metrics")]
pub use self::table::{Aggregate, METRICS, Metric, MetricKind, MetricUnit};
