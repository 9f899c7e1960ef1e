//! Drops a future at each of its polls, in a world in memory that also has faults, and checks what the future left
//! behind.
//!
//! A scenario is an async function of a [`Run`]. It prepares something, passes one future to [`Run::cut`], and then
//! checks what must hold, however far the future got; [`sweep`] runs it for every number of polls until the future is
//! over, at several moments between two polls, and once for each fault after each poll. At the end of every run no node
//! and no watch is left, every client still works, and no session outlives its client. An [`Outage`] is a fault that
//! outlasts the call, and the session. A file of scenarios begins with a table of them:
//!
//! ```ignore
//! cases! {
//!     acquire: "InterProcessMutex::acquire", at least 100 drops, 50 faults;
//! }
//!
//! async fn acquire(run: &mut Run) {
//!     run.directory("/lock");
//!     let client = run.client().await;
//!     let mutex = InterProcessMutex::new(&client, "/lock").expect("a good path");
//!     drop(run.cut(mutex.acquire()).await);
//!     mutex.acquire().await.expect("the mutex still works");
//! }
//! ```

mod outage;
mod plan;
mod public;
mod run;
mod steps;
mod sweep;

pub(crate) use outage::Outage;
pub(crate) use public::public_futures;
pub(crate) use run::Run;
pub(crate) use sweep::sweep;

/// The scenarios of a file: each with the public function that it covers, the least number of times that its future
/// must be dropped on the way, and that a fault must strike. Makes a test of each scenario, and the list `COVERED`.
macro_rules! cases {
    ($($scenario:ident: $covers:literal, at least $drops:literal drops, $faults:literal faults;)*) => {
        /// The public functions that the scenarios of this file cover.
        pub(crate) const COVERED: &[&str] = &[$($covers),*];

        mod each {
            $(#[test]
            fn $scenario() {
                let name = concat!(module_path!(), "::", stringify!($scenario));
                crate::harness::sweep(name, $drops, $faults, super::$scenario);
            })*
        }
    };
}
pub(crate) use cases;
