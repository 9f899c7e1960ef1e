//! Who holds and who waits.

use zookeeper_recipes::{Client, inspect};

use crate::ending::Ending;
use crate::output::Output;

/// Shows the line at a path.
pub async fn line(client: &Client, output: Output, path: &str) -> Result<Ending, Ending> {
    let line = inspect::line(client, path).await.map_err(|error| Ending::of(&error))?;
    output.print(&line, &line)?;
    Ok(Ending::Success)
}
