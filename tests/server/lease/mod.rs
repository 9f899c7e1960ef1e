//! The lease of a session, measured on three real servers: whatever happens to a leader, it stops saying that it leads
//! before its node is gone, as seen from outside.
//!
//! Every leader has a client and a session of its own and is asked all the time, from a thread that does nothing else.
//! A witness, connected to servers that the fault does not touch, watches its node and reads it again and again behind
//! a sync. Successors wait in the same elections. All moments are on one clock. A case counts when it is *proven*: when
//! a read that was asked for after the old leader's no still found its node. So a slow machine makes cases unclear, but
//! neither right nor wrong; the test fails when too few are proven, and when a single one is proven wrong.

mod faults;
mod granted;
mod holders;
mod judge;
pub(crate) mod moment;
mod process;
mod round;
mod sampler;
mod table;
mod witness;

use tokio::sync::Mutex;

/// A busy machine proves little: one test at a time.
static ALONE: Mutex<()> = Mutex::const_new(());
