//! The listener fails: nothing is swallowed, nothing is held on to, nothing spins.

use zookeeper_recipes::leader_selector::{
    BoxError, LeaderSelectorListener, Leadership, RequeuePolicy, SelectorStatus, TermEnd,
};

use super::fixture::{Act, PATH, Stage, actor, builder, leads, next, reaches, setup};
use crate::fixture::{SOON, T, within};

#[tokio::test(start_paused = true)]
async fn an_error_or_a_panic_ends_the_term_releases_and_is_told() {
    for (act, text) in [(Act::Fail(SOON), "failed"), (Act::Panic(SOON), "panicked")] {
        let (server, one, two) = setup().await;
        let stage = Stage::new();
        let alice = builder(&one, "alice").start(actor("alice", &stage, [act])).expect("started");
        leads(&alice).await;
        let bob = builder(&two, "bob").start(actor("bob", &stage, [Act::ForEver])).expect("started");
        reaches(&bob, SelectorStatus::Waiting).await;
        let (mut outcomes, mut also) = (alice.outcomes(), alice.outcomes());
        for outcomes in [&mut outcomes, &mut also] {
            let end = next(outcomes).await.end;
            assert!(end.is_failure());
            match end {
                TermEnd::Failed(error) => assert_eq!(error.to_string(), "the work failed"),
                TermEnd::Panicked(message) => assert_eq!(message, "the work panicked"),
                end => panic!("{end:?}"),
            }
        }
        leads(&bob).await;
        assert_eq!(stage.most(), 1);
        reaches(&alice, SelectorStatus::Idle).await;
        let last = alice.state().get().last_outcome().expect("kept").end.to_string();
        assert!(last.contains(text), "{last}");
        assert_eq!(server.children(PATH).len(), 1);
        assert!(server.panics().is_empty(), "the selector's task keeps running");
        assert!(alice.requeue());
    }
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_panics_before_its_first_await_or_in_its_destructor_is_survived() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("the destructor panicked");
        }
    }
    let (_server, client, _) = setup().await;
    let selector = builder(&client, "alice").start(|_: Leadership| -> std::future::Ready<()> { panic!("at once") });
    let mut outcomes = selector.as_ref().expect("started").outcomes();
    assert!(matches!(next(&mut outcomes).await.end, TermEnd::Panicked(message) if message == "at once"));

    let selector = builder(&client, "bob").start(|_: Leadership| async {
        let _bomb = Bomb;
        std::future::pending::<()>().await;
    });
    let selector = selector.expect("started");
    let mut outcomes = selector.outcomes();
    leads(&selector).await;
    assert!(selector.interrupt_leadership());
    assert!(
        matches!(next(&mut outcomes).await.end, TermEnd::Panicked(message) if message == "the destructor panicked")
    );
    assert!(selector.requeue());
    leads(&selector).await;
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_always_fails_leads_ever_more_rarely_and_one_that_recovers_at_once_again() {
    for act in [Act::Fail(SOON / 1000), Act::Panic(SOON / 1000)] {
        let (_server, client, _) = setup().await;
        let stage = Stage::new();
        let script = std::iter::repeat_n(act, 12).chain([Act::For(SOON / 1000)]);
        let selector = builder(&client, "alice").auto_requeue(RequeuePolicy::default());
        let selector = selector.start(actor("alice", &stage, script)).expect("started");
        tokio::time::sleep(T).await;
        let first = stage.terms().len();
        assert!((4..=12).contains(&first), "{first} terms in the first ten seconds");
        let mut states = selector.state();
        let recovered = |state: &zookeeper_recipes::leader_selector::SelectorState| {
            state.last_outcome().is_some_and(|outcome| matches!(outcome.end, TermEnd::Returned))
        };
        states.wait_for(recovered).await.expect("alive");
        let before = stage.terms().len();
        tokio::time::sleep(SOON).await;
        assert!(stage.terms().len() > before + 20, "{} terms in a second", stage.terms().len() - before);
    }
}

/// Panics when it is dropped, unless there is a panic already.
#[derive(Debug)]
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("the destructor panicked");
        }
    }
}

/// Something to throw: also what it throws when it is dropped throws.
struct Chain(u32);

impl Drop for Chain {
    fn drop(&mut self) {
        if let Some(next) = self.0.checked_sub(1) {
            std::panic::panic_any(Chain(next));
        }
    }
}

fn throw(what: Chain) {
    std::panic::panic_any(what);
}

/// An error that cannot be told.
#[derive(Debug)]
struct Untellable(#[allow(dead_code)] Option<Bomb>);

impl std::fmt::Display for Untellable {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("the error panicked");
    }
}

impl std::error::Error for Untellable {}

/// An error that can be told, but not dropped.
#[derive(Debug)]
struct Sticky(#[allow(dead_code)] Bomb);

impl std::fmt::Display for Sticky {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("sticky")
    }
}

impl std::error::Error for Sticky {}

/// Leads again and again, and always ends so: each end is reported, and the selector continues.
async fn is_survived(listener: impl LeaderSelectorListener, told: &str) {
    let (server, client, _) = setup().await;
    let selector = builder(&client, "alice").auto_requeue(RequeuePolicy::default()).start(listener).expect("started");
    // A subscriber that logs must not be the first to meet the panic.
    let mut outcomes = selector.outcomes();
    for _ in 0..4 {
        let end = next(&mut outcomes).await.end;
        assert_eq!(end.to_string(), told);
        // The test is not the one to drop the error last.
        std::mem::forget(end);
    }
    selector.close().await.expect("closed");
    assert_eq!(server.panics(), [""; 0], "the selector's task keeps running");
    assert_eq!(server.children(PATH), [""; 0]);
    std::mem::forget(selector.state().get().last_outcome().cloned());
}

#[tokio::test(start_paused = true)]
async fn a_panic_that_panics_when_it_is_dropped_is_survived() {
    for depth in [1, 3] {
        let listener = move |_: Leadership| async move { throw(Chain(depth)) };
        is_survived(listener, "the listener panicked: no message").await;
    }
}

/// Returns an error of its own making.
struct Failing<F>(F);

impl<F: Fn() -> BoxError + Send + Sync + 'static> LeaderSelectorListener for Failing<F> {
    async fn take_leadership(&self, _: Leadership) -> Result<(), BoxError> {
        tokio::time::sleep(SOON / 1000).await;
        Err((self.0)())
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_that_panics_when_it_is_told_ends_the_term_as_a_panic() {
    let listener = Failing(|| -> BoxError { Box::new(Untellable(None)) });
    is_survived(listener, "the listener panicked: the error panicked").await;
    let listener = Failing(|| -> BoxError { Box::new(Untellable(Some(Bomb))) });
    is_survived(listener, "the listener panicked: the error panicked").await;
}

#[tokio::test(start_paused = true)]
async fn an_error_that_panics_when_it_is_dropped_is_survived() {
    // As in a program that does not keep the outcomes.
    let (server, client, _) = setup().await;
    let listener = Failing(|| -> BoxError { Box::new(Sticky(Bomb)) });
    let selector = builder(&client, "alice").auto_requeue(RequeuePolicy::default()).start(listener).expect("started");
    let mut tokens = std::collections::BTreeSet::new();
    let mut states = selector.state();
    while tokens.len() < 4 {
        within("another term", T, states.changed()).await.expect("the selector is alive");
        tokens.extend(states.get().last_outcome().map(|outcome| outcome.fencing_token));
    }
    selector.close().await.expect("closed");
    assert_eq!(server.panics(), [""; 0], "the selector's task keeps running");
    std::mem::forget(selector.state().get().last_outcome().cloned());
}
