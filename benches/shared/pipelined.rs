//! A bare socket with many requests in flight, and medians.

use std::time::{Duration, Instant};

use crate::socket::Socket;

/// As many requests as a cache has in flight.
const UNDER_WAY: usize = 512;

/// Carries out requests on a bare socket, with `UNDER_WAY` in flight: the next half is written when one is answered.
pub(crate) fn pipelined<R>(socket: &mut Socket, requests: &[R], add: impl Fn(&mut Socket, &R)) {
    let mut parts = requests.chunks(UNDER_WAY / 2);
    let mut under_way = 0;
    let mut send = |socket: &mut Socket| {
        let part = parts.next().unwrap_or_default();
        part.iter().for_each(|request| add(socket, request));
        if !part.is_empty() {
            socket.send();
        }
        part.len()
    };
    let mut first = send(socket);
    while first > 0 {
        under_way += send(socket);
        (0..first).for_each(|_| drop(socket.answer().expect("there is such a node")));
        first = std::mem::take(&mut under_way);
    }
}

pub(crate) fn timed(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
