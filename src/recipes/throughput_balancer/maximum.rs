//! The maximum of the whole cluster: what its node may contain, and how it is set.

use std::sync::Arc;

use super::error::Error;
use super::record::MAX_THROUGHPUT;
use crate::client::core::Core;
use crate::client::ops::{MAYBE_DONE, outcome_unknown, write_failed};
use crate::client::session::Session;
use crate::client::{self, Client, ErrorKind, parents};
use crate::engine::{self, Multi, Op};
use crate::layout::throughput_balancer::Paths;
use crate::util::path::{self, quoted_bytes};
use crate::util::znode::{Acl, CreateMode};

/// Parses the data of the node. The error says what is wrong with it.
pub(super) fn parse(data: &[u8]) -> Result<u64, String> {
    let bad =
        |why: &str| Err(format!("{} {why}; must be a whole number from 0 to {MAX_THROUGHPUT}", quoted_bytes(data)));
    let Ok(text) = std::str::from_utf8(data) else { return bad("is not text") };
    let digits = text.trim();
    if digits.is_empty() {
        return bad("is empty");
    }
    if let Some(rest) = digits.strip_prefix('-')
        && rest.bytes().all(|byte| byte.is_ascii_digit())
    {
        return bad("is negative");
    }
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return bad("is not a number");
    }
    match digits.parse::<u64>() {
        Ok(maximum) if maximum <= MAX_THROUGHPUT => Ok(maximum),
        _ => bad("is too large"),
    }
}

/// Sets the maximum that the members of the balancer at `base` divide among themselves.
///
/// This is for operators, who need not be members. The maximum may be set before there are members. The leader applies
/// it at once.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use zookeeper_recipes::Client;
/// use zookeeper_recipes::throughput_balancer::set_max_throughput;
///
/// let client = Client::builder("localhost:2181").connect().await?;
/// set_max_throughput(&client, "/my-service/throughput", 1_000).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Client`]: with [`ErrorKind::InvalidPath`] for a malformed path, with [`ErrorKind::OutcomeUnknown`] if no
/// answer came and no later read shows that the maximum was set, with [`ErrorKind::ConnectionLoss`] if there is no
/// connection in time. [`Error::InvalidOption`] above [`MAX_THROUGHPUT`]. If there are members, creating the maximum
/// also needs permission to write `<base>/epoch`.
///
/// # Cancel safety
/// Once polled, the write is carried out in the background, even if the future is dropped.
pub async fn set_max_throughput(client: &Client, base: &str, maximum: u64) -> Result<(), Error> {
    path::validate(base).map_err(|error| Error::client(base, error.into()))?;
    let paths = Arc::new(Paths::new(base, |path| client.core().full_path(path)));
    set(client.core(), &paths, maximum).await
}

/// Reads the maximum of the balancer at `base`, as the ensemble knows it. Returns `None` if none was set yet.
///
/// This is for operators, who need not be members.
///
/// # Errors
/// [`Error::InvalidMaximum`] if the node contains something else. [`Error::Client`] if the read failed, with
/// [`ErrorKind::InvalidPath`] for a malformed path.
///
/// # Cancel safety
/// Cancel safe: it only reads.
pub async fn max_throughput(client: &Client, base: &str) -> Result<Option<u64>, Error> {
    path::validate(base).map_err(|error| Error::client(base, error.into()))?;
    get(client.core(), &Paths::new(base, |path| client.core().full_path(path))).await
}

pub(super) async fn get(core: &Core, paths: &Paths) -> Result<Option<u64>, Error> {
    let look = |session: &Arc<Session>, _: &str| {
        let (session, at) = (Arc::clone(session), &paths.maximum);
        async move { session.get_data(at).await }
    };
    match core.read("read the maximum of", &paths.base, look).await {
        Ok((data, _)) => match parse(&data) {
            Ok(maximum) => Ok(Some(maximum)),
            Err(why) => Err(Error::InvalidMaximum { path: paths.base.as_str().into(), why }),
        },
        Err(error) if error.kind() == ErrorKind::NoNode => Ok(None),
        Err(error) => Err(Error::client(&paths.base, error)),
    }
}

pub(super) async fn set(core: &Arc<Core>, paths: &Arc<Paths>, maximum: u64) -> Result<(), Error> {
    if maximum > MAX_THROUGHPUT {
        let why = format!("a maximum of {maximum}; at most {MAX_THROUGHPUT} is allowed");
        return Err(Error::invalid(&paths.base, why));
    }
    let (done, outcome) = tokio::sync::oneshot::channel();
    let (core, paths) = (Arc::clone(core), Arc::clone(paths));
    let base = paths.base.clone();
    let runtime = core.runtime.clone();
    runtime.spawn(async move {
        let outcome = write(&core, &paths, maximum).await.map_err(|error| Error::client(&paths.base, error));
        if let Err(Err(error)) = done.send(outcome) {
            tracing::warn!(
                event = "maximum_not_set",
                path = paths.base,
                %error,
                kind = ?error.kind(),
                "a maximum could not be set, and its caller is gone"
            );
        }
    });
    // A task that ended without an outcome ended with its runtime.
    outcome.await.unwrap_or_else(|_| Err(Error::closed(&base)))
}

