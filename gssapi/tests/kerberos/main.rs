//! Kerberos with real KDCs and real ZooKeeper servers, in containers.

mod authentication;
mod fixture;
mod kdc;
mod realm;
mod refusals;
mod servers;
mod support;
mod tickets;
