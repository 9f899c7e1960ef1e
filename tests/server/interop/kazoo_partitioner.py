"""Takes a set with kazoo's SetPartitioner until its input ends: partitioner CONNECT PATH"""
import sys
import time

from kazoo.client import KazooClient

hosts, path = sys.argv[1:]
client = KazooClient(hosts=hosts, timeout=20)
client.start()
partitioner = client.SetPartitioner(path, set=("a", "b", "c"), identifier="kazoo-1", time_boundary=0.1)
deadline = time.monotonic() + 60
while not partitioner.acquired:
    assert time.monotonic() < deadline, partitioner.state
    partitioner.wait_for_acquire(1)
assert sorted(partitioner) == ["a", "b", "c"]
client.create(f"{path}-acquired")
sys.stdin.read()
assert partitioner.acquired, partitioner.state
partitioner.finish()
client.stop()
