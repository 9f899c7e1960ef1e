//! Runs the engine against a scripted server, on an in-memory byte stream and with a clock that the test moves.

mod closing;
mod configuration;
mod departure;
mod frames;
mod handshake;
mod pacing;
mod question;
mod read_only;
mod reconnecting;
mod requests;
mod sasl;
mod script;
mod silence;
mod srv;
#[cfg(feature = "srv")]
mod srv_lookup;
mod watching;
