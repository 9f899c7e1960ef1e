//! Runs every example as a process, without a server.

#![cfg(unix)]

mod atomic_long;
mod barrier;
mod cache;
mod group_member;
mod health_page;
mod metadata_store;
mod metrics;
mod multi_lock;
mod persistent_node;
mod program;
mod semaphore;
mod service_discovery;
mod service_discovery_tonic;
mod shared_value;

use program::Program;
use rustix::process::Signal;

/// Asks the example to end when it has printed `place`, and waits for its end.
async fn ends_when_asked(path: &str, place: &str, signal: Signal) -> program::Told {
    let mut program = Program::start(path, &[]);
    program.says(place).await;
    program.signal(signal);
    let told = program.ends(0).await;
    told.in_order(&[place, "Asked to end", "Done."]);
    told
}

/// Closes the output of the example when it has printed `place`. Asserts that it ends without an error.
async fn ends_when_its_output_is_closed(path: &str, place: &str) {
    let mut program = Program::start(path, &[]);
    program.says(place).await;
    program.close_output().await.complains_of_nothing();
}

/// Asserts that the option needs a real ensemble: no other process could see one in memory.
async fn needs_a_real_ensemble(path: &str, arguments: &[&str]) {
    refuses(path, arguments, &[&format!("{} needs a real ensemble", arguments[0]), "--connect localhost:2181"]).await;
}

/// Asserts that a bad option ends the example with status 2, and that the error names the value and the allowed ones.
async fn refuses(path: &str, arguments: &[&str], texts: &[&str]) {
    let told = Program::start(path, arguments).ends(2).await;
    texts.iter().for_each(|text| told.complains(text));
}

/// Asserts that `--help` shows the znodes with the chroot, and the default of every option.
async fn helps(path: &str, arguments: &[&str], znodes: &[&str]) {
    let arguments = [&["--connect", "zk1:2181,zk2/app"], arguments, &["--help"]].concat();
    let told = Program::start(path, &arguments).succeeds().await;
    let options =
        ["--connect", "[default: an ensemble in memory]", "--session-timeout", "[default: 8, or 3 in memory]"];
    told.in_order(&options);
    told.in_order(&["--path <PATH>", "[default: /examples/", "on zk1:2181,zk2/app:"]);
    znodes.iter().for_each(|znode| told.in_order(&[&format!("  /app/examples/{znode}  ")]));
}

mod leader_latch {
    use super::*;

    const PROGRAM: &str = env!("CARGO_BIN_EXE_leader_latch");

    #[tokio::test]
    async fn plays_its_scenario() {
        let told = Program::start(PROGRAM, &[]).ends(0).await;
        told.in_order(&[
            "on an ensemble in memory",
            "Four participants have entered",
            "alice leads now.",
            "alice closes her latch",
            "bob leads now.",
            "bob's client closes",
            "carol leads now.",
            "bob: Do I lead? No",
            "carol's process is stopped",
            "dave leads now.",
            "carol's process continues",
            "carol: I was away. Do I lead? No",
            "dave: 1 + 2 + ... + 100 = 5050, under token ",
            "Done.",
        ]);
    }

    #[tokio::test]
    async fn ends_early_when_asked() {
        for (place, signal) in [
            ("Four participants have entered", Signal::INT),
            ("bob leads now.", Signal::TERM),
            // Stopped processes continue first.
            ("carol's process is stopped", Signal::INT),
        ] {
            let told = ends_when_asked(PROGRAM, place, signal).await;
            told.lacks("100 = 5050");
            // Carol prints nothing while the example ends.
            told.lacks("I was away");
        }
    }

    #[tokio::test]
    async fn ends_when_its_output_is_closed() {
        for place in ["An election", "alice leads now.", "carol's process is stopped"] {
            super::ends_when_its_output_is_closed(PROGRAM, place).await;
        }
    }

    #[tokio::test]
    async fn one_participant_needs_a_real_ensemble() {
        needs_a_real_ensemble(PROGRAM, &["--id", "alice"]).await;
    }

    #[tokio::test]
    async fn refuses_bad_options() {
        for bad in ["0", "-1", "x", "86401"] {
            let texts = [&format!("'{bad}' for '--session-timeout <SECONDS>'"), "from 1 to 86400 is allowed"];
            refuses(PROGRAM, &["--session-timeout", bad], &texts).await;
        }
        refuses(PROGRAM, &["--session-timeout", "11"], &["'11'", "the ensemble in memory grants 1 to 10 seconds"])
            .await;
        refuses(PROGRAM, &["--path", "lock"], &["'lock' for '--path <PATH>'", "starts with '/'"]).await;
        refuses(PROGRAM, &["--path", "/a//b"], &["'/a//b' for '--path <PATH>'", "empty element"]).await;
        refuses(PROGRAM, &["--connect", "a:b:c"], &["'a:b:c' for '--connect <HOSTS>'", "host[:port]"]).await;
        refuses(PROGRAM, &["--connect", "a:1", "--id", ""], &["a value is required for '--id <NAME>'"]).await;
    }

