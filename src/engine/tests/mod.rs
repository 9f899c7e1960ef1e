//! The engine against a server that follows a script, on an in-memory byte stream and under a clock that a test moves.

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
