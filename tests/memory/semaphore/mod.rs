//! The recipe `InterProcessSemaphore` on an ensemble in memory.

mod basics;
mod deleted;
mod faults;
mod fixture;
mod input;
mod permission;
mod permits_from;
mod requests;
mod timeouts;
