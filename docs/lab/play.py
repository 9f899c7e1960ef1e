"""One scenario of the lab: two workers, one fault, and what came of it."""
import os
import random
import signal
import time
from dataclasses import dataclass, field

from wire import Observer, Servers, Worker, children, connections, now

TIMEOUT = 4000  # T, the session timeout, in milliseconds
TICK = 500
SETTLE = TIMEOUT + 2000  # how long is looked on after the end of the fault
PATIENCE = 3 * TIMEOUT  # a lock that is free for so long, and not taken by one who waits: a hang
SMALL = 1000  # the smaller timeout that is granted
DIRECTORY = "/lab/lock"


@dataclass
class Result:
    overlap: float = 0  # milliseconds with two holders
    asked: float = 0  # the same by what the library answers, if the worker asks it all the time
    to_the_end: bool = False  # both held still when the lab made them release
    failed: str = ""  # why the fault could not be played
    hang: bool = False
    nodes: int = 0  # left in the directory while the sessions of the workers live, and neither contends
    orphans: int = 0  # left after the end of both workers and a session timeout
    sessions: int = 0  # more than one for each worker, before they end
    again: float | None = None  # milliseconds until the lock was of use again, 0 if it was all the time
    trace: list = field(default_factory=list)


class NotPlayed(Exception):
    """Something that a fault needs is missing."""


class Stage:
    """The servers with an address for each worker and one for the lab."""

    def __init__(self, zkr, command, dialect, moments):
        self.random, self.trace = moments, []
        self.servers = Servers(zkr, dialect, TICK, 3, self.trace)
        self.address = self.servers.addresses[2]
        with Observer(self.address) as observer:
            observer.create("/lab")
            observer.create(DIRECTORY)
        self.a, self.b = (
            Worker([*command, self.servers.addresses[number], DIRECTORY, str(TIMEOUT), str(TICK)], self.trace, name)
            for number, name in enumerate("AB"))
        self.contending = []
        self.frozen = {}
        self.fault_at = None
        for worker in (self.a, self.b):
            self.need(worker.until(lambda worker=worker: worker.session, 20), "connected")

    def need(self, true, what):
        if not true:
            raise NotPlayed(f"never {what}")

    def mark(self):
        """The moment of the fault."""
        self.fault_at = now()
        self.trace.append((self.fault_at, "lab", "the fault"))

    def command(self, line):
        self.servers.command(line)

    def acquire(self, worker):
        worker.tell("acquire")
        self.contending.append(worker)

    def release(self, worker):
        worker.tell("release")
        self.contending.remove(worker)
        self.need(worker.until(lambda: not worker.believes(), 5), "released")

    def hold_and_wait(self):
        """A holds and B waits, for a moment that is drawn."""
        self.acquire(self.a)
        self.need(self.a.until(self.a.believes, 10), "held")
        self.acquire(self.b)
        self.until_nodes(2)
        self.pause(300, 300 + TICK)

    def until_nodes(self, number):
        deadline = now() + 10_000
        while len(children(self.address, DIRECTORY)) < number:
            self.need(now() < deadline, "two nodes")
            time.sleep(0.05)

    def pause(self, least, most=None):
        time.sleep(self.random.uniform(least, most or least) / 1000)

    def freeze(self, worker, meanwhile=lambda: None):
        """Stops a process for longer than its session lives."""
        began = now()
        os.kill(worker.process.pid, signal.SIGSTOP)
        meanwhile()
        time.sleep(max(0, began + 1.5 * TIMEOUT - now()) / 1000)
        self.frozen[worker] = (began, now())
        os.kill(worker.process.pid, signal.SIGCONT)
        self.trace.append((now(), "lab", f"{worker.name} goes on"))

    def holders(self):
        return [worker for worker in (self.a, self.b) if worker.believes()]

    def end(self):
        for worker in (self.a, self.b):
            worker.tell("quit")
        for worker in (self.a, self.b):
            worker.end(5)


def cut(target):
    def fault(stage):
        stage.hold_and_wait()
        stage.mark()
        stage.command(f"cut {target}")
    return fault


def freeze(stage):
    stage.hold_and_wait()
    stage.mark()
    stage.freeze(stage.a)


def in_turn(stage):
    """A releases, and waits again."""
    stage.mark()
    stage.release(stage.a)
    stage.acquire(stage.a)


def freeze_waiter(stage):
    """Its turn comes while it is stopped."""
    stage.hold_and_wait()

    def meanwhile():
        stage.pause(300, 2000)
        in_turn(stage)
    stage.freeze(stage.b, meanwhile)


def cut_waiter(stage):
    """Its turn comes a little later."""
    stage.hold_and_wait()
    stage.command("cut 2")
    stage.pause(100, 2500)
    in_turn(stage)


def black_hole(stage):
    stage.hold_and_wait()
    stage.mark()
    stage.command("black-hole 1")
    stage.pause(1.5 * TIMEOUT)
    stage.command("heal")


def lost_create(stage):
    """The answer to the create of B is lost; then A releases, and B is to hold."""
    stage.acquire(stage.a)
    stage.need(stage.a.until(stage.a.believes, 10), "held")
    stage.command("lose-reply 2 create applied")
    stage.acquire(stage.b)
    stage.until_nodes(2)
    stage.pause(2000, 3000)
    stage.mark()
    stage.release(stage.a)


def smaller(stage):
    """A, which holds, is granted less at a reconnect, and is silent then for longer than that."""
    stage.hold_and_wait()
    stage.mark()
    stage.command(f"grant {SMALL}ms {SMALL}ms")
    stage.command("cut 1")
    stage.pause(200, 200 + SMALL)
    stage.command("black-hole 1")
    stage.pause(2.5 * SMALL)
    stage.command("heal")


