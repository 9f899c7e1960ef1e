//! The recipe `ThroughputBalancer` on an ensemble in memory: every failure, at every step, under a paused clock.
#![cfg(feature = "throughput-balancer")]

mod in_memory;

/// One idea a file; `scene` holds what they share.
mod throughput_balancer_in_memory {
    mod churn;
    mod cost;
    mod hands;
    #[cfg(feature = "limiter")]
    mod limited;
    mod maximum;
    mod scene;
    mod table;
    mod transition;
}
