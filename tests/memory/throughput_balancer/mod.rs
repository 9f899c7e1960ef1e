//! The recipe `ThroughputBalancer` on an ensemble in memory: every failure, at every step, under a paused clock.

mod allocation;
mod boxed;
mod churn;
mod cost;
pub(crate) mod fixture;
mod hands;
mod ids;
#[cfg(feature = "limiter")]
mod limited;
mod maximum;
mod requests;
mod table;
mod too_large;
mod transition;
