//! Partition assigners, and kazoo's set partitioner.

use super::*;

#[test]
fn the_set_partitioner_of_kazoo_and_what_looks_like_one() {
    let (one, two) = (format!("/p/party/{HEX}-host-1"), format!("/p/party/{HEX}-host-2"));
    let lock = format!("/p/locks/0/{HEX}__lock__0000000000");
    let cases: [Case<'_>; 6] = [
        (
            &[(&one, 1), (&two, 2), (&lock, 1), ("/p/locks/1", 0)],
            &["/", "/p partitioner 2 2 1", "/p/locks", "/p/locks/0 line 1", "/p/locks/1"],
        ),
        (&[(&lock, 1), ("/p/party", 0)], &["/", "/p partitioner 0 1 1", "/p/locks", "/p/locks/0 line 1"]),
        (&[(&one, 1), ("/p/party/x", 2), ("/p/locks", 0)], &["/", "/p partitioner 1 0 0", "/p/party group 1"]),
        (&[("/p/party", 0), ("/p/locks", 0)], &["/", "/p", "/p/locks", "/p/party"]),
        (&[(&one, 1)], &["/", "/p", "/p/party group 1"]),
        (
            &[("/p/party/host-1", 1), ("/p/locks/lock-0000000000", 1)],
            &["/", "/p", "/p/locks line 1", "/p/party group 1"],
        ),
    ];
    for (nodes, expected) in cases {
        assert_eq!(shown(&tree(nodes)), expected, "{nodes:?}");
    }
}

#[test]
fn an_assigner_and_what_looks_like_one() {
    let member = "/a/members/w~0123456789abcdef";
    let (assignment, held, other) = ("/a/assignments/w", "/a/owned/7~0123456789abcdef.1", "/a/members/x");
    let cases: [Case<'_>; 7] = [
        (
            &[
                (member, 1),
                (assignment, 0),
                (held, -1),
                ("/a/epoch", 0),
                ("/a/config", 0),
                ("/a/leader/latch-0000000001", 1),
            ],
            &["/", "/a assigner 1 1 1 1"],
        ),
        (&[("/a/members", 0), ("/a/assignments", 0), ("/a/epoch", 0)], &["/", "/a assigner 0 0 0 0"]),
        (&[("/a/members", 0), ("/a/assignments", 0), ("/a/owned", 0)], &["/", "/a assigner 0 0 0 0"]),
        (&[(member, 1), (assignment, 0)], &["/", "/a", "/a/assignments", assignment, "/a/members group 1"]),
        (&[(member, 1), ("/a/owned", 0)], &["/", "/a", "/a/members group 1", "/a/owned"]),
        (
            &[(member, 1), (other, 1), (assignment, 0), (held, -1), ("/a/owned/x", 0), ("/a/config/y", 0)],
            &["/", "/a assigner 1 1 1 0", "/a/config", "/a/config/y", "/a/members group 1", "/a/owned", "/a/owned/x"],
        ),
        (&[("/a/assignments/lock-0000000001", 0), ("/a/members", 0), ("/a/epoch", 0)], &["/", "/a assigner 1 0 0 0"]),
    ];
    for (nodes, expected) in cases {
        assert_eq!(shown(&tree(nodes)), expected, "{nodes:?}");
    }
}

#[test]
fn the_members_of_an_assigner_with_what_cannot_be_read() {
    let [one, two, three] = ["000000000000000a", "000000000000000b", "000000000000000c"];
    let record = |registration: &str, assigned: &str, held: &str| {
        format!(r#"{{"member":"{registration}","assigned":[{assigned}],"held":[{held}],"claims":4}}"#)
    };
    let contents = HashMap::from([
        ("/".to_owned(), read(0, 0, "")),
        ("/members".to_owned(), read(0, 1, "")),
        (format!("/members/w-2~{two}"), read(7, 9, "{}")),
        (format!("/members/w-2~{one}"), read(6, 2, "{}")),
        (format!("/members/w-10~{three}"), read(8, 3, "weight 1")),
        (format!("/members/w-11~{three}"), Content::Denied),
        ("/assignments".to_owned(), read(0, 4, "")),
        ("/assignments/w-2".to_owned(), read(0, 5, &record(two, r#""1","10","2""#, r#""10","3""#))),
        ("/assignments/w-10".to_owned(), read(0, 5, &record(one, r#""4""#, ""))),
        ("/assignments/gone".to_owned(), read(0, 6, &record(one, r#""5""#, r#""5""#))),
        ("/assignments/broken".to_owned(), read(0, 6, "x")),
        ("/assignments/secret".to_owned(), Content::Denied),
        ("/config".to_owned(), read(0, 7, r#"{"pins":{"6":"w-2"},"drained":["w-10"],"later":1}"#)),
        ("/epoch".to_owned(), read(0, 8, "w-2")),
        ("/owned".to_owned(), read(0, 8, "")),
        (format!("/owned/10~{two}.4"), Content::Unread),
    ]);
    let found = nodes_of(contents);
    let [Node { recipes, .. }] = &found[..] else { panic!("one node: {found:?}") };
    let text = "partition assigner, 3 present, 3 away, 7 partitions, 1 held\n\
        member \"broken\" away, 0 reserved\n\
        member \"gone\" away, 1 reserved\n\
        member \"secret\" away, 0 reserved\n\
        member \"w-2\" present, 3 assigned, 2 held, 1 handing over, w-2~000000000000000a, session 0x6, token 2, \
        w-2~000000000000000b, session 0x7, token 9\n\
        member \"w-10\" returning, 1 reserved, drained, w-10~000000000000000c, session 0x8, token 3\n\
        member \"w-11\" present, 0 assigned, 0 held, 0 handing over, w-11~000000000000000c, not readable\n\
        unreadable members/w-10~000000000000000c: \"weight 1\": expected value at line 1 column 1\n\
        unreadable members/w-11~000000000000000c: no permission to read it\n\
        unreadable assignments/broken: \"x\": expected value at line 1 column 1\n\
        unreadable assignments/secret: no permission to read it";
    assert_eq!(recipes[0].to_string(), text);
    let Recipe::PartitionAssigner(assigner) = &recipes[0] else { panic!("an assigner: {recipes:?}") };
    assert_eq!(assigner.members[3].assigned, ["1", "2", "10"], "numbers count by their value");
    assert_eq!(assigner.members[3].handing_over().collect::<Vec<_>>(), ["3"]);
}
