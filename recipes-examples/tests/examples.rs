//! Every example, as anybody would run it: a process, without any server.

#![cfg(unix)]

mod program;

use program::Program;
use rustix::process::Signal;

/// Asked to end when it has said `place`, it does.
async fn ends_when_asked(path: &str, place: &str, signal: Signal) -> program::Told {
    let mut program = Program::start(path, &[]);
    program.says(place).await;
    program.signal(signal);
    let told = program.ends(0).await;
    told.in_order(&[place, "Asked to end", "Done."]);
    told
}

/// Where nobody reads any more it ends, and says nothing of it.
async fn ends_quietly_when_nobody_reads(path: &str, place: &str) {
    let mut program = Program::start(path, &[]);
    program.says(place).await;
    program.nobody_reads().await.complains_of_nothing();
}

/// Nobody else could see an ensemble in memory.
async fn needs_a_real_ensemble(path: &str, arguments: &[&str]) {
    let told = Program::start(path, arguments).ends(1).await;
    told.complains(&format!(": {} needs a real ensemble", arguments[0]));
    told.complains("--connect localhost:2181");
}

mod leader_latch {
    use super::*;

    const PROGRAM: &str = env!("CARGO_BIN_EXE_leader_latch");

    #[tokio::test]
    async fn plays_its_scenario() {
        let told = Program::start(PROGRAM, &[]).ends(0).await;
        told.in_order(&[
            "on an ensemble in memory",
            "Four stand in line",
            "alice leads now.",
            "alice resigns",
            "bob leads now.",
            "bob's client goes",
            "carol leads now.",
            "bob: Do I lead? No",
            "carol's process is stopped",
            "dave leads now.",
            "carol's process goes on",
            "carol: I was away. Do I lead? No",
            "dave: 1 + 2 + ... + 100 = 5050, under token ",
            "Done.",
        ]);
    }

    #[tokio::test]
    async fn ends_early_when_asked() {
        for (place, signal) in [
            ("Four stand in line", Signal::INT),
            ("bob leads now.", Signal::TERM),
            // Stopped processes are let go on first.
            ("carol's process is stopped", Signal::INT),
        ] {
            let told = ends_when_asked(PROGRAM, place, signal).await;
            told.lacks("100 = 5050");
            // What carol would have said is not said in the end of everything.
            told.lacks("I was away");
        }
    }

    #[tokio::test]
    async fn ends_quietly_when_nobody_reads() {
        for place in ["An election", "alice leads now.", "carol's process is stopped"] {
            super::ends_quietly_when_nobody_reads(PROGRAM, place).await;
        }
    }

