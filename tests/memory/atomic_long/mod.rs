//! DistributedAtomicLong: each change once, or `OutcomeUnknown`.

mod basics;
mod contention;
mod deleted;
mod faults;
mod fixture;
mod input;
mod lost_replies;
mod requests;
