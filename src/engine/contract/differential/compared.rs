//! One of the two clients that are compared.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt};

use crate::engine::contract::scene::unobserved;
use crate::engine::{Ensemble, Multi, Op, Reply, Session, Watch};
use crate::util::znode::{Acl, CreateMode, Stat};

/// Opens sessions.
pub(super) trait ComparedClient {
    fn open(&self) -> BoxFuture<'_, Box<dyn ComparedSession>>;
}

/// The requests of a session.
pub(super) trait ComparedSession {
    fn id(&self) -> i64;
    fn create(&self, path: &str, data: &[u8], mode: CreateMode, acls: &[Acl]) -> Reply<(String, Stat)>;
    fn delete(&self, path: &str, version: Option<i32>) -> Reply<()>;
    fn exists(&self, path: &str) -> Reply<Option<Stat>>;
    fn watch_exists(&self, path: &str) -> Reply<(Option<Stat>, Watch)>;
    fn get_data(&self, path: &str) -> Reply<(Vec<u8>, Stat)>;
    fn watch_data(&self, path: &str) -> Reply<(Vec<u8>, Stat, Watch)>;
    fn set_data(&self, path: &str, data: &[u8], version: Option<i32>) -> Reply<Stat>;
    fn list_children(&self, path: &str) -> Reply<(Vec<String>, Stat)>;
    fn watch_children(&self, path: &str) -> Reply<(Vec<String>, Stat, Watch)>;
    fn get_acl(&self, path: &str) -> Reply<(Vec<Acl>, Stat)>;
    fn multi(&self, ops: Vec<Op>) -> Reply<Multi>;
    fn sync(&self, path: &str) -> Reply<()>;
    fn close(&self) -> BoxFuture<'static, ()>;
}

impl ComparedClient for Arc<Ensemble> {
    fn open(&self) -> BoxFuture<'_, Box<dyn ComparedSession>> {
        async move {
            let opened = Ensemble::open(self, unobserved()).await.expect("a session");
            Box::new(opened.session) as Box<dyn ComparedSession>
        }
        .boxed()
    }
}

impl ComparedSession for Arc<Session> {
    fn id(&self) -> i64 {
        Session::id(self)
    }

    fn create(&self, path: &str, data: &[u8], mode: CreateMode, acls: &[Acl]) -> Reply<(String, Stat)> {
        Session::create(self, path, data, mode, acls)
    }

    fn delete(&self, path: &str, version: Option<i32>) -> Reply<()> {
        Session::delete(self, path, version)
    }

    fn exists(&self, path: &str) -> Reply<Option<Stat>> {
        Session::exists(self, path)
    }

    fn watch_exists(&self, path: &str) -> Reply<(Option<Stat>, Watch)> {
        Session::watch_exists(self, path)
    }

    fn get_data(&self, path: &str) -> Reply<(Vec<u8>, Stat)> {
        Session::get_data(self, path)
    }

    fn watch_data(&self, path: &str) -> Reply<(Vec<u8>, Stat, Watch)> {
        Session::watch_data(self, path)
    }

    fn set_data(&self, path: &str, data: &[u8], version: Option<i32>) -> Reply<Stat> {
        Session::set_data(self, path, data, version)
    }

    fn list_children(&self, path: &str) -> Reply<(Vec<String>, Stat)> {
        Session::list_children(self, path)
    }

    fn watch_children(&self, path: &str) -> Reply<(Vec<String>, Stat, Watch)> {
        Session::watch_children(self, path)
    }

    fn get_acl(&self, path: &str) -> Reply<(Vec<Acl>, Stat)> {
        Session::get_acl(self, path)
    }

    fn multi(&self, ops: Vec<Op>) -> Reply<Multi> {
        Session::multi(self, ops)
    }

    fn sync(&self, path: &str) -> Reply<()> {
        Session::sync(self, path)
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        Session::close(self)
    }
}
