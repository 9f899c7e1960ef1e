# What .ci/run and .ci/full share. Sourced; goes to the root of the repository.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export CARGO_TERM_COLOR=never CARGO_INCREMENTAL=0
# Debug information takes time to build and link, and disk; a panic tells its line without it.
export CARGO_PROFILE_DEV_DEBUG=0
target=${CARGO_TARGET_DIR:-target}

# One set of features for clippy, the documentation and all tests, so that each crate is built once for them.
everything=(--workspace --all-features)

# Names a step. The times of all are printed at the end.
steps=() began=()
step() {
    steps+=("$*")
    began+=("$SECONDS")
    printf '\n== %s (%(%H:%M:%S)T)\n' "$*" -1
}

summary() {
    local number end
    began+=("$SECONDS")
    printf '\n%8s  step\n' seconds
    for number in "${!steps[@]}"; do
        printf '%8d  %s\n' "$((began[number + 1] - began[number]))" "${steps[number]}"
    done
    printf '%8d  in all\n' "$SECONDS"
}

# What this run starts has this label, by the tests too (tests/support/leftovers.rs). Nothing else is removed.
export ZOOKEEPER_RECIPES_RUN=$HOSTNAME-$$-$EPOCHREALTIME
own=label=zookeeper-recipes.run=$ZOOKEEPER_RECIPES_RUN

# Removes what a test run that was killed may have left.
clean_up() {
    docker ps -aq --filter "$own" 2>/dev/null | xargs -r docker rm -fv >/dev/null 2>&1 || true
    docker network ls -q --filter "$own" 2>/dev/null | xargs -r docker network rm >/dev/null 2>&1 || true
}

