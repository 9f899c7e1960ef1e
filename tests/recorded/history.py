"""Plays a history on a server, and writes what is known about it: history CONNECT FILE

Each contender is a process of its own, with a session of its own, that can be killed and stopped. Each line of the file is a
node: who owned it, whether it ever held, and how it ended. `src/inspect/postmortem/tests` compares the server's transaction log
with it.
"""
import json
import pathlib
import signal
import subprocess
import sys
import time
import uuid

from kazoo.client import KazooClient

# Of the sessions, in seconds.
TIMEOUT = 1.0


def main():
    if sys.argv[1] == "contender":
        contender(sys.argv[2])
        return
    connect, file = sys.argv[1], pathlib.Path(sys.argv[2])
    with client(connect, 10) as looker:
        history = History(connect, looker)
        mutex(history)
        read_write(history)
        semaphore(history)
        queue(history)
        # The one that is left must not close its session.
        history.finish()
    file.write_text("".join(json.dumps(line) + "\n" for line in history.lines))
    print(f"{file}: {len(history.lines)} nodes")


def client(connect, timeout):
    """A client that ends with its `with`."""

    class Opened:
        def __enter__(self):
            self.client = KazooClient(hosts=connect, timeout=timeout)
            self.client.start()
            return self.client

        def __exit__(self, *_):
            self.client.stop()

    return Opened()


def contender(connect):
    """Does what it reads: create PATH DATA, delete PATH, close. It answers each with a line."""
    with client(connect, TIMEOUT) as own:
        print(f"{own.client_id[0]:#x}", flush=True)
        for line in sys.stdin:
            what, *words = line.split()
            if what == "close":
                break
            if what == "delete":
                own.delete(words[0])
                print("deleted", flush=True)
            if what == "create":
                print(own.create(words[0], words[1].encode(), ephemeral=True, sequence=True), flush=True)


class Contender:
    """A process with a session."""

    def __init__(self, connect):
        command = [sys.executable, __file__, "contender", connect]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.session = self.process.stdout.readline().strip()

    def ask(self, *words):
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def close(self):
        self.process.stdin.close()
        self.process.wait()

    def signal(self, number):
        self.process.send_signal(number)


class History:
    def __init__(self, connect, looker):
        self.connect, self.looker = connect, looker
        self.lines, self.left = [], []

    def enter(self, path, base, data):
        """A new contender with a node, whose fate is told later."""
        one = Contender(self.connect)
        one.path = one.ask("create", f"{path}/_c_{uuid.uuid4()}-{base}", data)
        one.data = data
        return one

    def write(self, one, path, end, held, by=None, in_second_log=False):
        line = {"path": path, "session": one.session, "data": one.data, "held": held, "end": end, "by": by}
        self.lines.append(line | {"in_second_log": in_second_log})

    def end(self, one, end, held):
        """Ends a contender in this way, and waits until its node is gone."""
        by = None
        if end == "released":
            one.ask("delete", one.path)
        elif end == "session-closed":
            one.close()
        elif end == "session-expired":
            one.signal(signal.SIGSTOP if len(self.lines) % 2 else signal.SIGKILL)
        elif end == "deleted":
            self.looker.delete(one.path)
            by = f"{self.looker.client_id[0]:#x}"
        self.until_gone(one.path)
        self.write(one, one.path, end, held, by)
        self.left.append(one)

    def until_gone(self, path):
        for _ in range(2000):
            if self.looker.exists(path) is None:
                return
            time.sleep(0.01)
        raise TimeoutError(path)

    def finish(self):
        for one in self.left:
            one.signal(signal.SIGKILL)
            one.process.wait()


ENDS = ["released", "session-closed", "session-expired", "deleted"]


def mutex(history):
    """A line of three: the first one ends in each way, and each fifth time the last one, which only waits."""
    path = "/history/mutex"
    history.looker.create(path, makepath=True)
    line = [history.enter(path, "lock-", f"host-{number}") for number in range(3)]
    for number in range(3, 30):
        if number % 5 == 0:
            history.end(line.pop(), ENDS[number // 5 % 4], held=False)
        else:
            history.end(line.pop(0), ENDS[number % 4], held=True)
        line.append(history.enter(path, "lock-", f"host-{number}"))
    holder, *waiting = line
    for one in reversed(waiting):
        history.end(one, "released", held=False)
    # It is there when the server stops, and expires once it is started again.
    history.write(holder, holder.path, "session-expired", held=True, in_second_log=True)
    history.left.append(holder)


def read_write(history):
    """Two readers hold together; the writer behind them holds when both are gone; a reader behind it gives up."""
    path = "/history/read-write"
    history.looker.create(path)
    readers = [history.enter(path, "__READ__", "reader") for _ in range(2)]
    writer = history.enter(path, "__WRIT__", "writer")
    late = history.enter(path, "__READ__", "late")
    history.end(readers[0], "released", held=True)
    history.end(late, "released", held=False)
    history.end(readers[1], "session-expired", held=True)
    history.end(writer, "released", held=True)


def semaphore(history):
    """One takes a permit: its place in the line leaves once it has it. The next one waits for a permit, and gives up."""
    path = "/history/semaphore"
    history.looker.create(f"{path}/locks", makepath=True)
    history.looker.create(f"{path}/leases")
    for held in (True, False):
        one = history.enter(f"{path}/locks", "lock-", "host")
        lease = one.ask("create", f"{path}/leases/_c_{uuid.uuid4()}-lease-", "permit")
        first, last = (one.path, lease) if held else (lease, one.path)
        one.ask("delete", first)
        one.ask("delete", last)
        history.write(one, one.path, "released", held=True)
        one.data = "permit"
        history.write(one, lease, "released", held)
        history.left.append(one)


def queue(history):
    """Items that are done after a return and a lost session, taken without a claim, dead, and left."""
    path = "/history/queue"
    looker = history.looker
    for suffix in ("", "-claims", "-dead"):
        looker.create(f"{path}{suffix}", makepath=True)
    items = [looker.create(f"{path}/queue-", b"item", sequence=True) for _ in range(4)]
    names = [item.rsplit("/", 1)[1] for item in items]
    own = f"{looker.client_id[0]:#x}"
    claims = [f"{path}-claims/{name}" for name in names]

    looker.create(claims[0], ephemeral=True)
    looker.delete(claims[0])
    with client(history.connect, TIMEOUT) as other:
        other.create(claims[0], ephemeral=True)
        closed = f"{other.client_id[0]:#x}"
    looker.create(claims[0], ephemeral=True)
    done = looker.transaction()
    done.delete(items[0])
    done.delete(claims[0])
    done.commit()

    looker.delete(items[1])

    looker.create(claims[2], ephemeral=True)
    dead = looker.transaction()
    dead.delete(items[2])
    dead.delete(claims[2])
    dead.create(f"{path}-dead/letter-{names[2]}-", b"letter", sequence=True)
    dead.commit()

    # A transaction that is refused changes nothing.
    refused = looker.transaction()
    refused.delete(items[3])
    refused.check(path, 7)
    refused.commit()

    for item, end, claimed_by in [
        (items[0], "done", [own, closed, own]),
        (items[1], "taken", []),
        (items[2], "dead-lettered", [own]),
        (items[3], "remains", []),
    ]:
        by = None if end == "remains" else own
        history.lines.append({"path": item, "item": end, "put_by": own, "by": by, "claimed_by": claimed_by})


main()
