//! Listeners that are chosen at run time.

use std::sync::Arc;

use zookeeper_recipes::leader_selector::{BoxLeaderSelectorListener, Leadership, TermEnd};

use super::fixture::{Act, Stage, actor, builder, next, setup};
use crate::fixture::SOON;

#[tokio::test(start_paused = true)]
async fn a_listener_is_chosen_at_run_time_or_leads_for_several_selectors() {
    let (_server, one, two) = setup().await;
    let stage = Stage::new();
    let shared = Arc::new(actor("shared", &stage, [Act::For(SOON)]));
    let choose = |chosen: usize| match chosen {
        0 => BoxLeaderSelectorListener::new(actor("boxed", &stage, [Act::For(SOON)])),
        1 => BoxLeaderSelectorListener::new(Arc::clone(&shared)),
        _ => BoxLeaderSelectorListener::new(|_: Leadership| async { Err::<(), _>("on purpose") }),
    };
    for (chosen, client) in [(0, &one), (1, &one), (1, &two), (2, &two)] {
        let selector = builder(client, "a").start(choose(chosen)).expect("started");
        match next(&mut selector.outcomes()).await.end {
            TermEnd::Returned => assert!(chosen < 2),
            TermEnd::Failed(error) => assert_eq!((chosen, error.to_string().as_str()), (2, "on purpose")),
            end => panic!("{chosen}: {end}"),
        }
    }
    assert_eq!(stage.ids(), ["boxed", "shared", "shared"]);
    let selector = builder(&one, "a").start(shared).expect("started");
    assert!(matches!(next(&mut selector.outcomes()).await.end, TermEnd::Returned));
}

#[tokio::test(start_paused = true)]
async fn a_boxed_listener_that_panics_before_it_makes_its_future_ends_the_term() {
    let (_server, client, _) = setup().await;
    #[allow(unreachable_code)]
    let panics = |_: Leadership| {
        panic!("on purpose");
        std::future::ready(())
    };
    let selector = builder(&client, "a").start(BoxLeaderSelectorListener::new(panics)).expect("started");
    let TermEnd::Panicked(message) = next(&mut selector.outcomes()).await.end else { panic!("it panicked") };
    assert_eq!(message, "on purpose");
}
