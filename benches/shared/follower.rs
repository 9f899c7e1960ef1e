//! A bare socket that follows a tree: one persistent watch, and one read for each event.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;

const GET_DATA: i32 = 4;
const ADD_WATCH: i32 = 106;
const RECURSIVE: i32 = 1;
const EVENT: i32 = -1;
const SESSION_MS: i32 = 60_000;
/// The bytes before the path of an event: xid, zxid, error, type, state, and the length of the path.
const BEFORE_PATH: usize = 28;

/// A session with one watch.
pub(crate) struct Follower {
    input: BufReader<TcpStream>,
    output: Vec<u8>,
}

impl Follower {
    /// Connects, and watches everything below `root`.
    pub(crate) fn start(addr: &str, root: &str) -> Follower {
        let stream = TcpStream::connect(addr).expect("a server");
        stream.set_nodelay(true).expect("TCP");
        let mut follower = Follower { input: BufReader::new(stream), output: Vec::new() };
        let timeout = SESSION_MS.to_be_bytes();
        follower.add(&[&[0; 12], &timeout, &[0; 8], &16_i32.to_be_bytes(), &[0; 16], &[0]]);
        follower.send();
        follower.frame();
        follower.request(ADD_WATCH, root.as_bytes(), &RECURSIVE.to_be_bytes());
        follower.send();
        follower.frame();
        follower
    }

    /// Reads the node of each event until this many are read. Events that arrive together lead to one write.
    pub(crate) fn take(&mut self, mut left: usize) {
        while left > 0 {
            let frame = self.frame();
            match frame.starts_with(&EVENT.to_be_bytes()) {
                true => self.request(GET_DATA, &frame[BEFORE_PATH..], &[0]),
                false => left -= 1,
            }
            if self.input.buffer().is_empty() && !self.output.is_empty() {
                self.send();
            }
        }
    }

    fn request(&mut self, op: i32, path: &[u8], more: &[u8]) {
        let length = i32::try_from(path.len()).expect("short");
        self.add(&[&1_i32.to_be_bytes(), &op.to_be_bytes(), &length.to_be_bytes(), path, more]);
    }

    fn add(&mut self, parts: &[&[u8]]) {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        self.output.extend(i32::try_from(length).expect("short").to_be_bytes());
        parts.iter().for_each(|part| self.output.extend_from_slice(part));
    }

    fn send(&mut self) {
        self.input.get_mut().write_all(&self.output).expect("the server reads");
        self.output.clear();
    }

    fn frame(&mut self) -> Vec<u8> {
        let mut length = [0; 4];
        self.input.read_exact(&mut length).expect("the server answers");
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        self.input.read_exact(&mut frame).expect("the server answers");
        frame
    }
}
