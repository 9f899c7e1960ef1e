//! A stream yields the same frames no matter in which pieces it arrives.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt;
use tokio::io::{AsyncRead, ReadBuf};

use crate::engine::frames::{Frame, Frames};
use crate::protocol::tests::frames::frames;

/// A stream that arrives in these pieces and then ends.
struct Pieces(VecDeque<Bytes>);

impl AsyncRead for Pieces {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Some(piece) = self.0.front_mut() {
            out.put_slice(&piece.split_to(out.remaining().min(piece.len())));
            if piece.is_empty() {
                self.0.pop_front();
            }
        }
        Poll::Ready(Ok(()))
    }
}

fn cut(limit: usize, pieces: impl IntoIterator<Item = Bytes>) -> io::Result<Vec<Frame>> {
    // An empty piece would end the stream.
    let pieces = pieces.into_iter().filter(|piece| !piece.is_empty()).collect();
    let mut frames = Frames::new(Box::new(Pieces(pieces)), limit);
    let mut all = Vec::new();
    while let Some(frame) = frames.receive().now_or_never().expect("it never waits")? {
        all.push(frame);
    }
    Ok(all)
}

/// Returns the stream in two pieces, cut at each position, and byte by byte.
fn arrivals(stream: &Bytes) -> impl Iterator<Item = Vec<Bytes>> {
    let two = (0..=stream.len()).map(|at| vec![stream.slice(..at), stream.slice(at..)]);
    two.chain([(0..stream.len()).map(|at| stream.slice(at..=at)).collect()])
}

#[test]
fn every_split_of_every_frame_gives_the_same_frames() {
    let frames = frames();
    for pair in frames.windows(2) {
        let expected = [Frame::Whole(pair[0].slice(4..)), Frame::Whole(pair[1].slice(4..))];
        for pieces in arrivals(&pair.concat().into()) {
            assert_eq!(cut(usize::MAX, pieces.clone()).expect("valid frames"), expected, "{pieces:?}");
        }
    }
    assert_eq!(cut(usize::MAX, [frames.concat().into()]).expect("valid frames").len(), frames.len());
}

#[test]
fn the_head_of_a_frame_that_is_too_long_is_kept_and_the_next_frame_is_whole() {
    let long: Vec<u8> = (0..100).collect();
    let stream: Bytes = [&[0, 0, 0, 100][..], &long, &[0, 0, 0, 2, 7, 8]].concat().into();
    let head = Bytes::copy_from_slice(&long[..16]);
    let expected = [Frame::TooLong { head, length: 100 }, Frame::Whole(Bytes::from_static(&[7, 8]))];
    for pieces in arrivals(&stream) {
        assert_eq!(cut(99, pieces.clone()).expect("valid frames"), expected, "{pieces:?}");
    }
    assert_eq!(cut(100, [stream]).expect("valid frames")[0], Frame::Whole(long.into()), "exactly at the limit");
}

#[test]
fn a_negative_length_is_an_error_and_an_announced_length_takes_no_memory() {
    for length in [-1, i32::MIN] {
        let error = cut(usize::MAX, [Bytes::copy_from_slice(&length.to_be_bytes())]).expect_err("no length");
        assert!(error.to_string().contains(&length.to_string()), "{error}");
    }
    let announced = Bytes::copy_from_slice(&i32::MAX.to_be_bytes());
    let mut frames = Frames::new(Box::new(Pieces([announced].into())), usize::MAX);
    assert_eq!(frames.receive().now_or_never().expect("it ends").expect("no error"), None);
    assert!(frames.reserved() < 64 * 1024, "{} bytes", frames.reserved());
    assert_eq!(cut(8, [Bytes::from_static(&[0; 4])]).expect("a frame"), [Frame::Whole(Bytes::new())]);
}
