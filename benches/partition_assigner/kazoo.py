"""Members of a SetPartitioner as threads: members CONNECT PATH MEMBERS PARTITIONS TIME_BOUNDARY

Reads orders: start, join, leave. Answers each with "settled", the seconds, how many partitions nobody had for a while,
the longest of these times, and their sum. A partition counts from the acquisition of the whole set of its member to the
call that releases it."""
import sys
import threading
import time

from kazoo.client import KazooClient

hosts, path, count, partitions, boundary = sys.argv[1:]
names = [str(number) for number in range(int(partitions))]
PATIENCE = 300

lock = threading.Lock()
owned = {}  # by partition
ended, gaps = {}, {}
members = []


class Member(threading.Thread):
    def __init__(self, number):
        super().__init__(daemon=True)
        self.identifier, self.is_leaving, self.is_settled = f"member-{number:04}", False, False
        self.changed = threading.Event()
        self.client = KazooClient(hosts=hosts, timeout=30)

    def run(self):
        self.client.start(timeout=60)
        self.partitioner = self.client.SetPartitioner(
            path, set=names, identifier=self.identifier, time_boundary=float(boundary), state_change_event=self.changed)
        while not self.is_leaving:
            self.changed.clear()
            if self.partitioner.acquired and not self.is_settled:
                self.begin(list(self.partitioner))
            elif self.partitioner.release:
                self.end()
                self.partitioner.release_set()
                continue
            elif self.partitioner.failed:
                sys.exit(f"{self.identifier} failed")
            self.changed.wait(1)
        self.end()
        self.partitioner.finish()
        self.client.stop()

    def begin(self, mine):
        with lock:
            now = time.monotonic()
            for name in mine:
                assert name not in owned, f"two have {name}"
                owned[name] = self
                if name in ended:
                    gaps[name] = gaps.get(name, 0) + now - ended.pop(name)
            self.is_settled = True

    def end(self):
        with lock:
            now = time.monotonic()
            for name in [name for name, owner in owned.items() if owner is self]:
                del owned[name]
                ended[name] = now
            self.is_settled = False

    def leave(self):
        self.is_leaving = True
        self.changed.set()
        self.join()


def is_shared():
    """Whether all have what the members that are there now should have."""
    with lock:
        most = -(-len(names) // len(members))
        each = [sum(1 for owner in owned.values() if owner is member) for member in members]
        return len(owned) == len(names) and max(each) <= most and all(member.is_settled for member in members)


for number, line in enumerate(sys.stdin):
    gaps.clear()
    began = time.monotonic()
    if line.strip() == "leave":
        members.pop().leave()
    else:
        new = [Member(1000 * number + one) for one in range(int(count) if line.strip() == "start" else 1)]
        members.extend(new)
        for one in new:
            one.start()
    while not is_shared() and time.monotonic() < began + PATIENCE:
        time.sleep(0.005)
    took = time.monotonic() - began
    if is_shared():
        print("settled", took, len(gaps), max(gaps.values(), default=0), sum(gaps.values()), flush=True)
    else:
        with lock:
            print(f"not settled within {PATIENCE} s: {len(owned)} of {len(names)} partitions are owned", flush=True)
