//! `ShareLimiter`, on tokio's paused clock: every time here is exact.

mod closed;
mod lease;
mod model;
mod rates;
#[cfg(feature = "tower")]
mod tower;
mod waiting;
