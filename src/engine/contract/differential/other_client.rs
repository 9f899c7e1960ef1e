//! The crate `zookeeper-client`, which shares no code with the engine. It sends a request when its reply is first
//! polled.

use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, TryFutureExt};
use zookeeper as zk;

use super::compared::{ComparedClient, ComparedSession};
use crate::engine::{Error, Event, Multi, Op, OpResult, Reply, Watch};
use crate::util::mutex::{Mutex, MutexGuard};
use crate::util::znode::{Acl, CreateMode, Permissions, Stat};

/// The servers that a connect string names.
#[derive(Debug)]
pub(super) struct OtherClient {
    connect_string: String,
    session_timeout: Duration,
}

impl OtherClient {
    pub(super) fn new(connect_string: String, session_timeout: Duration) -> Self {
        OtherClient { connect_string, session_timeout }
    }
}

impl ComparedClient for OtherClient {
    fn open(&self) -> BoxFuture<'_, Box<dyn ComparedSession>> {
        let connector = zk::Client::connector().with_session_timeout(self.session_timeout);
        async move {
            let client = connector.connect(&self.connect_string).await.expect("a session of the other client");
            Box::new(OtherSession::new(client)) as Box<dyn ComparedSession>
        }
        .boxed()
    }
}

#[derive(Debug)]
struct OtherSession {
    id: i64,
    state: zk::StateWatcher,
    /// The crate closes the session when the last clone is dropped.
    client: Mutex<Option<zk::Client>>,
}

impl OtherSession {
    fn new(client: zk::Client) -> Self {
        OtherSession { id: client.session_id().0, state: client.state_watcher(), client: Mutex::new(Some(client)) }
    }

    fn client(&self) -> MutexGuard<'_, Option<zk::Client>> {
        self.client.lock()
    }

    fn request<T, F>(&self, send: impl FnOnce(zk::Client) -> F) -> Reply<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, zk::Error>> + Send + 'static,
    {
        match self.client().clone() {
            Some(client) => send(client).map_err(error).boxed(),
            None => futures::future::ready(Err(Error::NotConnected)).boxed(),
        }
    }
}

impl ComparedSession for OtherSession {
    fn id(&self) -> i64 {
        self.id
    }

    fn create(&self, path: &str, data: &[u8], mode: CreateMode, acls: &[Acl]) -> Reply<(String, Stat)> {
        let (mut path, data, acls) = (path.to_owned(), data.to_owned(), to_acls(acls));
        self.request(|client| async move {
            let options = create_mode(mode).with_acls(zk::Acls::new(&acls));
            let (created, sequence) = client.create(&path, &data, &options).await?;
            if mode.is_sequential() {
                path.push_str(&sequence.to_string());
            }
            Ok((path, stat(&created)))
        })
    }

    fn delete(&self, path: &str, version: Option<i32>) -> Reply<()> {
        let path = path.to_owned();
        self.request(|client| async move { client.delete(&path, version).await })
    }

    fn exists(&self, path: &str) -> Reply<Option<Stat>> {
        let path = path.to_owned();
        self.request(|client| async move { Ok(client.check_stat(&path).await?.as_ref().map(stat)) })
    }

    fn watch_exists(&self, path: &str) -> Reply<(Option<Stat>, Watch)> {
        let path = path.to_owned();
        self.request(|client| async move {
            let (found, watcher) = client.check_and_watch_stat(&path).await?;
            Ok((found.as_ref().map(stat), watch(watcher)))
        })
    }

    fn get_data(&self, path: &str) -> Reply<(Vec<u8>, Stat)> {
        let path = path.to_owned();
        self.request(|client| async move {
            let (data, found) = client.get_data(&path).await?;
            Ok((data, stat(&found)))
        })
    }

    fn watch_data(&self, path: &str) -> Reply<(Vec<u8>, Stat, Watch)> {
        let path = path.to_owned();
        self.request(|client| async move {
            let (data, found, watcher) = client.get_and_watch_data(&path).await?;
            Ok((data, stat(&found), watch(watcher)))
        })
    }

    fn set_data(&self, path: &str, data: &[u8], version: Option<i32>) -> Reply<Stat> {
        let (path, data) = (path.to_owned(), data.to_owned());
        self.request(|client| async move { Ok(stat(&client.set_data(&path, &data, version).await?)) })
    }

    fn list_children(&self, path: &str) -> Reply<(Vec<String>, Stat)> {
        let path = path.to_owned();
        self.request(|client| async move {
            let (names, found) = client.get_children(&path).await?;
            Ok((names, stat(&found)))
        })
    }

    fn watch_children(&self, path: &str) -> Reply<(Vec<String>, Stat, Watch)> {
        let path = path.to_owned();
        self.request(|client| async move {
            let (names, found, watcher) = client.get_and_watch_children(&path).await?;
            Ok((names, stat(&found), watch(watcher)))
        })
    }

    fn get_acl(&self, path: &str) -> Reply<(Vec<Acl>, Stat)> {
        let path = path.to_owned();
        self.request(|client| async move {
            let (acls, found) = client.get_acl(&path).await?;
            Ok((acls.iter().map(from_acl).collect(), stat(&found)))
        })
    }