/// Writes at the version just read, so that after a lost answer a read shows whether the write was carried out.
async fn write(core: &Arc<Core>, paths: &Paths, maximum: u64) -> Result<(), client::Error> {
    const DOING: &str = "set the maximum at";
    let (at, text) = (&paths.maximum, maximum.to_string());
    // `lost_at` is the version at which the answer to a write of ours was lost. `MISSING` stands for a node that does
    // not exist; a node that is created gets the version after it.
    const MISSING: i32 = -1;
    let mut lost_at: Option<i32> = None;
    loop {
        let mut sent_at = None;
        let session = core.session_in_time(DOING, at).await.map_err(|error| match lost_at {
            Some(_) => outcome_unknown(DOING, at),
            None => error,
        })?;
        let Ok(connection) = session.connected().await else { continue };
        let (sync, read) = futures::join!(session.sync(at), session.get_data(at));
        let outcome = match (sync.and(read), lost_at) {
            (Ok((data, stat)), Some(version)) if stat.version != version => {
                if parse(&data) == Ok(maximum) {
                    return Ok(());
                }
                let why = format!("no answer came, and by now it was set to {}", quoted_bytes(&data));
                return Err(client::Error::at(ErrorKind::OutcomeUnknown, DOING, at, why));
            }
            (Ok((_, stat)), _) => {
                // A write whose answer was lost at this version may still be carried out.
                sent_at = Some(stat.version);
                session.set_data(at, text.as_bytes(), Some(stat.version)).await.map(drop)
            }
            (Err(engine::Error::NoNode), _) => {
                let acls = &core.config.acls;
                match parents::create_persistent(&session, &paths.config, acls).await {
                    Ok(()) => {
                        sent_at = Some(MISSING);
                        create(&session, paths, text.as_bytes(), acls).await
                    }
                    Err(error) => Err(error),
                }
            }
            (Err(error), _) => Err(error),
        };
        match outcome {
            Ok(()) => return Ok(()),
            // Another program wrote first: write ours after it.
            Err(engine::Error::BadVersion | engine::Error::NoNode | engine::Error::NodeExists) => lost_at = None,
            Err(error) if error.is_transient() => {
                if error.leaves_outcome_unknown() {
                    lost_at = sent_at.or(lost_at);
                }
                // Waits without a limit: only a read can show whether the write was carried out.
                let _ = session.wait_to_reconnect(connection).await;
            }
            Err(error) if lost_at.is_some() => {
                return Err(client::Error::from_engine(DOING, at, error).outcome_unknown(MAYBE_DONE));
            }
            Err(error) if sent_at.is_some() => return Err(write_failed(DOING, at, error)),
            // Nothing was written: a read failed, or the nodes above could not be created.
            Err(error) => return Err(client::Error::from_engine(DOING, at, error)),
        }
    }
}

/// Creates the node and writes the epoch with it. When a node is deleted and created again, its version starts again at
/// 0, so the version alone does not stop a leader from acting on the previous maximum.
async fn create(session: &Session, paths: &Paths, text: &[u8], acls: &[Acl]) -> Result<(), engine::Error> {
    let create = Op::Create {
        path: paths.maximum.clone(),
        data: text.to_vec(),
        mode: CreateMode::Persistent,
        acls: acls.to_vec(),
    };
    let epoch = Op::SetData { path: paths.epoch.clone(), data: Vec::new(), version: None };
    match session.multi(vec![create, epoch]).await? {
        Multi::Committed(_) => Ok(()),
        // There was no leader yet.
        Multi::Refused { index: 1, error: engine::Error::NoNode } => {
            session.create(&paths.maximum, text, CreateMode::Persistent, acls).await.map(drop)
        }
        Multi::Refused { error, .. } => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_maximum_is_a_whole_number_and_an_error_says_what_is_wrong() {
        assert_eq!(parse(b"1000"), Ok(1000));
        assert_eq!(parse(b" 0\n"), Ok(0));
        assert_eq!(parse(b"9223372036854775807"), Ok(MAX_THROUGHPUT));
        for (data, why) in [
            (&b""[..], "is empty"),
            (b"\xff", "is not text"),
            (b"-5", "is negative"),
            (b"12.5", "is not a number"),
            (b"lots", "is not a number"),
            (b"+1", "is not a number"),
            (b"9223372036854775808", "is too large"),
            (b"99999999999999999999999", "is too large"),
        ] {
            let error = parse(data).expect_err("bad");
            assert!(error.contains(why) && error.contains("9223372036854775807"), "{error}");
        }
    }
}
