//! Requests that this library does not send, and what a ZooKeeper 3.9 server answers to them.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zookeeper_recipes::testing::{Listening, TestingServer};

use super::raw::{create, create_ttl, frame, hello, int, open_acl, path_and, set, text};

const CREATE: i32 = 1;
const DELETE: i32 = 2;
const EXISTS: i32 = 3;
const GET_DATA: i32 = 4;
const SET_DATA: i32 = 5;
const SET_ACL: i32 = 7;
const GET_CHILDREN: i32 = 8;
const CHECK: i32 = 13;
const MULTI: i32 = 14;
const CREATE_TTL: i32 = 21;
const MULTI_READ: i32 = 22;

const OK: i32 = 0;
const MARSHALLING_ERROR: i32 = -5;
const BAD_ARGUMENTS: i32 = -8;
const NO_NODE: i32 = -101;

/// A client without this library.
struct Raw(TcpStream);

impl Raw {
    async fn connect(listening: &Listening) -> Raw {
        let mut raw = Raw(TcpStream::connect(listening.addresses()[0]).await.expect("a connection"));
        raw.ask(&hello()).await;
        raw
    }

    async fn ask(&mut self, frame: &[u8]) -> Vec<u8> {
        self.0.write_all(frame).await.expect("written");
        let mut answer = vec![0; self.0.read_u32().await.expect("an answer") as usize];
        self.0.read_exact(&mut answer).await.expect("a whole answer");
        answer
    }

    /// The code of the answer, and what is behind its head.
    async fn call(&mut self, op: i32, body: &[u8]) -> (i32, Vec<u8>) {
        let mut answer = self.ask(&frame(&[&int(1), &int(op), body])).await;
        let body = answer.split_off(16);
        (i32::from_be_bytes(answer[12..].try_into().expect("four bytes")), body)
    }
}

fn steps(steps: &[(i32, Vec<u8>)]) -> Vec<u8> {
    let step = |(op, body): &(i32, Vec<u8>)| [&int(*op)[..], &[0], &int(-1), body].concat();
    [steps.iter().map(step).collect::<Vec<_>>().concat(), [&int(-1)[..], &[1], &int(-1)].concat()].concat()
}

/// The result of a step that failed.
fn failed(code: i32) -> Vec<u8> {
    [&int(-1)[..], &[0], &int(code), &int(code)].concat()
}

#[tokio::test]
async fn many_reads_may_read_children_too() {
    let server = TestingServer::start();
    let listening = server.listen("127.0.0.1:0").expect("a free port");
    let mut raw = Raw::connect(&listening).await;
    for path in ["/dir", "/dir/child"] {
        assert_eq!(raw.call(CREATE, &create(path, 0)).await.0, OK);
    }
    let read = |op, path| (op, path_and(path, &[0]));
    let reads = [
        read(GET_CHILDREN, "/dir"),
        read(GET_CHILDREN, "/none"),
        read(GET_DATA, "no path"),
        read(GET_CHILDREN, "/dir/child"),
    ];
    let children = |names: &[u8]| [&int(GET_CHILDREN)[..], &[0], &int(OK), names].concat();
    let expected = [
        children(&[&int(1)[..], &text("child")].concat()),
        failed(NO_NODE),
        failed(NO_NODE),
        children(&int(0)),
        [&int(-1)[..], &[1], &int(-1)].concat(),
    ];
    assert_eq!(raw.call(MULTI_READ, &steps(&reads)).await, (OK, expected.concat()));
    let mixed = raw.call(MULTI_READ, &steps(&[reads[0].clone(), read(GET_DATA, "/dir/child")])).await;
    assert_eq!((mixed.0, mixed.1.len()), (OK, expected[0].len() + 9 + 4 + 4 + 68 + 9), "the data with a stat");
}

#[tokio::test]
async fn a_path_that_no_node_can_have_is_refused_where_a_server_looks_at_it() {
    let server = TestingServer::start();
    let listening = server.listen("127.0.0.1:0").expect("a free port");
    let mut raw = Raw::connect(&listening).await;
    for path in ["", "relative", "/a//b", "/a/", "/a/./b", "/a/../b", "/a\0b", "/a\u{1}b", "//"] {
        let set_acl = [text(path), open_acl(), int(-1).to_vec()].concat();
        assert_eq!(raw.call(SET_DATA, &set(path)).await.0, BAD_ARGUMENTS, "set {path:?}");
        assert_eq!(raw.call(SET_ACL, &set_acl).await.0, BAD_ARGUMENTS, "set the ACL of {path:?}");
        for step in [(SET_DATA, set(path)), (CHECK, path_and(path, &int(-1)))] {
            let answer = raw.call(MULTI, &steps(std::slice::from_ref(&step))).await;
            assert_eq!((answer.0, &answer.1[..13]), (OK, &failed(BAD_ARGUMENTS)[..]), "step {} {path:?}", step.0);
        }
    }
    // Of the others less is looked at.
    for (path, deleted, exists) in [
        ("relative", BAD_ARGUMENTS, NO_NODE),
        ("/a\0b", BAD_ARGUMENTS, BAD_ARGUMENTS),
        ("/a//b", NO_NODE, NO_NODE),
        ("/a\u{1}b", NO_NODE, NO_NODE),
    ] {
        assert_eq!(raw.call(DELETE, &path_and(path, &int(-1))).await.0, deleted, "delete {path:?}");
        assert_eq!(raw.call(EXISTS, &path_and(path, &[0])).await.0, exists, "does {path:?} exist");
    }
}

#[tokio::test]
async fn flags_and_times_that_no_node_can_have_are_refused() {
    let server = TestingServer::builder().extended_types(true).start();
    let listening = server.listen("127.0.0.1:0").expect("a free port");
    let mut raw = Raw::connect(&listening).await;
    for flags in [-1, 7, 100] {
        assert_eq!(raw.call(CREATE, &create("/node", flags)).await.0, BAD_ARGUMENTS, "{flags}");
        let answer = raw.call(MULTI, &steps(&[(CREATE, create("/node", flags))])).await;
        assert_eq!(answer.0, MARSHALLING_ERROR, "{flags}, in a transaction");
    }
    for ttl in [-1, 0, 1 << 40] {
        assert_eq!(raw.call(CREATE_TTL, &create_ttl("/node", ttl)).await.0, BAD_ARGUMENTS, "{ttl}");
        let answer = raw.call(MULTI, &steps(&[(CREATE_TTL, create_ttl("/node", ttl))])).await;
        assert_eq!((answer.0, &answer.1[..13]), (OK, &failed(BAD_ARGUMENTS)[..]), "{ttl}, in a transaction");
    }
    assert_eq!(raw.call(CREATE_TTL, &create_ttl("/node", (1 << 40) - 1)).await.0, OK);
    assert_eq!(server.paths(), ["/node"]);
}