    fn multi(&self, ops: Vec<Op>) -> Reply<Multi> {
        self.request(|client| async move {
            let mut writer = client.new_multi_writer();
            ops.iter().try_for_each(|op| add(&mut writer, op))?;
            match writer.commit().await {
                Ok(results) => Ok(Multi::Committed(results.into_iter().map(op_result).collect::<Result<_, _>>()?)),
                Err(zk::MultiWriteError::OperationFailed { index, source }) => {
                    Ok(Multi::Refused { index, error: error(source) })
                }
                Err(zk::MultiWriteError::RequestFailed { source }) => Err(source),
            }
        })
    }

    fn sync(&self, path: &str) -> Reply<()> {
        let path = path.to_owned();
        self.request(|client| async move { client.sync(&path).await })
    }

    /// Closes the session. A pending request would keep it open; the differential test has none when it closes a
    /// session.
    fn close(&self) -> BoxFuture<'static, ()> {
        drop(self.client().take());
        let mut state = self.state.clone();
        async move {
            while !state.peek_state().is_terminated() {
                state.changed().await;
            }
        }
        .boxed()
    }
}

fn watch(watcher: zk::OneshotWatcher) -> Watch {
    Watch::new(async move { (event(watcher.changed().await.event_type), tokio::time::Instant::now()) }.boxed())
}

fn event(event: zk::EventType) -> Event {
    match event {
        zk::EventType::NodeCreated => Event::NodeCreated,
        zk::EventType::NodeDeleted => Event::NodeDeleted,
        zk::EventType::NodeDataChanged => Event::NodeDataChanged,
        zk::EventType::NodeChildrenChanged => Event::NodeChildrenChanged,
        zk::EventType::Session => Event::SessionEnded,
    }
}

/// Translates the errors that a server may return; no connection is lost during a run.
fn error(error: zk::Error) -> Error {
    match error {
        zk::Error::NoNode => Error::NoNode,
        zk::Error::NodeExists => Error::NodeExists,
        zk::Error::NotEmpty => Error::NotEmpty,
        zk::Error::BadVersion => Error::BadVersion,
        zk::Error::NoAuth => Error::NoAuth,
        zk::Error::NoChildrenForEphemerals => Error::NoChildrenForEphemerals,
        zk::Error::InvalidAcl => Error::InvalidAcl,
        zk::Error::BadArguments(why) => Error::BadArguments((*why).to_owned()),
        other => Error::Other(other.to_string()),
    }
}

fn stat(stat: &zk::Stat) -> Stat {
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

fn create_mode(mode: CreateMode) -> zk::CreateMode {
    match mode {
        CreateMode::Persistent => zk::CreateMode::Persistent,
        CreateMode::PersistentSequential => zk::CreateMode::PersistentSequential,
        CreateMode::Ephemeral => zk::CreateMode::Ephemeral,
        CreateMode::EphemeralSequential => zk::CreateMode::EphemeralSequential,
        CreateMode::Container => zk::CreateMode::Container,
        // The other client has no such mode.
        CreateMode::PersistentTtl(_) => zk::CreateMode::Persistent,
    }
}

fn to_acls(acls: &[Acl]) -> Vec<zk::Acl> {
    acls.iter().map(|acl| zk::Acl::new(permission(acl.permissions), zk::AuthId::new(&acl.scheme, &acl.id))).collect()
}

fn from_acl(acl: &zk::Acl) -> Acl {
    let granted = PERMISSIONS.into_iter().filter(|(_, theirs)| acl.permission().has(*theirs));
    Acl::new(granted.fold(Permissions(0), |sum, (ours, _)| sum | ours), acl.scheme(), acl.id())
}

const PERMISSIONS: [(Permissions, zk::Permission); 5] = [
    (Permissions::READ, zk::Permission::READ),
    (Permissions::WRITE, zk::Permission::WRITE),
    (Permissions::CREATE, zk::Permission::CREATE),
    (Permissions::DELETE, zk::Permission::DELETE),
    (Permissions::ADMIN, zk::Permission::ADMIN),
];

fn permission(permissions: Permissions) -> zk::Permission {
    let granted = PERMISSIONS.into_iter().filter(|(ours, _)| permissions.contains(*ours));
    granted.fold(zk::Permission::NONE, |sum, (_, theirs)| sum | theirs)
}

fn add(writer: &mut zk::MultiWriter<'_>, op: &Op) -> Result<(), zk::Error> {
    match op {
        Op::Check { path, version } => writer.add_check_version(path, version.unwrap_or(-1)),
        Op::Create { path, data, mode, acls } => {
            let acls = to_acls(acls);
            writer.add_create(path, data, &create_mode(*mode).with_acls(zk::Acls::new(&acls)))
        }
        Op::SetData { path, data, version } => writer.add_set_data(path, data, *version),
        Op::Delete { path, version } => writer.add_delete(path, *version),
    }
}

fn op_result(result: zk::MultiWriteResult) -> Result<OpResult, zk::Error> {
    Ok(match result {
        zk::MultiWriteResult::Check => OpResult::Check,
        zk::MultiWriteResult::Create { path, .. } => OpResult::Create { path },
        zk::MultiWriteResult::SetData { stat: changed } => OpResult::SetData { stat: stat(&changed) },
        zk::MultiWriteResult::Delete => OpResult::Delete,
        other => return Err(zk::Error::UnexpectedError(format!("unknown result of a transaction: {other:?}"))),
    })
}
