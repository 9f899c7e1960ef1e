//! Asks name servers for SRV records.

use std::io;

use hickory_resolver::TokioResolver;
use hickory_resolver::net::NetError;
use hickory_resolver::proto::rr::RData;

use super::{Endpoint, Record};

/// Asks the name servers of the system's configuration for the SRV records of a name.
pub(crate) async fn lookup(name: String) -> io::Result<Vec<Record>> {
    // Made again each time: the system's configuration may have changed.
    let mut builder = TokioResolver::builder_tokio().map_err(io::Error::other)?;
    // Each pass over the servers is to see the present records.
    builder.options_mut().cache_size = 0;
    lookup_with(&builder.build().map_err(io::Error::other)?, &name).await
}

/// Asks the name servers of this resolver.
pub(crate) async fn lookup_with(resolver: &TokioResolver, name: &str) -> io::Result<Vec<Record>> {
    // With a dot at the end, no search domain is tried: the records of another domain would name other servers.
    let absolute = if name.ends_with('.') { name.to_owned() } else { format!("{name}.") };
    let found = resolver.srv_lookup(absolute).await.map_err(|error| io::Error::other(why(&error)))?;
    let records = found.answers().iter().filter_map(|answer| match &answer.data {
        RData::SRV(srv) => Some(srv),
        _ => None,
    });
    let records = records.filter_map(|srv| {
        let target = srv.target.to_ascii();
        let endpoint = Endpoint::new(target.trim_end_matches('.'), &srv.port.to_string())?;
        Some(Record { endpoint, priority: srv.priority, weight: srv.weight })
    });
    Ok(records.collect())
}

fn why(error: &NetError) -> String {
    if error.is_nx_domain() {
        return "there is no such name".to_owned();
    }
    if error.is_no_records_found() { "it has no SRV records".to_owned() } else { error.to_string() }
}
