//! The listener fails: nothing is swallowed, nothing is held on to, nothing spins.

use zookeeper_recipes::leader_selector::{Leadership, RequeuePolicy, SelectorStatus, TermEnd};

use super::scene::{Act, PATH, Stage, actor, builder, leads, next, reaches, scene};
use crate::in_memory::{SOON, T};

#[tokio::test(start_paused = true)]
async fn an_error_or_a_panic_ends_the_term_releases_and_is_told() {
    for (act, text) in [(Act::Fail(SOON), "failed"), (Act::Panic(SOON), "panicked")] {
        let (server, one, two) = scene().await;
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
        let last = alice.state().borrow().last_outcome().expect("kept").end.to_string();
        assert!(last.contains(text), "{last}");
        assert_eq!(server.children(PATH).len(), 1);
        assert!(server.panics().is_empty(), "the selector's task goes on");
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
    let (_server, client, _) = scene().await;
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
        let (_server, client, _) = scene().await;
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
