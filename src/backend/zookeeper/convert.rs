//! The crate's words and ours.

use zookeeper as zk;

use crate::backend::{Error, Event, Op, OpResult};
use crate::types::{Acl, CreateMode, Permissions, Stat};

/// Sorts an error of the crate. It wraps I/O errors and read timeouts in `Custom`, so that whole variant is a loss;
/// `Timeout` and `NoHosts` come from connecting.
pub(super) fn classify(error: zk::Error) -> Error {
    match error {
        zk::Error::ConnectionLoss
        | zk::Error::Custom(_)
        | zk::Error::Timeout
        | zk::Error::NoHosts
        | zk::Error::SessionMoved => Error::ConnectionLoss,
        zk::Error::SessionExpired | zk::Error::ClientClosed => Error::SessionEnded,
        // What the crate says when its task is gone, and with it the runtime it ran on.
        zk::Error::UnexpectedError(why)
            if why.starts_with("expect error state") || why.ends_with("expect response, but got none") =>
        {
            Error::SessionEnded
        }
        zk::Error::AuthFailed => Error::AuthFailed,
        zk::Error::NoNode => Error::NoNode,
        zk::Error::NodeExists => Error::NodeExists,
        zk::Error::NotEmpty => Error::NotEmpty,
        zk::Error::BadVersion => Error::BadVersion,
        zk::Error::NoAuth => Error::NoAuth,
        zk::Error::NoChildrenForEphemerals => Error::NoChildrenForEphemerals,
        zk::Error::InvalidAcl => Error::InvalidAcl,
        zk::Error::QuotaExceeded => Error::QuotaExceeded,
        zk::Error::Throttled => Error::Throttled,
        zk::Error::Unimplemented => Error::Unimplemented,
        zk::Error::BadArguments(why) => Error::BadArguments((*why).to_owned()),
        other => Error::Other(other.to_string()),
    }
}

/// Sorts an error of opening a session. The crate tries other hosts on any loss until there are none left, so a `Custom`
/// error comes from before the first attempt: the options of TLS.
pub(super) fn classify_open(error: zk::Error) -> Error {
    match error {
        zk::Error::Custom(_) => Error::BadArguments(error.to_string()),
        error => classify(error),
    }
}

pub(super) fn event(event: zk::EventType) -> Event {
    match event {
        zk::EventType::NodeCreated => Event::NodeCreated,
        zk::EventType::NodeDeleted => Event::NodeDeleted,
        zk::EventType::NodeDataChanged => Event::NodeDataChanged,
        zk::EventType::NodeChildrenChanged => Event::NodeChildrenChanged,
        zk::EventType::Session => Event::SessionEnded,
    }
}

pub(super) fn stat(stat: &zk::Stat) -> Stat {
    Stat {
        czxid: stat.czxid,
        mzxid: stat.mzxid,
        pzxid: stat.pzxid,
        ctime: stat.ctime,
        mtime: stat.mtime,
        version: stat.version,
        cversion: stat.cversion,
        aversion: stat.aversion,
        ephemeral_owner: stat.ephemeral_owner,
        data_length: stat.data_length,
        num_children: stat.num_children,
    }
}

pub(super) fn create_mode(mode: CreateMode) -> zk::CreateMode {
    match mode {
        CreateMode::Persistent => zk::CreateMode::Persistent,
        CreateMode::PersistentSequential => zk::CreateMode::PersistentSequential,
        CreateMode::Ephemeral => zk::CreateMode::Ephemeral,
        CreateMode::EphemeralSequential => zk::CreateMode::EphemeralSequential,
        CreateMode::Container => zk::CreateMode::Container,
    }
}

pub(super) fn acls(acls: &[Acl]) -> Vec<zk::Acl> {
    acls.iter().map(|acl| zk::Acl::new(permission(acl.permissions), zk::AuthId::new(&acl.scheme, &acl.id))).collect()
}

fn permission(permissions: Permissions) -> zk::Permission {
    let crate_permissions = [
        zk::Permission::READ,
        zk::Permission::WRITE,
        zk::Permission::CREATE,
        zk::Permission::DELETE,
        zk::Permission::ADMIN,
    ];
    Permissions::EACH
        .into_iter()
        .zip(crate_permissions)
        .filter(|(ours, _)| permissions.contains(*ours))
        .fold(zk::Permission::NONE, |sum, (_, theirs)| sum | theirs)
}

pub(super) fn add_op(writer: &mut zk::MultiWriter<'_>, op: &Op) -> Result<(), zk::Error> {
    match op {
        Op::Check { path, version } => writer.add_check_version(path, version.unwrap_or(-1)),
        Op::Create { path, data, mode, acls: list } => {
            let list = acls(list);
            writer.add_create(path, data, &create_mode(*mode).with_acls(zk::Acls::new(&list)))
        }
        Op::SetData { path, data, version } => writer.add_set_data(path, data, *version),
        Op::Delete { path, version } => writer.add_delete(path, *version),
    }
}

pub(super) fn op_result(result: zk::MultiWriteResult) -> Result<OpResult, Error> {
    Ok(match result {
        zk::MultiWriteResult::Check => OpResult::Check,
        zk::MultiWriteResult::Delete => OpResult::Delete,
        zk::MultiWriteResult::Create { path, .. } => OpResult::Create { path },
        zk::MultiWriteResult::SetData { stat: changed } => OpResult::SetData { stat: stat(&changed) },
        other => {
            return Err(Error::Other(format!("an unknown result of a transaction: {other:?}")));
        }
    })
}