    #[tokio::test]
    async fn one_participant_needs_a_real_ensemble() {
        needs_a_real_ensemble(PROGRAM, &["--id", "alice"]).await;
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
            "Everybody leaves",
            "carol returns, and leads no more",
            "dave leads now",
            "dave has been told, and cleans up",
            "dave has cleaned up",
            "erin leads now: dave's node is gone",
            "Done.",
        ]);
    }

    #[tokio::test]
    async fn ends_early_when_asked() {
        ends_when_asked(PROGRAM, "bob leads now", Signal::INT).await.lacks("The order was");
        ends_when_asked(PROGRAM, "dave leads now", Signal::TERM).await;
    }

    #[tokio::test]
    async fn ends_quietly_when_nobody_reads() {
        super::ends_quietly_when_nobody_reads(PROGRAM, "alice leads now").await;
    }

    #[tokio::test]
    async fn one_participant_needs_a_real_ensemble() {
        needs_a_real_ensemble(PROGRAM, &["--id", "alice"]).await;
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
            "carol holds the lock under token ",
            "carol knows: is the lock held? no",
            "carol writes too late and is refused",
            "carol writes to the ledger too late and is refused as well",
            "carol has a new session and goes on",
            "14 writes, 0 overlaps, 1 late writes refused.",
            "The tokens grew with every write: yes.",
            "Done.",
        ]);
    }

    #[tokio::test]
    async fn ends_early_when_asked() {
        ends_when_asked(PROGRAM, "Five workers", Signal::TERM).await.lacks("14 writes");
        ends_when_asked(PROGRAM, "writes under token", Signal::INT).await.lacks("14 writes");
    }

    #[tokio::test]
    async fn ends_quietly_when_nobody_reads() {
        super::ends_quietly_when_nobody_reads(PROGRAM, "Five workers").await;
    }

    #[tokio::test]
    async fn one_worker_needs_a_real_ensemble() {
        needs_a_real_ensemble(PROGRAM, &["--id", "alice"]).await;
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
            "step 1: all are here",
            "dave adds 4",
            "step 2: all are here",
            "step 5: all are here",
            "dave adds 4",
            "Two more enter",
            "frank has left",
            "erin is told: double barrier at /examples/double-barrier-crash: leave",
            "frank waits for a second one in vain",
            "5 steps: the sum is 50, out of step 0 times",
            "Done.",
        ]);
    }

    #[tokio::test]
    async fn ends_early_when_asked() {
        for (place, signal) in [("step 2: all are here", Signal::INT), ("Two more enter", Signal::TERM)] {
            ends_when_asked(PROGRAM, place, signal).await.lacks("the sum is");
        }
    }

    #[tokio::test]
    async fn one_member_needs_a_real_ensemble() {
        needs_a_real_ensemble(PROGRAM, &["--id", "alice"]).await;
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
            "dave knows: is it still his? no",
            "dave acks too late: ",
            "cannot ship parcel 42, delivery 1",
            "cannot ship parcel 42, delivery 2",
            "after 2 deliveries, it is damaged",
            "100 parcels put, 99 shipped, 1 dead letter, 0 lost.",
            "Done.",
        ]);
    }

    #[tokio::test]
    async fn ends_early_when_asked() {
        ends_when_asked(PROGRAM, "parcels are in the queue", Signal::TERM).await.lacks("99 shipped");
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
            "c1 comes        *1000      -      -      -      -       1000      1000",
            "c2 comes                       *500    500      -      -      -       1000      1000",
            "c3 comes                       *333    333    333      -      -        999      1000",
            "c4 comes                       *250    250    250    250      -       1000      1000",
            "c1 goes, its session ends         -   *333    333    333      -        999      1000",
            "c4 leaves                         -   *500    500      -      -       1000      1000",
            "maximum lowered to 500            -   *250    250      -      -        500      1000",
            "c5 comes                          -   *166    166      -    166        498       500",
            "maximum 650                                    450                           150",
            "lowered to 250                                 150                            50",
            "bob leaves                                     200                             -",
            "Nobody did more than its share",
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
        ends_when_asked(PROGRAM, "c3 comes", Signal::TERM).await.lacks("c5 comes");
        ends_when_asked(PROGRAM, "maximum 650", Signal::INT).await.lacks("Nobody did more");
        ends_when_asked(PROGRAM, "A rolling restart", Signal::TERM).await.lacks("members replaced");
    }

    #[tokio::test]
    async fn ends_quietly_when_nobody_reads() {
        super::ends_quietly_when_nobody_reads(PROGRAM, "c2 comes").await;
    }

    #[tokio::test]
    async fn members_and_operators_need_a_real_ensemble() {
        needs_a_real_ensemble(PROGRAM, &["--member"]).await;
        needs_a_real_ensemble(PROGRAM, &["--set-max", "500"]).await;
    }
}

mod partition_controller {
    use super::*;

    const PROGRAM: &str = env!("CARGO_BIN_EXE_partition_controller");

    #[tokio::test]
    async fn plays_its_scenario() {
        let told = Program::start(PROGRAM, &[]).ends(0).await;
        told.in_order(&[
            "on an ensemble in memory",
            "one controller assigns all",
            "20 20 20 20 20",
            "0 25 25 25 25",
            "an election for each",
            "a race for each",
            "1301",
            "Every partition had a leader, and never two: nobody was stopped or cut off.",
            "Done.",
        ]);
    }

    #[tokio::test]
    async fn ends_early_when_asked() {
        ends_when_asked(PROGRAM, "one controller assigns all", Signal::INT).await.lacks("Every partition had a leader");
    }

    #[tokio::test]
    async fn ends_quietly_when_nobody_reads() {
        super::ends_quietly_when_nobody_reads(PROGRAM, "one controller assigns all").await;
    }
}
