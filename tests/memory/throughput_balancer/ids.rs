//! Ids by which operators know members.

use futures::StreamExt;

use super::fixture::{eager, have, joined, node, setup};
use crate::fixture::{SOON, within};

/// Records of members without one stay as they were.
#[tokio::test(start_paused = true)]
async fn an_id_is_shown_to_operators_and_kept_by_the_leader() {
    let (server, clients) = setup(2).await;
    let one = joined(&clients[0]).await;
    let two = within("it joins", SOON, eager(&clients[1]).id("api-2").join()).await.expect("it joins");
    have(&server, &[&one, &two], &[500, 500]).await;
    let [first, second] = [&one, &two].map(|member| member.member_id().expect("it is registered"));
    let members = one.members().await.expect("an answer");
    let shown: Vec<_> = members.iter().map(|member| (member.id.as_str(), member.node.as_str())).collect();
    assert_eq!(shown, [(first.as_str(), first.as_str()), ("api-2", second.as_str())]);
    let record = |member| String::from_utf8(server.get(&node(member)).expect("it is there")).expect("text");
    let [without, with] = [&one, &two].map(record);
    assert!(!without.contains("label") && with.contains(r#""label":"api-2""#), "{without} {with}");

    let mut events = two.events();
    server.expire_session(&clients[1]);
    let mut told = Vec::new();
    while told.len() < 2 {
        told.push(within("an event", SOON * 20, events.next()).await.expect("it goes on").to_string());
    }
    assert_eq!(told[0], format!("the registration api-2 ({second}) of this member is gone"));
    for id in ["", &"x".repeat(257)] {
        let error = eager(&clients[0]).id(id).join().await.expect_err("refused");
        assert!(error.to_string().contains("must have 1 to 256"), "{error}");
    }
}
