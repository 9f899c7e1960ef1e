//! A session on a blocking socket. Frames are encoded by hand, and queued frames are sent in one write.

use std::collections::VecDeque;
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;

pub(crate) const PERSISTENT: i32 = 0;
pub(crate) const EPHEMERAL: i32 = 1;
pub(crate) const PERSISTENT_SEQUENTIAL: i32 = 2;
pub(crate) const EPHEMERAL_SEQUENTIAL: i32 = 3;

const DELETE: i32 = 2;
const EXISTS: i32 = 3;
const GET_DATA: i32 = 4;
const SET_DATA: i32 = 5;
const PING: i32 = 11;
const GET_CHILDREN_2: i32 = 12;
const MULTI: i32 = 14;
const CREATE_2: i32 = 15;
const CLOSE: i32 = -11;

const NO_NODE: i32 = -101;
const EVENT: i32 = -1;
/// The longest timeout that the tests' server grants: only requests keep the session alive.
const SESSION_MS: i32 = 60_000;

/// A session.
pub(crate) struct Socket {
    input: BufReader<TcpStream>,
    /// Requests that are not written yet.
    output: Vec<u8>,
    /// The paths of the events that came between answers.
    events: VecDeque<String>,
}

impl Socket {
    pub(crate) fn connect(addr: &str) -> Socket {
        let stream = TcpStream::connect(addr).expect("a server");
        stream.set_nodelay(true).expect("TCP");
        let mut socket = Socket { input: BufReader::new(stream), output: Vec::new(), events: VecDeque::new() };
        socket.frame(|body| {
            body.int(0).long(0).int(SESSION_MS).long(0).buffer(&[0; 16]).bool(false);
        });
        socket.send();
        socket.read();
        socket
    }