    #[tokio::test]
    async fn helps() {
        super::helps(PROGRAM, &[], &["leader-latch-PID"]).await;
        super::helps(PROGRAM, &["--id", "alice"], &["leader-latch"]).await;
    }
}

mod leader_selector {
    use super::*;

    const PROGRAM: &str = env!("CARGO_BIN_EXE_leader_selector");

    #[tokio::test]
    async fn plays_its_scenario() {
        let told = Program::start(PROGRAM, &[]).ends(0).await;
        told.in_order(&[
            "on an ensemble in memory",
            "alice leads now",
            "alice returns",
            "bob leads now",
            "carol leads now",
            "The order was alice, bob, carol, alice, bob, carol.",
            "All participants leave",
            "carol returns, and leads no more",
            "dave leads now",
            "dave is told, and cleans up",
            "dave has cleaned up",
            "dave's term has ended: the leadership was interrupted",
            "erin leads now: dave's znode is gone",
            "Done.",
        ]);
    }

    #[tokio::test]
    async fn ends_early_when_asked() {
        ends_when_asked(PROGRAM, "bob leads now", Signal::INT).await.lacks("The order was");
        ends_when_asked(PROGRAM, "dave leads now", Signal::TERM).await;
    }

    #[tokio::test]
    async fn ends_when_its_output_is_closed() {
        super::ends_when_its_output_is_closed(PROGRAM, "alice leads now").await;
    }

    #[tokio::test]
    async fn one_participant_needs_a_real_ensemble() {
        needs_a_real_ensemble(PROGRAM, &["--id", "alice"]).await;
    }

    #[tokio::test]
    async fn helps() {
        super::helps(PROGRAM, &[], &["leader-selector-PID"]).await;
        super::helps(PROGRAM, &["--id", "alice"], &["leader-selector"]).await;
    }
}

mod read_write_lock {
    use super::*;

    const PROGRAM: &str = env!("CARGO_BIN_EXE_read_write_lock");

    #[tokio::test]
    async fn plays_its_scenario() {
        let told = Program::start(PROGRAM, &[]).ends(0).await;
        told.in_order(&[
            "on an ensemble in memory",
            "dave has written edition 1",
            "dave has written edition 4",
            "4 editions, 18 readings, 0 torn.",
            "Done.",
        ]);
    }

    #[tokio::test]
    async fn ends_early_when_asked() {
        ends_when_asked(PROGRAM, "Three readers", Signal::TERM).await.lacks("18 readings");
        ends_when_asked(PROGRAM, "reads edition", Signal::INT).await.lacks("18 readings");
    }

    #[tokio::test]
    async fn ends_when_its_output_is_closed() {
        super::ends_when_its_output_is_closed(PROGRAM, "Three readers").await;
    }

    #[tokio::test]
    async fn one_participant_needs_a_real_ensemble() {
        needs_a_real_ensemble(PROGRAM, &["--id", "alice"]).await;
        needs_a_real_ensemble(PROGRAM, &["--id", "dave", "--write"]).await;
    }

    #[tokio::test]
    async fn helps() {
        super::helps(PROGRAM, &[], &["read-write-lock-PID-left", "read-write-lock-PID-right"]).await;
        super::helps(PROGRAM, &["--id", "alice"], &["read-write-lock"]).await;
    }
}

mod inter_process_mutex {
    use super::*;

    const PROGRAM: &str = env!("CARGO_BIN_EXE_inter_process_mutex");

    #[tokio::test]
    async fn plays_its_scenario() {
        let told = Program::start(PROGRAM, &[]).ends(0).await;
        told.in_order(&[
            "on an ensemble in memory",
            "carol holds the lock with token ",
            "carol asks: is the lock still held? no",
            "carol writes too late, and is refused",
            "carol writes to the ledger too late, and is refused as well",
            "carol has a new session, and continues",
            "14 writes, 0 overlaps, 1 late write refused.",
            "The tokens grew with every write: yes.",
            "Done.",
        ]);
    }

