//! A cluster-wide maximum throughput, divided among the live members of a cluster by the one that leads.
//!
//! [`allocation`] is the arithmetic: who gets how much of a maximum. It knows no server, so that it can be used and tested by
//! itself.

pub mod allocation;
