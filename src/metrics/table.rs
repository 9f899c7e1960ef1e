//! The names, labels and meanings of all metrics.

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetricKind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// How often each value has occurred.
    Histogram,
}

/// What a metric counts or measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetricUnit {
    /// A number of things: sessions, items, permits.
    Count,
    /// Seconds, with fractions.
    Seconds,
}

/// How to combine the values of several processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Aggregate {
    /// Their sum.
    Sum,
    /// The largest: all see the same, or only one of them reports it and the others report 0.
    Max,
    /// The smallest: the value of the process that is worst off.
    Min,
}

/// A metric: one row of [the table](crate::metrics#the-metrics).
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Metric {
    /// Its name. Those of counters end in `_total`, those in seconds in `_seconds`, as Prometheus asks for.
    pub name: &'static str,
    /// What it is.
    pub kind: MetricKind,
    /// What it counts or measures.
    pub unit: MetricUnit,
    /// How to combine the values of several processes.
    pub aggregate: Aggregate,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it means, in a sentence.
    pub help: &'static str,
    /// Suitable upper bounds for its buckets; empty unless it is a histogram.
    pub buckets: &'static [f64],
}

/// The value of a label.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Label<'a> {
    /// One of a few constants in the code.
    Is(&'static str),
    /// The path of a recipe as its user named it. A template may replace it.
    Path(&'a str),
    /// A value that the user has chosen; empty if there is none.
    Text(&'a str),
}

/// From a request on the same machine to one over a slow network.
const REQUEST: &[f64] = &[0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0];
/// From one request to a long wait for others.
const WAIT: &[f64] = &[0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0, 3600.0];
/// Up to the longest lease that servers grant by default.
const LEASE: &[f64] = &[0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0];
/// From minutes to months.
const TERM: &[f64] = &[1.0, 10.0, 60.0, 600.0, 3600.0, 21_600.0, 86_400.0, 604_800.0, 2_592_000.0];
const ATTEMPTS: &[f64] = &[1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0];

const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    let (kind, unit, aggregate) = (MetricKind::Counter, MetricUnit::Count, Aggregate::Sum);
    Metric { name, kind, unit, aggregate, labels, help, buckets: &[] }
}

const fn gauge(
    name: &'static str,
    labels: &'static [&'static str],
    aggregate: Aggregate,
    help: &'static str,
) -> Metric {
    let (kind, unit) = (MetricKind::Gauge, MetricUnit::Count);
    Metric { name, kind, unit, aggregate, labels, help, buckets: &[] }
}

const fn seconds(
    name: &'static str,
    labels: &'static [&'static str],
    buckets: &'static [f64],
    help: &'static str,
) -> Metric {
    let (kind, unit, aggregate) = (MetricKind::Histogram, MetricUnit::Seconds, Aggregate::Sum);
    Metric { name, kind, unit, aggregate, labels, help, buckets }
}

/// Defines the metrics, and the list of all.
macro_rules! metrics {
    ($($name:ident = $metric:expr;)*) => {
        $(pub(crate) static $name: Metric = $metric;)*

        /// All metrics, in the order of [the table](crate::metrics#the-metrics).
        pub static METRICS: &[&Metric] = &[$(&$name),*];
    };
}