    fn frame(&mut self, fill: impl FnOnce(&mut Body<'_>)) {
        let at = self.output.len();
        self.output.extend([0; 4]);
        fill(&mut Body(&mut self.output));
        let length = i32::try_from(self.output.len() - at - 4).expect("a short frame");
        self.output[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// Adds a request to the next write. Answers come in order, so its number does not matter.
    fn add(&mut self, op: i32, fill: impl FnOnce(&mut Body<'_>)) {
        self.frame(|body| {
            body.int(1).int(op);
            fill(body);
        });
    }

    pub(crate) fn add_create(&mut self, path: &str, data: &[u8], mode: i32) {
        self.add(CREATE_2, |body| body.create(path, data, mode));
    }

    pub(crate) fn add_list(&mut self, path: &str) {
        self.add(GET_CHILDREN_2, |body| {
            body.string(path).bool(false);
        });
    }

    pub(crate) fn add_get(&mut self, path: &str, watch: bool) {
        self.add(GET_DATA, |body| {
            body.string(path).bool(watch);
        });
    }

    pub(crate) fn add_exists(&mut self, path: &str) {
        self.add(EXISTS, |body| {
            body.string(path).bool(false);
        });
    }

    // Only the benchmark of the cache uses it.
    #[allow(dead_code)]
    pub(crate) fn add_set(&mut self, path: &str, data: &[u8]) {
        self.add(SET_DATA, |body| {
            body.string(path).buffer(data).int(-1);
        });
    }

    pub(crate) fn add_delete(&mut self, path: &str) {
        self.add(DELETE, |body| {
            body.string(path).int(-1);
        });
    }

    /// Adds a transaction.
    pub(crate) fn add_multi(&mut self, fill: impl FnOnce(&mut Multi<'_, '_>)) {
        self.add(MULTI, |body| {
            fill(&mut Multi(body));
            body.int(-1).bool(true).int(-1);
        });
    }

    /// Writes the added requests.
    pub(crate) fn send(&mut self) {
        self.input.get_mut().write_all(&self.output).expect("the server reads");
        self.output.clear();
    }

    fn read(&mut self) -> Vec<u8> {
        let mut length = [0; 4];
        self.input.read_exact(&mut length).expect("the server answers");
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        self.input.read_exact(&mut frame).expect("the server answers");
        frame
    }

    /// Returns the next answer, or `None` if there is no such node. Events before it are kept.
    pub(crate) fn answer(&mut self) -> Option<Answer> {
        loop {
            let mut frame = Answer { bytes: self.read(), at: 0 };
            let (xid, _zxid, error) = (frame.int(), frame.long(), frame.int());
            match (xid, error) {
                (EVENT, _) => {
                    let (_kind, _state) = (frame.int(), frame.int());
                    self.events.push_back(frame.string());
                }
                (_, 0) => return Some(frame),
                (_, NO_NODE) => return None,
                (_, error) => panic!("error {error} from the server"),
            }
        }
    }

    /// Waits for the event at this path; earlier ones are dropped.
    pub(crate) fn wait_for_event(&mut self, path: &str) {
        loop {
            while let Some(event) = self.events.pop_front() {
                if event == path {
                    return;
                }
            }
            let mut frame = Answer { bytes: self.read(), at: 0 };
            assert_eq!(frame.int(), EVENT, "no answer is expected");
            let _zxid_error_kind_state = (frame.long(), frame.int(), frame.int(), frame.int());
            self.events.push_back(frame.string());
        }
    }

    pub(crate) fn create(&mut self, path: &str, data: &[u8], mode: i32) -> String {
        self.add_create(path, data, mode);
        self.send();
        self.answer().expect("created").string()
    }

    pub(crate) fn list(&mut self, path: &str) -> Vec<String> {
        self.add_list(path);
        self.send();
        self.answer().expect("listed").strings()
    }

    pub(crate) fn delete(&mut self, path: &str) {
        self.add_delete(path);
        self.send();
        self.answer().expect("deleted");
    }

    pub(crate) fn exists(&mut self, path: &str) -> bool {
        self.add_exists(path);
        self.send();
        self.answer().is_some()
    }

    /// Keeps the session alive.
    pub(crate) fn ping(&mut self) {
        self.add(PING, |_| {});
        self.send();
        self.answer();
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.add(CLOSE, |_| {});
        // If this fails, the session expires.
        let _ = self.input.get_mut().write_all(&self.output);
    }
}

/// The body of a request that is being written.
struct Body<'a>(&'a mut Vec<u8>);

impl Body<'_> {
    fn int(&mut self, value: i32) -> &mut Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn long(&mut self, value: i64) -> &mut Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn bool(&mut self, value: bool) -> &mut Self {
        self.0.push(value.into());
        self
    }

    fn buffer(&mut self, bytes: &[u8]) -> &mut Self {
        self.int(i32::try_from(bytes.len()).expect("short"));
        self.0.extend(bytes);
        self
    }

    fn string(&mut self, text: &str) -> &mut Self {
        self.buffer(text.as_bytes())
    }

    fn create(&mut self, path: &str, data: &[u8], mode: i32) {
        const ALL: i32 = 31;
        self.string(path).buffer(data).int(1).int(ALL).string("world").string("anyone").int(mode);
    }
}

/// The operations of a transaction.
pub(crate) struct Multi<'a, 'b>(&'a mut Body<'b>);

impl Multi<'_, '_> {
    fn op(&mut self, op: i32) {
        self.0.int(op).bool(false).int(-1);
    }

    pub(crate) fn create(&mut self, path: &str, data: &[u8], mode: i32) {
        self.op(CREATE_2);
        self.0.create(path, data, mode);
    }

    pub(crate) fn set_data(&mut self, path: &str, data: &[u8]) {
        self.set_data_at(path, data, -1);
    }

    pub(crate) fn set_data_at(&mut self, path: &str, data: &[u8], version: i32) {
        self.op(SET_DATA);
        self.0.string(path).buffer(data).int(version);
    }

    pub(crate) fn delete(&mut self, path: &str) {
        self.op(DELETE);
        self.0.string(path).int(-1);
    }
}

/// A reply of the server, read field by field.
pub(crate) struct Answer {
    bytes: Vec<u8>,
    at: usize,
}

impl Answer {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let bytes = self.bytes[self.at..self.at + N].try_into().expect("N bytes");
        self.at += N;
        bytes
    }

    pub(crate) fn int(&mut self) -> i32 {
        i32::from_be_bytes(self.take())
    }

    fn long(&mut self) -> i64 {
        i64::from_be_bytes(self.take())
    }

    pub(crate) fn string(&mut self) -> String {
        let length = usize::try_from(self.int()).unwrap_or(0);
        let bytes = &self.bytes[self.at..self.at + length];
        self.at += length;
        String::from_utf8(bytes.to_vec()).expect("a path")
    }

    pub(crate) fn strings(&mut self) -> Vec<String> {
        (0..self.int()).map(|_| self.string()).collect()
    }

    /// Checks by its first result that a transaction was carried out.
    pub(crate) fn committed(&mut self) {
        assert_ne!(self.int(), -1, "the transaction was refused");
    }
}
