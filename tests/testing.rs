//! `TestingServer`: each of its levers, as a user's tests pull it, under a paused clock.
#![cfg(all(feature = "testing", feature = "leader-latch"))]

/// One idea a file; `scene` holds what they share.
mod testing {
    mod connections;
    mod hands;
    mod history;
    mod losses;
    mod processes;
    #[cfg(all(feature = "leader-selector", feature = "mutex"))]
    mod runtime_end;
    mod scene;
    mod servers;
    mod sessions;
    mod start;
    mod steps;
    mod strangers;
}
