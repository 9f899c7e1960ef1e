//! The client on a real server: sessions, states, retries, transactions, and what it says of bad input.

mod crowd;
mod ensemble_tracker;
mod faults;
mod fixture;
mod input;
mod life;
mod outage;
mod plain;
mod read_only;
mod server_list;
mod too_large;
mod unreachable;
