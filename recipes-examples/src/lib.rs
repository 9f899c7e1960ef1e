//! What all examples share: their options, the stage they play on, and how they end.
//!
//! An example is its options, and a scenario on a [`Stage`]:
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use recipes_examples::{Ensemble, Result, Stage};
//!
//! /// What the example shows.
//! #[derive(clap::Parser, Debug)]
//! struct Options {
//!     #[command(flatten)]
//!     ensemble: Ensemble,
//!     /// The path of the line
//!     #[arg(long, default_value = "/examples/line")]
//!     path: String,
//! }
//!
//! fn main() -> ExitCode {
//!     recipes_examples::main(play)
//! }
//!
//! async fn play(options: Options) -> Result<()> {
//!     let stage = Stage::new(&options.ensemble);
//!     stage.play(scenario(&stage, &options.path)).await
//! }
//!
//! async fn scenario(stage: &Stage, path: &str) -> Result<()> {
//!     let client = stage.connect().await?;
//!     // …
//!     # Ok(())
//! }
//! ```

/// As the one of `std`, but where nobody reads any more (`| head -1`) the example ends quietly, as if asked to.
#[macro_export]
macro_rules! println {
    ($($line:tt)*) => { $crate::print_line(::std::format_args!($($line)*)) };
}

mod ending;
mod stage;

use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use tracing_subscriber::EnvFilter;

pub use self::stage::{Ensemble, Stage};

/// See [`println!`].
///
/// # Panics
/// If the line cannot be written for another reason, as with a full disk.
pub fn print_line(line: std::fmt::Arguments<'_>) {
    match writeln!(std::io::stdout().lock(), "{line}") {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ending::NOBODY_READS.notify_one(),
        outcome => outcome.expect("the standard output can be written"),
    }
}

/// What ends an example.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
/// How a step of an example ends.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// How long [`until`] waits.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Reads the options, plays, and says on the standard error what went wrong; a failure is status 1, bad options are status 2.
pub fn main<O: Parser, F: Future<Output = Result<()>>>(play: impl FnOnce(O) -> F) -> ExitCode {
    tracing_subscriber::fmt().with_env_filter(EnvFilter::from_default_env()).with_writer(std::io::stderr).init();
    let options = O::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let played = runtime.map_err(Error::from).and_then(|runtime| runtime.block_on(play(options)));
    match played {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody may be reading.
            let _ = writeln!(std::io::stderr(), "{}: {error}", O::command().get_name());
            ExitCode::FAILURE
        }
    }
}

/// The outcome of `work`.
///
/// # Errors
/// If there is none within [`PATIENCE`].
pub async fn until<F: Future>(work: F) -> Result<F::Output> {
    tokio::time::timeout(PATIENCE, work).await.map_err(|_| format!("nothing happened for {PATIENCE:?}").into())
}