metrics! {
    CLIENTS = gauge(
        "zookeeper_recipes_clients",
        &["state"],
        Aggregate::Sum,
        "Clients whose connection is in this state.",
    );
    STATE_CHANGES = counter(
        "zookeeper_recipes_connection_state_changes_total",
        &["state"],
        "Changes of a client's connection to this state.",
    );
    SESSIONS_ENDED = counter(
        "zookeeper_recipes_sessions_ended_total",
        &["reason"],
        "Sessions that have ended, for this reason.",
    );
    BACKGROUND_ERRORS = counter(
        "zookeeper_recipes_background_errors_total",
        &["kind"],
        "Errors that no caller awaits, as in `Client::last_error`.",
    );
    REQUEST_DURATION = seconds(
        "zookeeper_recipes_request_duration_seconds",
        &["operation"],
        REQUEST,
        "From handing over a request to its answer, even if that is an error. Abandoned requests are not recorded.",
    );
    REQUEST_ERRORS = counter(
        "zookeeper_recipes_request_errors_total",
        &["operation", "error"],
        "Requests that ended in this error. A refused transaction is an answer and does not count as an error.",
    );
    LEASE_MARGIN = Metric {
        name: "zookeeper_recipes_lease_margin_seconds",
        kind: MetricKind::Histogram,
        unit: MetricUnit::Seconds,
        aggregate: Aggregate::Min,
        labels: &[],
        help: "What was left of the lease when a heartbeat was sent to extend it. At 0 all that is held is lost.",
        buckets: LEASE,
    };
    LOCK_WAITERS = gauge(
        "zookeeper_recipes_lock_waiters",
        &["recipe", "path"],
        Aggregate::Sum,
        "Calls that wait to acquire a lock or a permit.",
    );
    LOCK_WAIT = seconds(
        "zookeeper_recipes_lock_wait_seconds",
        &["recipe", "path", "outcome"],
        WAIT,
        "How long a call to acquire took.",
    );
    LOCK_HOLD = seconds(
        "zookeeper_recipes_lock_hold_seconds",
        &["recipe", "path", "end"],
        WAIT,
        "From acquiring a lock or a permit until its guard was released or dropped, even if it was lost before that.",
    );
    LOCKS_HELD = gauge(
        "zookeeper_recipes_locks_held",
        &["recipe", "path"],
        Aggregate::Sum,
        "Locks and permits whose guards exist.",
    );
    TAKEOVER = seconds(
        "zookeeper_recipes_takeover_seconds",
        &["path"],
        REQUEST,
        "From the event that the node ahead in line is gone until this contender holds.",
    );
    PARTICIPANTS = gauge(
        "zookeeper_recipes_election_participants",
        &["recipe", "path"],
        Aggregate::Sum,
        "Participants in an election, whether they lead or not.",
    );
    LEADERS = gauge(
        "zookeeper_recipes_leaders",
        &["recipe", "path"],
        Aggregate::Sum,
        "Participants that lead.",
    );
    LEADER_TERM = seconds(
        "zookeeper_recipes_leader_term_seconds",
        &["recipe", "path", "end"],
        TERM,
        "How long a term lasted, recorded at its end.",
    );
    LEADER_TERMS = counter(
        "zookeeper_recipes_leader_terms_total",
        &["recipe", "path"],
        "Terms that have begun: changes of the leader to this process.",
    );
    QUEUE_ITEMS = gauge(
        "zookeeper_recipes_queue_items",
        &["path"],
        Aggregate::Max,
        "Items in the queue, claimed ones too, as a consumer saw it last.",
    );
    QUEUE_CLAIMED = gauge(
        "zookeeper_recipes_queue_claimed_items",
        &["path"],
        Aggregate::Max,
        "Items that any consumer has claimed, as a consumer saw it last.",
    );
    QUEUE_PUTS = counter(
        "zookeeper_recipes_queue_puts_total",
        &["path"],
        "Nodes put into the queue; one for all items of a `put_many`.",
    );
    QUEUE_DELIVERY = seconds(
        "zookeeper_recipes_queue_delivery_seconds",
        &["path", "outcome"],
        WAIT,
        "From claiming an item until it was settled.",
    );
    QUEUE_ATTEMPTS = Metric {
        name: "zookeeper_recipes_queue_delivery_attempts",
        kind: MetricKind::Histogram,
        unit: MetricUnit::Count,
        aggregate: Aggregate::Sum,
        labels: &["path"],
        help: "The number of the delivery, for each item that was claimed: 1 for the first.",
        buckets: ATTEMPTS,
    };
    BALANCER_SHARE = gauge(
        "zookeeper_recipes_balancer_share",
        &["path", "member"],
        Aggregate::Sum,
        "What the members in this process may apply together.",
    );
    BALANCER_MAXIMUM = gauge(
        "zookeeper_recipes_balancer_maximum",
        &["path"],
        Aggregate::Max,
        "The maximum in force; reported by the leader.",
    );
    BALANCER_APPLIED = gauge(
        "zookeeper_recipes_balancer_applied",
        &["path"],
        Aggregate::Max,
        "What all members may be applying together; reported by the leader.",
    );
    BALANCER_MEMBERS = gauge(
        "zookeeper_recipes_balancer_members",
        &["path"],
        Aggregate::Max,
        "How many members there are; reported by the leader.",
    );
    BALANCER_DECISIONS = counter(
        "zookeeper_recipes_balancer_decisions_total",
        &["path"],
        "How often a leader has written changed shares.",
    );
    PARTITIONS_HELD = gauge(
        "zookeeper_recipes_partitions_held",
        &["path"],
        Aggregate::Sum,
        "Partitions that the members in this process hold.",
    );
    PARTITIONS_UNOWNED = gauge(
        "zookeeper_recipes_partitions_unowned",
        &["path"],
        Aggregate::Max,
        "Partitions that no member holds; reported by the leader.",
    );
    PARTITIONS_MOVING = gauge(
        "zookeeper_recipes_partitions_moving",
        &["path"],
        Aggregate::Max,
        "Partitions that a member holds and another is to get; reported by the leader.",
    );
    PARTITION_MEMBERS = gauge(
        "zookeeper_recipes_partition_members",
        &["path"],
        Aggregate::Max,
        "How many members are present; reported by the leader.",
    );
    PARTITIONS_MOVED = counter(
        "zookeeper_recipes_partitions_moved_total",
        &["path"],
        "How often a leader has assigned a partition to a member.",
    );
    PARTITION_UNOWNED = seconds(
        "zookeeper_recipes_partition_unowned_seconds",
        &["path"],
        WAIT,
        "How long a partition was held by no member, until it was held again, as its leader saw it.",
    );
    CACHE_NODES = gauge(
        "zookeeper_recipes_cache_nodes",
        &["path"],
        Aggregate::Max,
        "Nodes in the latest snapshot.",
    );
    CACHE_UNREADABLE = gauge(
        "zookeeper_recipes_cache_unreadable",
        &["path"],
        Aggregate::Max,
        "Reads and lists of nodes that fail. Each is retried within ten minutes.",
    );
    CACHE_CONFIRMED = Metric {
        name: "zookeeper_recipes_cache_confirmed_timestamp_seconds",
        kind: MetricKind::Gauge,
        unit: MetricUnit::Seconds,
        aggregate: Aggregate::Min,
        labels: &["path"],
        help: "The time as of which the ensemble confirmed the snapshot, since 1970. Its age is the time since then.",
        buckets: &[],
    };
    CACHE_RESYNC = seconds(
        "zookeeper_recipes_cache_resync_seconds",
        &["path"],
        WAIT,
        "How long it took to compare everything with the servers, at the beginning and after each reconnect.",
    );
    SERVICE_INSTANCES = gauge(
        "zookeeper_recipes_service_instances",
        &["path"],
        Aggregate::Max,
        "Instances of a service that are registered and can be read.",
    );
    SERVICE_AVAILABLE = gauge(
        "zookeeper_recipes_service_available_instances",
        &["path"],
        Aggregate::Min,
        "Instances that are enabled and not down. At 0, callers choose among the others.",
    );
    SERVICE_DOWN = gauge(
        "zookeeper_recipes_service_down_instances",
        &["path"],
        Aggregate::Max,
        "Instances that are down, as their callers have reported errors.",
    );
    SERVICE_UNREADABLE = gauge(
        "zookeeper_recipes_service_unreadable_instances",
        &["path"],
        Aggregate::Max,
        "Nodes of a service that cannot be read or decoded.",
    );
    SERVICE_ERRORS = counter(
        "zookeeper_recipes_service_errors_total",
        &["path"],
        "Errors of calls to instances, as reported with `report_error`.",
    );
}
