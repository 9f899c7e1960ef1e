//! Shared by the tests of shared values: a server, a path, and helpers.

use futures::future::try_join_all;
use zookeeper_recipes::shared_value::{Error, SharedCount, SharedValue, Utf8};
use zookeeper_recipes::testing::TestingServer;
use zookeeper_recipes::{Client, ErrorKind};

use crate::fixture::{T, within};

pub(crate) const PATH: &str = "/config/mode";

/// A server, and so many clients.
pub(crate) async fn setup<const CLIENTS: usize>() -> (TestingServer, [Client; CLIENTS]) {
    let server = TestingServer::start();
    let clients = try_join_all((0..CLIENTS).map(|_| server.client())).await.expect("clients");
    (server, clients.try_into().expect("as many as were asked for"))
}

pub(crate) async fn text(client: &Client, seed: &str) -> SharedValue<String> {
    let starting = SharedValue::builder(client, PATH).decode(Utf8).seed(seed).start();
    within("it starts", T, starting).await.expect("it starts")
}

pub(crate) async fn count(client: &Client, seed: i32) -> SharedCount {
    within("it starts", T, SharedCount::count(client, PATH).seed(seed).start()).await.expect("it starts")
}

/// What is known now.
pub(crate) fn now<T: Clone + Send + Sync + 'static>(value: &SharedValue<T>) -> T {
    value.get().expect("there is a value").value().clone()
}

pub(crate) async fn until_is<T: PartialEq + Send + Sync + 'static>(value: &SharedValue<T>, expected: T) {
    within("it is seen", T, value.wait_for(|now| *now == expected)).await.expect("it is seen");
}

/// What the server has, as text.
pub(crate) fn held(server: &TestingServer) -> Option<String> {
    server.get(PATH).map(|data| String::from_utf8(data).expect("text"))
}

pub(crate) fn assert_unknown(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    assert!(!error.is_retryable() && !error.is_lost() && error.to_string().contains(PATH), "{error}");
}

pub(crate) fn missing() -> Error {
    Error::Missing { path: PATH.into() }
}
