# What the judges share: the two servers on which each is played. Sourced; goes to the root of the repository.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
target=${CARGO_TARGET_DIR:-$PWD/target}
here=$PWD/tests/judges/${judge:?}
home=$target/judges/$judge
mkdir -p "$home"

started=() containers=()
end_servers() {
    [ "${#started[@]}" -eq 0 ] || kill "${started[@]}" 2>/dev/null || true
    [ "${#containers[@]}" -eq 0 ] || docker rm -fv "${containers[@]}" >/dev/null 2>&1 || true
}
trap end_servers EXIT

# Starts `zkr serve`; its connect string is in $connect.
serve() {
    cargo build --quiet -p zkr
    rm -f "$home/connect"
    mkfifo "$home/connect"
    "$target/debug/zkr" serve --extended-types --listen 127.0.0.1:0 "$@" >"$home/connect" 2>"$home/serve.log" &
    started+=($!)
    read -r connect <"$home/connect"
}

# Starts a real server; its connect string is in $connect. It looks for spent containers twice a second.
start_real() {
    local label=() name
    [ -z "${ZOOKEEPER_RECIPES_RUN:-}" ] || label=(--label "zookeeper-recipes.run=$ZOOKEEPER_RECIPES_RUN")
    name=$(docker run -d "${label[@]}" -p 127.0.0.1::2181 -e ZOO_4LW_COMMANDS_WHITELIST='*' \
        -e ZOO_MAX_CLIENT_CNXNS=0 -e ZOO_ADMINSERVER_ENABLED=false \
        -e JVMFLAGS='-Dzookeeper.extendedTypesEnabled=true -Dznode.container.checkIntervalMs=500' \
        "${ZOOKEEPER_IMAGE:-zookeeper:3.9}")
    containers+=("$name")
    connect=$(docker port "$name" 2181/tcp | head -n 1)
    for _ in $(seq 120); do docker exec "$name" zkServer.sh status >/dev/null 2>&1 && return; sleep 0.5; done
    echo "the real server does not start" >&2
    return 1
}

# Compares two runs, of lines `name: ok` and `name: failed: reason`: what passes on a real server must pass on
# `zkr serve`, but for the names in the rest of the arguments, each a known lack.
compare() {
    local served=$1 real=$2 lacks=() missing=0 passed
    shift 2
    lacks=("$@")
    is_lack() { local lack; for lack in "${lacks[@]}"; do [ "$lack" != "$1" ] || return 0; done; return 1; }
    while read -r passed; do
        grep -qxF "$passed: ok" "$served" && continue
        if is_lack "$passed"; then echo "on a real server alone, as known: $passed"; continue; fi
        missing=$((missing + 1))
        echo "on a real server alone: $(grep -F "$passed: " "$served" || echo "$passed")"
    done < <(passed "$real")
    while read -r passed; do
        grep -qxF "$passed: ok" "$real" || echo "on zkr serve alone: $(grep -F "$passed: " "$real" || echo "$passed")"
        ! is_lack "$passed" || { missing=$((missing + 1)); echo "no longer a lack: $passed"; }
    done < <(passed "$served")
    grep -v ': ok$' "$real" | sed 's/^/on a real server: /' || true
    echo "$(passed "$served" | wc -l) checks pass on zkr serve, $(passed "$real" | wc -l) on a real server"
    [ "$missing" -eq 0 ] && [ -n "$(passed "$real")" ]
}

passed() { sed -n 's/: ok$//p' "$1"; }
