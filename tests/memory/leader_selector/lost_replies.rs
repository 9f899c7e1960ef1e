//! The connection breaks after a request was handed over, and with it the answer is lost.

use zookeeper_recipes::leader_selector::{RequeuePolicy, TermEnd};
use zookeeper_recipes::testing::{Loss, Operation};

use super::fixture::{Act, PATH, Stage, actor, builder, leads, next, setup};
use crate::fixture::SOON;

#[tokio::test(start_paused = true)]
async fn a_term_begins_and_ends_with_one_node_whatever_reply_is_lost() {
    for operation in [Operation::Create, Operation::List, Operation::GetData] {
        for loss in [Loss::Applied, Loss::NotApplied] {
            let (server, client, _) = setup().await;
            server.lose_next_reply(&client, operation, loss);
            let stage = Stage::new();
            let selector = builder(&client, "alice").auto_requeue(RequeuePolicy::default());
            let selector = selector.start(actor("alice", &stage, [Act::For(SOON * 5)])).expect("started");
            let mut outcomes = selector.outcomes();
            // That of the read is lost while it leads: then the term is, and the next one is not.
            while !matches!(next(&mut outcomes).await.end, TermEnd::Returned) {}
            leads(&selector).await;
            assert_eq!(server.lost_replies(), 1, "{operation:?} {loss:?}");
            assert_eq!(server.children(PATH).len(), 1, "{operation:?} {loss:?}");
            assert_eq!(stage.most(), 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_whose_answer_is_lost_is_repeated_and_the_next_one_leads() {
    for loss in [Loss::Applied, Loss::NotApplied] {
        let (server, one, two) = setup().await;
        let stage = Stage::new();
        let alice = builder(&one, "alice").start(actor("alice", &stage, [Act::For(SOON)])).expect("started");
        leads(&alice).await;
        let bob = builder(&two, "bob").start(actor("bob", &stage, [Act::ForEver])).expect("started");
        let mut outcomes = alice.outcomes();
        server.lose_next_reply(&one, Operation::Delete, loss);
        let outcome = next(&mut outcomes).await;
        assert!(matches!(outcome.end, TermEnd::Returned) && outcome.release_error.is_none(), "{outcome:?}");
        assert_eq!(server.lost_replies(), 1, "{loss:?}");
        leads(&bob).await;
        assert_eq!((stage.most(), server.children(PATH).len()), (1, 1));
    }
}
