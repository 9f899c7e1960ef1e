//! Encryption and authentication on real ZooKeeper servers: TLS, SASL DIGEST-MD5, and `addauth` credentials.

mod digest;
mod fixture;
mod sasl;
mod servers;
mod tls;
