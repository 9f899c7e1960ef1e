//! Requests to resign that participants have not followed yet.

use super::error::Error;
use crate::client::{Client, ErrorKind};
use crate::layout::latch::{asker_of, is_request, participant_of, requests};
use crate::util::path::{join, validate};

/// Returns the paths of the nodes of participants that were asked to resign and have not given up their places yet, in
/// the order of their names. Costs a list and a read of each revocable participant's node of requests.
///
/// ```no_run
/// use zookeeper_recipes::leader_latch;
///
/// # async fn example(
/// #     client: zookeeper_recipes::Client,
/// # ) -> Result<(), leader_latch::Error> {
/// let path = "/my-service/leader";
/// for node in leader_latch::pending_requests(&client, path).await? {
///     println!("{node} is to resign");
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Client`] if the path is malformed, or a request to ZooKeeper failed.
///
/// # Cancel safety
/// Cancel safe: it only reads.
pub async fn pending_requests(client: &Client, path: &str) -> Result<Vec<String>, Error> {
    let failed = |error| Error::client(path, error);
    validate(path).map_err(|error| failed(error.into()))?;
    let dir = requests(path);
    let mut names = match client.children(&dir).await {
        Err(error) if error.kind() == ErrorKind::NoNode => return Ok(Vec::new()),
        names => names.map_err(failed)?,
    };
    names.retain(|name| is_request(name));
    names.sort_unstable();
    let read = client.multi_get(names.iter().map(|name| join(&dir, name))).await.map_err(failed)?;
    let mut pending = Vec::new();
    for (name, read) in names.iter().zip(read) {
        match read {
            Ok((data, _)) if asker_of(&data).is_some() => {
                pending.extend(participant_of(name).map(|node| join(path, node)))
            }
            Ok(_) => {}
            // The participant has left since the list.
            Err(error) if error.kind() == ErrorKind::NoNode => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(pending)
}
