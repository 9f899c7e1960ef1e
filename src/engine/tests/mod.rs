//! Runs the engine against a scripted server, on an in-memory byte stream and with a clock that the test moves.

mod closing;
mod configuration;
mod frames;
mod handshake;
mod pacing;
mod question;
mod reconnecting;
mod requests;
mod script;
mod silence;
mod watching;