    #[tokio::test]
    async fn ends_early_when_asked() {
        ends_when_asked(PROGRAM, "Five workers", Signal::TERM).await.lacks("14 writes");
        ends_when_asked(PROGRAM, "writes with token", Signal::INT).await.lacks("14 writes");
    }

    #[tokio::test]
    async fn ends_when_its_output_is_closed() {
        super::ends_when_its_output_is_closed(PROGRAM, "Five workers").await;
    }

    #[tokio::test]
    async fn one_worker_needs_a_real_ensemble() {
        needs_a_real_ensemble(PROGRAM, &["--id", "alice"]).await;
    }

    #[tokio::test]
    async fn helps() {
        super::helps(PROGRAM, &[], &["inter-process-mutex-PID-ledger"]).await;
        super::helps(PROGRAM, &["--id", "alice"], &["inter-process-mutex"]).await;
    }
}

mod double_barrier {
    use super::*;

    const PROGRAM: &str = env!("CARGO_BIN_EXE_double_barrier");

    #[tokio::test]
    async fn plays_its_scenario() {
        let told = Program::start(PROGRAM, &[]).ends(0).await;
        told.in_order(&[
            "on an ensemble in memory",
            "step 1: all members have entered",
            "dave adds 4",
            "step 2: all members have entered",
            "step 5: all members have entered",
            "dave adds 4",
            "Two more enter",
            "frank has left",
            "erin is told: double barrier at /examples/double-barrier-crash: leave",
            "frank enters alone, gives up within a second, and leaves no znode",
            "5 steps: the sum is 50, 0 times out of step",
            "Done.",
        ]);
    }

    #[tokio::test]
    async fn ends_early_when_asked() {
        for (place, signal) in [("step 2: all members have entered", Signal::INT), ("Two more enter", Signal::TERM)] {
            ends_when_asked(PROGRAM, place, signal).await.lacks("the sum is");
        }
    }

    #[tokio::test]
    async fn one_member_needs_a_real_ensemble() {
        needs_a_real_ensemble(PROGRAM, &["--id", "alice"]).await;
    }

    #[tokio::test]
    async fn refuses_bad_options() {
        let arguments = ["--id", "alice", "--connect", "a:1", "--members", "0"];
        refuses(PROGRAM, &arguments, &["'0' for '--members <N>'", "from 1 to 1000 is allowed"]).await;
        refuses(PROGRAM, &["--members", "4"], &["--id <NAME>"]).await;
    }

    #[tokio::test]
    async fn helps() {
        super::helps(PROGRAM, &[], &["double-barrier-PID-crash"]).await;
        super::helps(PROGRAM, &["--id", "alice"], &["double-barrier"]).await;
    }
}

mod distributed_queue {
    use super::*;

    const PROGRAM: &str = env!("CARGO_BIN_EXE_distributed_queue");

    #[tokio::test]
    async fn plays_its_scenario() {
        let told = Program::start(PROGRAM, &[]).ends(0).await;
        told.in_order(&[
            "on an ensemble in memory",
            "100 parcels are in the queue",
            "dave takes parcel ",
            "dave asks: is it still his? no",
            "dave acks too late: ",
            "cannot ship parcel 42, delivery 1",
            "cannot ship parcel 42, delivery 2",
            "parcel 42 is a dead letter: after 2 deliveries, it is damaged",
            "100 parcels put, 99 shipped, 1 dead letter, 0 lost.",
            "Done.",
        ]);
    }

    #[tokio::test]
    async fn ends_early_when_asked() {
        ends_when_asked(PROGRAM, "parcels are in the queue", Signal::TERM).await.lacks("99 shipped");
    }

    #[tokio::test]
    async fn one_process_needs_a_real_ensemble() {
        for arguments in [&["--producer", "olga"][..], &["--worker", "alice"], &["--dead-letters"]] {
            needs_a_real_ensemble(PROGRAM, arguments).await;
        }
    }

    #[tokio::test]
    async fn refuses_bad_options() {
        for other in [&["--producer", "olga"][..], &["--dead-letters"]] {
            refuses(PROGRAM, &[&["--worker", "alice"], other].concat(), &["--worker", "cannot be used with"]).await;
        }
        refuses(PROGRAM, &["--dead-letters", "x"], &["'x'", "list, retry, drop"]).await;
        refuses(PROGRAM, &["--connect", "a:1", "--worker", ""], &["a value is required for '--worker <NAME>'"]).await;
    }

    #[tokio::test]
    async fn helps() {
        for (arguments, base) in [
            (&[][..], "distributed-queue-PID"),
            (&["--worker", "alice"], "distributed-queue"),
            (&["--path", "/examples/q", "--dead-letters"], "q"),
        ] {
            super::helps(PROGRAM, arguments, &[&format!("{base}-producers")]).await;
        }
    }
}

