//! What all examples share: their options, the stage they play on, what they print, and how they end.
//!
//! An example is its options and a scenario on a [`Stage`]:
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use recipes_examples::{Ensemble, Example, Result, Stage, Znodes, println};
//!
//! /// What the example shows.
//! #[derive(clap::Parser, Debug)]
//! struct Options {
//!     #[command(flatten)]
//!     ensemble: Ensemble,
//!     /// The path of the lock
//!     #[arg(long, default_value = "/examples/lock", value_parser = recipes_examples::path)]
//!     path: String,
//! }
//!
//! impl Example for Options {
//!     fn ensemble(&self) -> &Ensemble {
//!         &self.ensemble
//!     }
//!
//!     fn znodes(&self) -> Znodes<'_> {
//!         Znodes { path: &self.path, shared_by: None, uses: &[("", "the lock")] }
//!     }
//! }
//!
//! fn main() -> ExitCode {
//!     recipes_examples::main(play)
//! }
//!
//! async fn play(options: Options) -> Result<()> {
//!     let stage = Stage::new(&options.ensemble);
//!     stage.play(scenario(&stage, &stage.own_path(&options.path))).await
//! }
//!
//! async fn scenario(stage: &Stage, path: &str) -> Result<()> {
//!     let client = stage.connect().await?;
//!     println!("A lock at {path}, on {stage}");
//!     // …
//!     # Ok(())
//! }
//! ```

mod ending;
mod options;
mod output;
mod stage;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use tracing_subscriber::EnvFilter;

pub use self::options::{Ensemble, Example, Znodes, name, number, path};
pub use self::output::{count, print_line, tell_connection};
pub use self::stage::{Asked, Stage};

/// The error that ends an example.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
/// The outcome of a step of an example.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// How long [`until`] waits.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Reads the options and plays. A failure is reported on the standard error and ends with status 1; bad options end
/// with status 2.
pub fn main<O: Example, F: Future<Output = Result<()>>>(play: impl FnOnce(O) -> F) -> ExitCode {
    output::start_clock();
    tracing_subscriber::fmt().with_env_filter(EnvFilter::from_default_env()).with_writer(std::io::stderr).init();
    let options = options::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let played = runtime.map_err(Error::from).and_then(|runtime| runtime.block_on(play(options)));
    match played {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The standard error may be closed.
            let _ = writeln!(std::io::stderr(), "{}: {error}", O::command().get_name());
            ExitCode::FAILURE
        }
    }
}

/// Returns the output of `work`.
///
/// # Errors
/// If `work` takes longer than [`PATIENCE`].
pub async fn until<F: Future>(work: F) -> Result<F::Output> {
    tokio::time::timeout(PATIENCE, work).await.map_err(|_| format!("nothing happened for {PATIENCE:?}").into())
}

/// Prints what happens next, and gives a reader time to follow.
pub async fn step(what: &str) {
    println!("\n        {what}");
    tokio::time::sleep(Duration::from_millis(500)).await;
}
