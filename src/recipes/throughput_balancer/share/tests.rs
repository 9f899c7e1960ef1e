use futures::FutureExt;

use super::*;

fn decision(sequence: u64) -> Decision {
    Decision { epoch: 1, sequence }
}

/// A member that applies 7 without a lease.
fn start() -> Channel {
    let channel = Channel::new(OnSuspended::Keep, Limited::default(), Level::default());
    channel.publish_unproven(7, decision(0));
    channel
}

#[test]
fn a_share_is_applied_when_the_listener_asks_for_the_next() {
    let channel = start();
    assert!(channel.applied().now_or_never().is_some(), "there is no listener");
    let mut idle = channel.followed();
    let mut shares = channel.followed();
    assert_eq!(shares.next().now_or_never().flatten().map(|share| share.throughput()), Some(7));
    channel.leave();
    assert!(channel.applied().now_or_never().is_none());
    assert_eq!(shares.next().now_or_never().flatten().map(|share| share.throughput()), Some(0));
    assert!(channel.applied().now_or_never().is_none(), "it has received the share, not applied it");
    assert!(shares.next().now_or_never().is_some_and(|end| end.is_none()));
    assert!(channel.applied().now_or_never().is_some());
    assert_eq!(idle.next().now_or_never().flatten().map(|share| share.throughput()), Some(0));
}

#[test]
fn a_listener_that_is_behind_acknowledges_what_it_has_applied() {
    let channel = start();
    let followed = |acked| channel.followed_after(decision(acked)).now_or_never();
    channel.publish_unproven(6, decision(1));
    assert_eq!(followed(0), Some(decision(1)), "there is no listener");
    let mut shares = channel.followed();
    assert!(shares.next().now_or_never().is_some());
    channel.publish_unproven(5, decision(2));
    assert_eq!((followed(0), followed(1)), (Some(decision(1)), None));
    assert!(shares.next().now_or_never().is_some());
    channel.publish_unproven(4, decision(3));
    assert_eq!(followed(1), None, "it has received the second share, not applied it");
    assert!(shares.next().now_or_never().is_some());
    assert_eq!((followed(1), followed(2)), (Some(decision(2)), None));
}

#[test]
fn a_share_that_was_kept_falls_with_the_newest_and_does_not_rise_with_it() {
    let channel = start();
    let first = channel.latest();
    channel.publish_unproven(9, decision(1));
    let second = channel.latest();
    assert_eq!((first.throughput(), second.throughput()), (7, 9));
    channel.publish_unproven(3, decision(2));
    assert_eq!((first.throughput(), second.throughput()), (3, 3));
    channel.leave();
    assert_eq!((first.throughput(), second.throughput()), (0, 0));
}

#[test]
fn acknowledgements_wait_for_no_stream_and_no_listener_that_is_gone() {
    let channel = Channel::new(OnSuspended::Zero, Limited::default(), Level::default());
    let (mut shares, mut listener) = (channel.stream(), channel.followed());
    assert!(shares.next().now_or_never().is_some());
    assert!(listener.next().now_or_never().is_some());
    channel.leave();
    assert!(channel.applied().now_or_never().is_none());
    drop(listener);
    assert!(channel.applied().now_or_never().is_some());
}