finish() {
    local status=$?
    clean_up
    [ ${#steps[@]} -gt 0 ] || return
    summary
    if [ "$status" -eq 0 ]; then echo "ci: all passed"; else echo "ci: failed in: ${steps[-1]}" >&2; fi
}
trap finish EXIT
# Otherwise a run that is ended from outside would report that all has passed.
trap 'exit 143' TERM
trap 'exit 130' INT

# What is missing is installed, and a daemon that does not run is started, unless the script was told not to.
no_install=
if [ "${1:-}" = --no-install ]; then
    no_install=1
    shift
fi
no_more_arguments() {
    [ $# -eq 0 ] && return
    echo "usage: $0 [--no-install]; there is no $*" >&2
    exit 2
}
may_install() {
    [ -z "$no_install" ] && return
    echo "ci: $1 is missing, and --no-install was given" >&2
    exit 1
}

ensure_engine() {
    docker info >/dev/null 2>&1 && return
    may_install "a Docker engine that runs"
    if ! command -v dockerd >/dev/null; then
        step "installing a Docker engine"
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends docker.io iptables
    fi
    step "starting the Docker engine"
    (dockerd >/tmp/dockerd.log 2>&1 &)
    for _ in $(seq 60); do docker info >/dev/null 2>&1 && return; sleep 1; done
    tail -n 20 /tmp/dockerd.log >&2
    echo "ci: no Docker engine is running and none could be started" >&2
    exit 1
}

# For .ci/check-layers, and for kazoo in the tests.
ensure_python() {
    python3 -c 'import ensurepip, venv' 2>/dev/null && return
    may_install "python3 with venv"
    step "installing python3"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3 python3-venv
}

# For the tests beside Curator's own code, and for the benchmark of the cache, which does without it elsewhere.
ensure_curator() {
    ! command -v apt-get >/dev/null && return
    [ -e /usr/share/java/curator-recipes.jar ] && [ -e /usr/share/java/curator-x-discovery.jar ] &&
        command -v javac >/dev/null && return
    may_install "Curator (Debian's libcurator-recipes-java and libcurator-discovery-java) or a JDK"
    step "installing Curator"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends libcurator-recipes-java \
        libcurator-discovery-java default-jdk-headless
}

# What builds gssapi: the headers of Kerberos, and the parser of bindgen.
ensure_kerberos() {
    ! command -v apt-get >/dev/null && return
    command -v pkg-config >/dev/null && pkg-config --exists mit-krb5-gssapi &&
        compgen -G '/usr/lib/llvm-*/lib/libclang[-.][0-9s]*' >/dev/null && return
    may_install "a header of Kerberos, libclang or pkg-config (Debian's libkrb5-dev, libclang-dev and pkg-config)"
    step "installing what builds gssapi"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends libkrb5-dev libclang-dev pkg-config
}

# What must hold of the source.
CHECKS=(source layers lengths words guide)

check_source() {
    local name
    for name in "${CHECKS[@]}"; do
        step ".ci/check-$name"
        ".ci/check-$name"
    done
}

# The guide as a book, with pictures that are as their script draws them. The program that makes it is built once for each
# target directory, where it is not installed.
build_guide() {
    step "the guide, as a book"
    docs/guide/pictures.py --check
    local tools
    tools=$(realpath -m "$target/tools")
    PATH=$PATH:$tools/bin
    command -v mdbook >/dev/null ||
        cargo install --quiet --locked --debug mdbook --version 0.5.4 --no-default-features --features search --root "$tools"
    mdbook build docs/guide
}

check_crate() {
    step "cargo fmt"
    cargo fmt --all --check

    step "cargo clippy"
    cargo clippy "${everything[@]}" --all-targets -- -D warnings

    step "each feature alone"
    # Clippy, because its `-D warnings` concerns this crate alone: all others are checked once for all features.
    for feature in "" $(awk '/^\[/ { inside = $0 == "[features]" } inside && /^[a-z0-9-]+ = / && $1 != "default" { print $1 }' Cargo.toml); do
        echo "feature: ${feature:-none}"
        cargo clippy --quiet --lib --no-default-features --features "$feature" -- -D warnings
    done
    echo "feature: those that are on by default"
    cargo clippy --quiet --lib -- -D warnings

    step "cargo doc"
    RUSTDOCFLAGS="-D warnings" cargo doc "${everything[@]}" --no-deps

    step "cargo check, zkr as it is installed"
    # Without the dependencies of its tests, whose features would be there for it as well.
    cargo check -p zkr

    step "cargo check, the tests that need no Docker engine"
    cargo check --workspace --tests

    if command -v cargo-deny >/dev/null; then
        step "cargo deny"
        cargo deny --all-features check
    fi
}

# All tests that README.md names, with the optimization level $1; how much of the simulation is played is in the environment.
#
# Most of the time of a test that is run once is that of building it, which optimization multiplies; and most of the time of
# the simulation is that of playing. So it is built again, optimized, and the first run plays a few seeds of it alone.
test_all() {
    step "building all tests"
    CARGO_PROFILE_TEST_OPT_LEVEL=$1 cargo test "${everything[@]}" --no-run

    step "cargo test ${everything[*]}, with real ZooKeeper, TLS, SASL and kazoo"
    env -u SIMULATION_SECONDS SEEDS=30 CARGO_PROFILE_TEST_OPT_LEVEL="$1" cargo test "${everything[@]}"

    step "building the simulation, optimized"
    CARGO_PROFILE_TEST_OPT_LEVEL=2 cargo test "${everything[@]}" --test simulation --no-run

    step "the simulation, ${SEEDS:+$SEEDS new seeds}${SIMULATION_SECONDS:+$SIMULATION_SECONDS s of new seeds} a recipe"
    # What is played, and from which seed, is printed in any case.
    CARGO_PROFILE_TEST_OPT_LEVEL=2 cargo test "${everything[@]}" --test simulation -- --nocapture
}

# The package for Kerberos is a workspace of its own, so that the others build without its headers. Its tests need a server
# whose Java knows Kerberos, as the official image's does; an image that was built without is built again.
test_gssapi() (
    target=$(realpath -m "$target")
    export CARGO_TARGET_DIR=$target CARGO_PROFILE_TEST_OPT_LEVEL=$1
    image=zookeeper:3.9
    if [ "${ZOOKEEPER_IMAGE:-$image}" = "$image" ] && docker image inspect "$image" >/dev/null 2>&1; then
        modules=$(docker run --rm --"$own" "$image" java --list-modules)
        [[ $modules == *jdk.security.jgss* ]] || tests/image/build.sh "$image"
    fi
    cd gssapi
    cargo fmt --check
    cargo clippy --all-targets -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --no-deps
    if command -v cargo-deny >/dev/null; then cargo deny --all-features check --config ../deny.toml; fi
    # They mostly wait: for servers that start, and for tickets that expire.
    RUST_TEST_THREADS=6 cargo test
)

# Each example, and what it says at its end, in memory and on a server.
examples() {
    cat <<'END'
leader_latch|dave: 1 + 2 + ... + 100 = 5050|carol: 1 + 2 + ... + 100 = 5050
leader_selector|erin leads now|erin leads now
inter_process_mutex|14 writes, 0 overlaps, 1 late write refused|14 writes, 0 overlaps, 1 late write refused
read_write_lock|4 editions, 18 readings, 0 torn|4 editions, 18 readings, 0 torn
multi_lock|15 transfers, the sum is 300 as before|15 transfers, the sum is 300 as before
semaphore|24 jobs, at most 3 at a time|24 jobs, at most 3 at a time
barrier|0 of them during 2 maintenances|0 of them during 2 maintenances
double_barrier|5 steps: the sum is 50, 0 times out of step|5 steps: the sum is 50, 0 times out of step
persistent_node|outlived a deletion by hand and a lost session|outlived a deletion by hand
shared_value|followed 3 modes, and the limit is 15|followed 3 modes, and the limit is 15
cache|Both services have the 3 settings of the operator|Both services have the 4 settings of the operator
group_member|members: alice, bob, carol|members: alice, bob, carol
service_discovery|60 calls, 0 unanswered|60 calls, 0 unanswered
service_discovery_tonic|repeated, 0 unanswered|repeated, 0 unanswered
distributed_queue|100 parcels put, 99 shipped, 1 dead letter, 0 lost|100 parcels put, 99 shipped, 1 dead letter, 0 lost
metrics|15 locks acquired, 11 orders acked, 1 dead letter|15 locks acquired, 11 orders acked, 1 dead letter
health_page|The page said 200, 503, 200|The page said 200
metadata_store|the schema has all 4 columns|the schema has all 4 columns
atomic_long|30 tickets, each number once, for 675|30 tickets, each number once, for 675
throughput_balancer|No member did more than its share|No member did more than its share
partition_assigner|Every partition had an owner, and never two|Every partition had an owner, and never two
END
}

# Plays one example to its end: its name, what it must say, and its options. The tests have built it.
play() {
    local name=$1 words=$2 out=$target/$1.out
    shift 2
    if timeout 60 "$target/debug/$name" "$@" </dev/null >"$out" 2>&1 && grep -qF "$words" "$out"; then
        echo "$name: $words"
    else
        cat "$out"
        echo "ci: the example $name did not say: $words" >&2
        return 1
    fi
}

# Plays all examples at once, they mostly wait. The column of what they must say, and their options.
play_all() {
    local column=$1 pids=() failed=0 pid name memory server
    shift
    while IFS='|' read -r name memory server; do
        if [ "$column" = memory ]; then (unset ZOOKEEPER_CONNECT; play "$name" "$memory") & else play "$name" "$server" "$@" & fi
        pids+=($!)
    done < <(examples)
    for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
    return "$failed"
}

# The queue as processes: a producer and two workers, of which one is killed while it has a parcel. Each parcel is shipped in the
# end, that one by the other worker. In a subshell, so that whatever happens no process is left.
play_processes() (
    queue=("$target/debug/distributed_queue" --session-timeout 4 --path "/examples/processes-$$" "$@")
    out=$target/processes
    mkdir -p "$out"
    timeout -s KILL 90 "${queue[@]}" --producer anna >"$out/anna" 2>&1 & producer=$!
    "${queue[@]}" --worker zoe >"$out/zoe" 2>&1 & killed=$!
    timeout -s KILL 90 "${queue[@]}" --worker wim >"$out/wim" 2>&1 & worker=$!
    # Mostly there is nothing left to kill, which must not fail the step.
    trap 'kill -KILL "$killed" 2>/dev/null || true; pkill -KILL -P "$producer,$worker" 2>/dev/null || true' EXIT
    failed() {
        tail -n 50 "$out"/*
        echo "ci: the queue of several processes: $1" >&2
        exit 1
    }
    # What zoe has, and has not shipped.
    in_hand() { grep -oE 'has anna-[0-9]+,' "$out/zoe" | grep -oE 'anna-[0-9]+' | while read -r name; do grep -qE "shipped $name\$" "$out/zoe" || echo "$name"; done; }
    shipped() { grep -qE "shipped $1\$" "$out/wim" "$out/zoe"; }
    # Resolves when a command succeeds, for half a minute at most.
    until_() { local end=$((SECONDS + 30)); until "$@"; do [ "$SECONDS" -lt "$end" ] || return 1; sleep 0.1; done; }
    several() { [ "$(grep -c shipped "$out/zoe")" -ge 2 ] && [ -n "$(in_hand)" ]; }

    until_ several || failed "zoe ships nothing"
    kill -KILL "$killed"
    wait "$killed" || true # it was killed
    parcel=$(in_hand)
    pkill -INT -P "$producer" || failed "the producer has ended by itself"
    wait "$producer" || failed "the producer failed"
    # The session of zoe ends, and its parcel is delivered once more.
    for name in $(grep -oE 'put anna-[0-9]+;' "$out/anna" | grep -oE 'anna-[0-9]+'); do
        until_ shipped "$name" || failed "$name is lost"
    done
    [ -z "$parcel" ] || grep -q "has $parcel, delivery 2 of 3" "$out/wim" || failed "$parcel was not delivered again"
    pkill -INT -P "$worker" || failed "the worker has ended by itself"
    wait "$worker" || failed "the worker failed"
    echo "distributed_queue, as processes: $(grep -c 'put anna' "$out/anna") parcels put, one worker killed, none lost"
)

play_examples() {
    step "the examples, without any server"
    play_all memory

    step "the examples, on a real ZooKeeper"
    local server hosts
    server=$(docker run -d --"$own" -p 127.0.0.1::2181 "${ZOOKEEPER_IMAGE:-zookeeper:3.9}")
    hosts=$(docker port "$server" 2181/tcp | head -n 1)
    for _ in $(seq 60); do docker exec "$server" zkServer.sh status >/dev/null 2>&1 && break; sleep 0.5; done
    local processes failed=0
    play_processes --connect "$hosts" &
    processes=$!
    play_all server --connect "$hosts" || failed=1
    wait "$processes" || failed=1
    return "$failed"
}