def smaller_waiter(stage):
    """B, which waits, is granted less at a reconnect; it holds then, and its connection is silent for longer."""
    stage.hold_and_wait()
    stage.command(f"grant {SMALL}ms {SMALL}ms")
    stage.command("cut 2")
    stage.pause(2500, 3000)
    stage.release(stage.a)
    stage.need(stage.b.until(stage.b.believes, 10), "held by the second")
    stage.acquire(stage.a)
    stage.until_nodes(2)
    stage.pause(300, 300 + SMALL / 3)
    stage.mark()
    stage.command("black-hole 2")
    stage.pause(2.5 * SMALL)
    stage.command("heal")


def restart(stage):
    stage.hold_and_wait()
    stage.mark()
    stage.command("stop")
    stage.pause(1000)
    stage.command("restart")


def restart_empty(stage):
    """The servers lose their data, and with it all sessions."""
    stage.hold_and_wait()
    stage.mark()
    stage.command("restart-empty")


def expire(stage):
    stage.hold_and_wait()
    stage.mark()
    stage.command(f"expire 0x{stage.a.session}")


# The name of each row, what it says in the table, the servers, and the fault.
ROWS = {
    "cut": ("cut of the holder", "zookeeper", cut("1")),
    "cut-all": ("cut of all", "zookeeper", cut("all")),
    "freeze": ("freeze of the holder's process for 1.5 T", "zookeeper", freeze),
    "black-hole": ("black hole of the holder for 1.5 T", "zookeeper", black_hole),
    "cut-waiter": ("cut of the waiter before its turn", "zookeeper", cut_waiter),
    "freeze-waiter": ("freeze of the waiter's process for 1.5 T, its turn within", "zookeeper", freeze_waiter),
    "lost-create": ("answer of the waiter's create lost", "zookeeper", lost_create),
    "smaller": ("cut of the holder, smaller timeout granted, short black hole", "zookeeper", smaller),
    "smaller-waiter": ("the same, cut as a waiter, black hole as the holder", "zookeeper", smaller_waiter),
    "restart": ("restart of the servers", "zookeeper", restart),
    "restart-empty": ("restart of the servers without their data", "zookeeper", restart_empty),
    "expire": ("session of the holder ended by hand", "zookeeper", expire),
    "keeper26-cut": ("Keeper 26: cut of the holder", "keeper26", cut("1")),
    "keeper26-cut-all": ("Keeper 26: cut of all", "keeper26", cut("all")),
    "keeper26-cut-waiter": ("Keeper 26: cut of the waiter before its turn", "keeper26", cut_waiter),
    "keeper26-lost-create": ("Keeper 26: answer of the waiter's create lost", "keeper26", lost_create),
    "keeper26-restart": ("Keeper 26: restart of the servers", "keeper26", restart),
    "keeper-cut": ("Keeper 25: cut of the holder", "keeper", cut("1")),
    "keeper-cut-all": ("Keeper 25: cut of all", "keeper", cut("all")),
}


def play(zkr, command, row, seed, number):
    """Plays a row once. The seed, the row and the number decide the moments."""
    _, dialect, fault = ROWS[row]
    stage = Stage(zkr, command, dialect, random.Random(f"{seed}/{row}/{number}"))
    result = Result(trace=stage.trace)
    try:
        fault(stage)
        stage.pause(SETTLE)
        result.to_the_end = len(stage.holders()) == 2
        result.hang = not hand_over(stage)
        time.sleep(1)
        result.nodes = len(children(stage.address, DIRECTORY)) - len(stage.contending)
        # The connection that asks has no session.
        result.sessions = max(0, connections(stage.address) - 2)
        stage.end()
        result.orphans = orphans(stage.address)
    except NotPlayed as error:
        result.failed = str(error)
        return result
    finally:
        for process in (stage.a, stage.b, stage.servers):
            process.process.kill()
            process.process.wait()
    beliefs = [believed(stage, worker, worker.beliefs) for worker in (stage.a, stage.b)]
    result.overlap = overlap(*beliefs)
    result.asked = overlap(*(believed(stage, worker, worker.yes) for worker in (stage.a, stage.b)))
    result.again = again(stage, beliefs)
    return result


def hand_over(stage):
    """Each who holds releases, and each who waits is to hold then. Whether all did."""
    while stage.contending:
        deadline = now() + PATIENCE
        while not stage.holders():
            if now() > deadline:
                stage.trace.append((now(), "lab", "a hang"))
                return False
            time.sleep(0.01)
        time.sleep(0.1)
        for holder in stage.holders():
            stage.release(holder)
    return True


def orphans(address):
    """Nodes that are there when no session of the workers can be left."""
    deadline = now() + SETTLE
    while left := len(children(address, DIRECTORY)):
        if now() > deadline:
            return left
        time.sleep(0.1)
    return 0


def believed(stage, worker, intervals):
    """Without the time in which the process was stopped: it does nothing then, whatever it believes."""
    if worker not in stage.frozen:
        return intervals
    stopped, thawed = stage.frozen[worker]
    parts = [(since, min(until, stopped)) for since, until in intervals if since < stopped]
    return parts + [(max(since, thawed), until) for since, until in intervals if until > thawed]


def overlap(ones, others):
    return sum(max(0, min(one[1], other[1]) - max(one[0], other[0])) for one in ones for other in others)


def again(stage, beliefs):
    """How long after the fault one held who did not before; 0 if one held on."""
    both = sorted(beliefs[0] + beliefs[1])
    if any(since < stage.fault_at and until > stage.fault_at + SETTLE for since, until in both):
        return 0
    return next((since - stage.fault_at for since, _ in both if since >= stage.fault_at), None)
