"""Plays each fault against each library, and prints what came of it as a table."""
import argparse
import concurrent.futures
import pathlib
import statistics
import sys
import threading
import time

from play import ROWS, Result, play

LIBRARIES = {
    "ours-mutex": ("this library, mutex", "rust", "mutex"),
    "ours-session": ("this library, mutex, policy Session", "rust", "session"),
    "ours-latch": ("this library, latch", "rust", "latch"),
    "curator-mutex": ("Curator, mutex", "java", "mutex"),
    "curator-latch": ("Curator, latch", "java", "latch"),
    "kazoo-lock": ("kazoo, Lock", "python", "lock"),
    "client-lock": ("zookeeper-client, lock", "rust", "client"),
}


class Lateness:
    """How late a thread woke at most: whether the machine is quick enough for what is measured."""

    def __init__(self):
        self.worst = 0
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            began = time.monotonic()
            time.sleep(0.01)
            self.worst = max(self.worst, time.monotonic() - began - 0.01)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--zkr", required=True, help=argparse.SUPPRESS)
    for language in ("rust", "java", "python"):
        parser.add_argument(f"--{language}", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--versions", default="", help=argparse.SUPPRESS)
    parser.add_argument("--traces", required=True, type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--row", action="append", choices=ROWS, help="only this fault; may be repeated")
    parser.add_argument("--library", action="append", choices=LIBRARIES, help="only this library; may be repeated")
    parser.add_argument("--times", type=int, default=3, help="how often each is played (default 3)")
    parser.add_argument("--number", type=int, help="only this one of the times, from 1")
    parser.add_argument("--seed", type=int, default=1, help="decides the moments of the faults (default 1)")
    parser.add_argument("--jobs", type=int, default=7, help="how many are played at once (default 7)")
    parser.add_argument("--trace", action="store_true", help="print what each process said")
    return parser.parse_args()


def one(options, row, library, number):
    _, language, kind = LIBRARIES[library]
    command = [*getattr(options, language).split(), kind]
    try:
        result = play(options.zkr, command, row, options.seed, number)
    except (RuntimeError, OSError, AssertionError) as error:
        result = Result(failed=repr(error), trace=[(0, "lab", repr(error))])
    start = result.trace[0][0]
    lines = [f"{at - start:9.2f} {name} {line}" for at, name, line in sorted(result.trace, key=lambda entry: entry[0])]
    (options.traces / f"{row}.{library}.{number}.txt").write_text("\n".join(lines) + "\n")
    if options.trace:
        print(f"{row} {library} {number}", *lines, sep="\n", flush=True)
    return result


def of(some, results):
    return "" if len(some) == len(results) else f" ({len(some)} of {len(results)})"


def cell(results):
    """What came of a fault with one library, in as few words as that takes."""
    parts = [result.failed for result in results if result.failed][:1]
    two = [result.overlap for result in results if result.overlap]
    if any(result.to_the_end for result in results):
        parts.append(f"**two, to the end**{of(two, results)}")
    elif two:
        parts.append(f"two for {max(two):.{0 if max(two) >= 10 else 1}f} ms{of(two, results)}")
    hangs = [result for result in results if result.hang]
    if hangs:
        parts.append(f"**hang**{of(hangs, results)}")
    for name, what in (("nodes", "left"), ("orphans", "orphans"), ("sessions", "more sessions")):
        most = max(getattr(result, name) for result in results)
        if most > 0:
            parts.append(f"{what}: {most}")
    again = [result.again for result in results if result.again is not None]
    if again:
        middle = statistics.median(again)
        parts.append(f"{middle / 1000:.2f} s" if middle else "kept")
    return ", ".join(parts)


def table(rows, libraries, results):
    yield "| fault | " + " | ".join(LIBRARIES[library][0] for library in libraries) + " |"
    yield "|---" * (len(libraries) + 1) + "|"
    for row in rows:
        cells = (cell(results[row, library]) for library in libraries)
        yield f"| {ROWS[row][0]} | " + " | ".join(cells) + " |"


def faults_of_ours(results):
    """What must not happen to this library. By hand, sessions are ended before any clock can tell."""
    for (row, library), played in results.items():
        if library.startswith("ours"):
            for number, result in enumerate(played, 1):
                two = result.asked and row not in ("expire", "restart-empty")
                if two or result.hang or result.nodes > 0 or result.orphans or result.failed:
                    yield f"{row} {library} {number}"


def main():
    options = arguments()
    options.traces.mkdir(parents=True, exist_ok=True)
    rows, libraries = options.row or list(ROWS), options.library or list(LIBRARIES)
    numbers = [options.number] if options.number else range(1, options.times + 1)
    lateness, began = Lateness(), time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        # All libraries at once in a row, so that what else the machine does concerns them alike.
        played = {(row, library, number): pool.submit(one, options, row, library, number)
                  for row in rows for number in numbers for library in libraries}
        results = {(row, library): [played[row, library, number].result() for number in numbers]
                   for row in rows for library in libraries}
    print(*table(rows, libraries, results), sep="\n")
    asked = max(result.asked for results in results.values() for result in results)
    print(f"\n`is_held()` of this library, asked each millisecond, said yes to two for at most {asked:.1f} ms.\n{options.versions}")
    print(f"Seed {options.seed}, {len(numbers)} times each, {time.monotonic() - began:.0f} s; "
          f"a thread of the lab woke at most {lateness.worst * 1000:.0f} ms late.")
    faults = list(faults_of_ours(results))
    if faults:
        sys.exit("lab: this library failed: " + ", ".join(faults))


main()
