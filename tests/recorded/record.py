"""Records the nodes that Curator's and kazoo's own code creates: record CONNECT JAVA_COMMAND...

Each node is a line of `curator.jsonl` or `kazoo.jsonl`, in the order of creation. Each character of `data` is a byte,
and `session` is the owner of an ephemeral node.
"""
import json
import pathlib
import subprocess
import sys
import threading
import time

from kazoo.client import KazooClient

HOME = pathlib.Path(__file__).parent
ROOT = "/kazoo"


def main():
    connect, java = sys.argv[1], sys.argv[2:]
    looker = client(connect)
    curator = subprocess.Popen(java + [connect], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert curator.stdout.readline() == "ready\n", "its standard error says why"
    write("curator", looker)
    curator.stdin.close()
    curator.wait()
    kazoo(looker, *(client(connect) for _ in range(4)))
    write("kazoo", looker)


def client(connect):
    started = KazooClient(hosts=connect, timeout=20)
    started.start()
    return started


def write(library, looker):
    nodes = sorted(below(looker, f"/{library}"), key=lambda node: (node["czxid"], node["path"]))
    lines = [json.dumps(node) for node in nodes]
    (HOME / f"{library}.jsonl").write_text("\n".join(lines) + "\n")
    print(f"{library}: {len(lines)} nodes")


def below(looker, path):
    data, stat = looker.get(path)
    yield {
        "path": path,
        "data": data.decode("latin-1"),
        "session": stat.ephemeralOwner,
        "version": stat.version,
        "cversion": stat.cversion,
        "czxid": stat.czxid,
        "ctime": stat.ctime,
    }
    for name in looker.get_children(path):
        yield from below(looker, f"{path}/{name}")


def kazoo(looker, one, two, three, four):
    """Creates the nodes of kazoo's recipes below `ROOT`. Each host has a session."""

    def at(path):
        return f"{ROOT}/{path}"

    def until(path, number):
        """Waits until a directory has so many nodes."""
        for _ in range(3000):
            if looker.exists(at(path)) and len(looker.get_children(at(path))) == number:
                return
            time.sleep(0.01)
        raise TimeoutError(f"{path} has not {number}")

    def waits(path, number, work, *arguments):
        threading.Thread(target=work, args=arguments, daemon=True).start()
        until(path, number)

    one.Lock(at("lock"), "host-1").acquire()
    waits("lock", 2, two.Lock(at("lock"), "host-2").acquire)

    one.ReadLock(at("read-write"), "host-1").acquire()
    waits("read-write", 2, two.WriteLock(at("read-write"), "host-2").acquire)
    waits("read-write", 3, three.ReadLock(at("read-write"), "host-3").acquire)

    one.Semaphore(at("semaphore"), "host-1", max_leases=2).acquire()
    two.Semaphore(at("semaphore"), "host-2", max_leases=2).acquire()
    waits("semaphore-__lock__", 1, three.Semaphore(at("semaphore"), "host-3", max_leases=2).acquire)
    waits("semaphore-__lock__", 2, four.Semaphore(at("semaphore"), "host-4", max_leases=2).acquire)

    # Its first round is over, so that its directories alone are left.
    idle = one.Semaphore(at("semaphore-idle"), "host-1", max_leases=2)
    idle.acquire()
    idle.release()

    waits("election", 1, one.Election(at("election"), "host-1").run, threading.Event().wait)
    waits("election", 2, two.Election(at("election"), "host-2").run, threading.Event().wait)

    for number, member in enumerate((one, two), start=1):
        member.Party(at("party"), f"host-{number}").join()
        member.ShallowParty(at("shallow-party"), f"host-{number}").join()

    one.Barrier(at("barrier")).create()
    waits("double-barrier", 1, one.DoubleBarrier(at("double-barrier"), 2, "host-1").enter)
    waits("double-barrier-open", 1, one.DoubleBarrier(at("double-barrier-open"), 2, "host-1").enter)
    two.DoubleBarrier(at("double-barrier-open"), 2, "host-2").enter()

    queue = one.Queue(at("queue"))
    queue.put(b"a cup")
    queue.put(b"a plate", priority=7)
    locking = one.LockingQueue(at("locking-queue"))
    locking.put_all([b"a cup", b"a plate", b"a spoon"])
    assert two.LockingQueue(at("locking-queue")).get() == b"a cup"

    counter = one.Counter(at("counter"))
    counter += 3


main()
