use super::*;

const SCOPE: Scope = Scope { addresses: 2, servers: 3 };

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn why(line: &str, scope: Scope) -> String {
    parse(line, scope).expect_err(line)
}

#[test]
fn every_command_is_read() {
    let all = [
        ("wait 1m30s", Command::Wait(seconds(90))),
        ("cut all", Command::Cut(Clients::All)),
        ("refuse 1", Command::Refuse(Clients::Address(0))),
        ("black-hole 2", Command::BlackHole(Clients::Address(1))),
        ("delay 2 250ms", Command::Delay(Clients::Address(1), Duration::from_millis(250))),
        ("lose-reply 1 any applied", Command::LoseReply(Clients::Address(0), None, Loss::Applied)),
        ("grant 2s 2s", Command::Grant(seconds(2)..=seconds(2))),
        ("expire 26", Command::Expire(26)),
        ("stop", Command::Stop),
        ("restart", Command::Restart(Data::Kept)),
        ("restart-empty", Command::Restart(Data::Lost)),
        ("cut-off 2 0s", Command::CutOff(2, Duration::ZERO)),
        ("depose 0 1s", Command::Depose(0, seconds(1))),
        ("heal", Command::Heal),
    ];
    assert!(all.iter().map(|(line, _)| line.split(' ').next()).eq(COMMANDS.iter().map(|(name, ..)| Some(*name))));
    for (line, command) in all {
        assert_eq!(parse(line, SCOPE), Ok(Some(command)), "{line}");
    }
}

#[test]
fn every_way_to_lose_a_reply_has_a_word() {
    for (word, loss) in [
        ("applied", Loss::Applied),
        ("not-applied", Loss::NotApplied),
        ("truncated", Loss::Truncated),
        ("malformed", Loss::Malformed),
    ] {
        let expected = Command::LoseReply(Clients::All, None, loss);
        assert_eq!(parse(&format!("lose-reply all any {word}"), SCOPE), Ok(Some(expected)));
    }
}

#[test]
fn every_kind_of_request_has_a_word() {
    use Operation as Is;
    let kinds = [
        ("create", Is::Create),
        ("delete", Is::Delete),
        ("exists", Is::Exists),
        ("get", Is::GetData),
        ("get-many", Is::GetMany),
        ("set", Is::SetData),
        ("list", Is::List),
        ("get-acl", Is::GetAcl),
        ("set-acl", Is::SetAcl),
        ("multi", Is::Multi),
        ("sync", Is::Sync),
        ("add-watch", Is::AddWatch),
        ("remove-watch", Is::RemoveWatch),
        ("close", Is::Close),
    ];
    for (word, kind) in kinds {
        let expected = Command::LoseReply(Clients::All, Some(kind), Loss::NotApplied);
        assert_eq!(parse(&format!("lose-reply all {word} not-applied"), SCOPE), Ok(Some(expected)));
    }
}

#[test]
fn an_id_of_a_session_is_written_as_zkr_and_servers_write_it() {
    for (word, id) in [("0x1a", 26), ("0xffffffffffffffff", -1), ("-1", -1), ("72057594037927936", 1 << 56)] {
        assert_eq!(parse(&format!("expire {word}"), SCOPE), Ok(Some(Command::Expire(id))), "{word}");
    }
}

#[test]
fn comments_and_spaces_say_nothing() {
    for line in ["", "  \t", "# cut all", "  #", "\r"] {
        assert_eq!(parse(line, SCOPE), Ok(None), "{line:?}");
    }
    assert_eq!(parse("\t cut   1 # the service\r", SCOPE), Ok(Some(Command::Cut(Clients::Address(0)))));
    assert_eq!(words(" cut\t1 # x").collect::<Vec<_>>(), ["cut", "1"]);
}

#[test]
fn what_is_wrong_is_said_with_what_is_allowed() {
    let target = "is not a TARGET; it must be all, or the number of a --listen, 1 to 2";
    let server = "is not a SERVER; it must be the number of a server, 0 to 2";
    let session = "is not a SESSION; it must be a number, such as 0x1a or 26";
    let range = "MIN and MAX must be at least 1ms and at most 24h";
    for (line, expected) in [
        ("CUT all", "there is no command \"CUT\"; it must be one of wait, cut, refuse, "),
        ("wait", "it must be: wait TIME"),
        ("stop now", "it must be: stop"),
        ("delay all", "it must be: delay TARGET TIME"),
        ("lose-reply all create", "it must be: lose-reply TARGET KIND HOW"),
        ("wait 5", "\"5\": it must be a time with its unit, such as 500ms, 30s or 2m"),
        ("delay all soon", "\"soon\": it must be a time with its unit, such as 500ms, 30s or 2m"),
        ("cut-off 0 1", "\"1\": it must be a time with its unit, such as 500ms, 30s or 2m"),
        ("depose 0 1", "\"1\": it must be a time with its unit, such as 500ms, 30s or 2m"),
        ("grant 1 2s", "\"1\": it must be a time with its unit, such as 500ms, 30s or 2m"),
        ("grant 1s 2", "\"2\": it must be a time with its unit, such as 500ms, 30s or 2m"),
        ("cut 0", target),
        ("refuse 3", target),
        ("black-hole x", target),
        ("delay -1 1s", target),
        ("lose-reply 127.0.0.1:0 any applied", target),
        ("lose-reply all read applied", "\"read\" is not a KIND; it must be one of any, create, delete, "),
        ("lose-reply all any x", "\"x\" is not a HOW; it must be one of applied, not-applied, truncated, malformed"),
        ("grant 3s 2s", "MIN must not be more than MAX"),
        ("grant 0s 2s", range),
        ("grant 1s 25h", range),
        ("expire 0x", session),
        ("expire 1a", session),
        ("expire 0x1ffffffffffffffff", session),
        ("cut-off 3 1s", server),
        ("depose one 1s", server),
        ("\u{1b}[2J", "there is no command \"\\u{1b}[2J\""),
    ] {
        let why = why(line, SCOPE);
        assert!(why.contains(expected), "{line}: {why}");
    }
}

#[test]
fn what_is_allowed_follows_the_options() {
    let alone = Scope { addresses: 1, servers: 1 };
    for line in ["cut-off 0 1s", "depose 0 1s"] {
        assert_eq!(why(line, alone), "there is only one server; this needs --servers 2 or more");
    }
    assert_eq!(why("cut 2", alone), "\"2\" is not a TARGET; it must be all, or 1 for the --listen");
    assert_eq!(parse("cut 1", alone), Ok(Some(Command::Cut(Clients::Address(0)))));
}

#[test]
fn the_help_has_every_command_and_every_kind() {
    let help = help();
    for (name, arguments, what) in COMMANDS {
        assert!(help.contains(format!("  {name} {arguments}").trim_end()) && help.contains(what), "{name}");
    }
    assert!(KINDS.iter().all(|(name, _)| help.contains(name)));
}
