//! The metrics of clients and recipes, through the facade of the crate [`metrics`](https://docs.rs/metrics).
//!
//! Any recorder of that facade receives them. Install it before the first client connects: metrics that are registered
//! earlier are lost. [`describe`] registers what each metric means. Without a recorder they cost little; without the
//! feature `metrics` they cost only a few reads of the clock. With Prometheus:
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
//! limit. With the exporter's feature `http-listener`, `exporter.install()` does both. The example `metrics` in the
//! repository does so, and `docs/grafana-dashboard.json` is a dashboard made from this table.
//!
//! A recorder may call the client and its recipes. If it panics, the panic is logged and has no other effect.
//!
//! # The metrics
//!
#![doc = include_str!("table.md")]
//!
//! All values are of one process. Several clients, and several recipes at one path, add up, except in `queue_items`,
//! `queue_claimed_items`, and the gauges of caches and services: these show what any of them saw last. The fourth
//! column says how to combine the values of several processes: what only a leader reports (`balancer_maximum` and the
//! like) is 0 in all others.
//!
//! What has ended is no longer reported: a gauge to which several contribute goes down; the others show no number (NaN)
//! once the last of their sources has ended. Counters that an operator must watch (a lost session, a lost lock, a dead
//! letter) are exported as 0 before anything happens: Prometheus sees no change in a counter that first appears with an
//! event. A wait, a hold and a term are recorded when they end; `lock_waiters`, `locks_held` and `leaders` count those
//! that have not ended.
//!
//! # The labels
//!
//! No label contains the name of a node, a session or the text of an error, so the number of values is bounded:
//!
//! | label | values |
//! |---|---|
//! | `path` | the path of the recipe, or its template (see below), in the client's namespace |
//! | `recipe` | `mutex`, `read_lock`, `write_lock`, `semaphore`; `leader_latch`, `leader_selector` |
//! | `state` | of a client: `connected`, `suspended`, `lost`; of a change also `reconnected` |
//! | `reason` | why a session ended: `expired`, `given_up`, `replaced`, `refused`, `closed` |
//! | `operation` | `create`, `delete`, `read`, `watch`, `write`, `list`, `multi`, `sync`, `heartbeat` |
//! | `error` | of a request: the error of the connection or the servers, such as `connection_loss`, `no_node` |
//! | `kind` | an [`ErrorKind`](crate::ErrorKind), such as `connection_loss`, `no_auth` |
//! | `member` | the id that the user gave to a member of a balancer; empty without one |
//! | `outcome` of a wait | `acquired`, `busy` (not available in time), `failed`, `dropped` |
//! | `outcome` of a delivery | `acked`, `returned`, `dead_letter`, `lost`, `unknown`, `failed` |
//! | `end` of a hold | `released`, `lost` |
//! | `end` of a term | of a latch `suspended`, `waiting` (its lease was not proven), `lost`, `failed`, `closed` |
//! | | of a selector `returned`, `failed`, `panicked`, `lost`, `interrupted` |
//!
//! A service with one path per order would have as many values of `path` as orders. Name the template of such paths:
//! see [`ClientBuilder::metric_paths`](crate::ClientBuilder::metric_paths). For paths that match no template, each
//! metric of a client keeps the first hundred and labels all others `other`. No alert should rely on `other`.

#[cfg(feature = "metrics")]
mod describe;
#[cfg(feature = "metrics")]
mod meter;
mod paths;
#[cfg(feature = "metrics")]
mod reading;
#[cfg(feature = "metrics")]
mod recorder;
pub(crate) mod table;
#[cfg(not(feature = "metrics"))]
mod unrecorded;

#[cfg(feature = "metrics")]
pub use self::describe::describe;
pub(crate) use self::paths::Paths;
pub(crate) use self::table::Label;
pub use self::table::{Aggregate, METRICS, Metric, MetricKind, MetricUnit};
#[cfg(not(feature = "metrics"))]
pub(crate) use self::unrecorded::{Level, Meter, Reading};
#[cfg(feature = "metrics")]
pub(crate) use self::{
    meter::{Level, Meter},
    reading::Reading,
};
