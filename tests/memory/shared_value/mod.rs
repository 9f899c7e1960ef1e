//! SharedValue and SharedCount: reading without a request, and writes that are carried out once.

mod basics;
mod counts;
mod faults;
mod fixture;
mod input;
mod lost_replies;
mod update;