mod throughput_balancer {
    use super::*;

    const PROGRAM: &str = env!("CARGO_BIN_EXE_throughput_balancer");

    #[tokio::test]
    async fn plays_its_scenario() {
        let told = Program::start(PROGRAM, &[]).ends(0).await;
        told.in_order(&[
            "on an ensemble in memory",
            "c1     c2     c3     c4     c5   together   at most",
            "c1 joins        *1000      -      -      -      -       1000      1000",
            "c2 joins                       *500    500      -      -      -       1000      1000",
            "c3 joins                       *333    333    333      -      -        999      1000",
            "c4 joins                       *250    250    250    250      -       1000      1000",
            "c1 closes its client              -   *333    333    333      -        999      1000",
            "c4 leaves                         -   *500    500      -      -       1000      1000",
            "maximum lowered to 500            -   *250    250      -      -        500      1000",
            "c5 joins                          -   *166    166      -    166        498       500",
            "maximum 650                                    450                           150",
            "lowered to 250                                 150                            50",
            "bob leaves                                     200                             -",
            "No member did more than its share",
            "A rolling restart: 12 members",
            "1560│---",
            "│aaa",
            "12 members replaced, 13 leaders",
            "100.0 % at most",
            "Done.",
        ]);
    }

    #[tokio::test]
    async fn ends_early_when_asked() {
        ends_when_asked(PROGRAM, "c3 joins", Signal::TERM).await.lacks("c5 joins");
        ends_when_asked(PROGRAM, "maximum 650", Signal::INT).await.lacks("No member did more");
        ends_when_asked(PROGRAM, "A rolling restart", Signal::TERM).await.lacks("members replaced");
    }

    #[tokio::test]
    async fn ends_when_its_output_is_closed() {
        super::ends_when_its_output_is_closed(PROGRAM, "c2 joins").await;
    }

    #[tokio::test]
    async fn members_and_operators_need_a_real_ensemble() {
        needs_a_real_ensemble(PROGRAM, &["--member"]).await;
        needs_a_real_ensemble(PROGRAM, &["--set-max", "500"]).await;
    }

    #[tokio::test]
    async fn refuses_bad_options() {
        let allowed = "a whole number from 0 to 9223372036854775807 is allowed";
        for bad in ["-1", "x", "99999999999999999999"] {
            refuses(PROGRAM, &["--set-max", bad], &[&format!("'{bad}' for '--set-max <N>'"), allowed]).await;
        }
    }

    #[tokio::test]
    async fn helps() {
        let maximum = "throughput-balancer/global-config/max-throughput";
        super::helps(PROGRAM, &["--member"], &[maximum]).await;
        super::helps(PROGRAM, &[], &["throughput-balancer-PID-restart"]).await;
    }
}

mod partition_assigner {
    use super::*;

    const PROGRAM: &str = env!("CARGO_BIN_EXE_partition_assigner");

    #[tokio::test]
    async fn plays_its_scenario() {
        let told = Program::start(PROGRAM, &[]).ends(0).await;
        told.in_order(&[
            "on an ensemble in memory",
            "alice joins",
            "alice  12: 0-11",
            "bob joins",
            "6 partitions have moved",
            "carol joins",
            "4 partitions have moved",
            "a rolling restart",
            "0 partitions have moved",
            "carol is stopped",
            "4 partitions have moved",
            "carol still owns partition",
            ": false",
            "the ensemble refuses the write",
            "0 partitions have moved",
            "an operator pins partition 0",
            "2 partitions have moved",
            "PartitionAssigner",
            "20 20 20 20 20",
            "0 25 25 25 25",
            "an election for each",
            "a race for each",
            "1301",
            "Every partition had an owner, and never two",
            "Done.",
        ]);
    }

    #[tokio::test]
    async fn ends_early_when_asked() {
        ends_when_asked(PROGRAM, "bob joins", Signal::TERM).await.lacks("carol joins");
        ends_when_asked(PROGRAM, "PartitionAssigner", Signal::INT).await.lacks("Every partition had an owner");
    }

    #[tokio::test]
    async fn ends_when_its_output_is_closed() {
        super::ends_when_its_output_is_closed(PROGRAM, "bob joins").await;
    }

    #[tokio::test]
    async fn helps() {
        super::helps(PROGRAM, &[], &["partition-assigner-PID/team", "partition-assigner-PID/race"]).await;
    }
}
