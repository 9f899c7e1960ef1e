"""Reads and writes under kazoo's locks again and again, and tells the judge: contend CONNECT PATH JUDGE TURNS"""
import socket
import sys
import time

from kazoo.client import KazooClient

hosts, path, judge, turns = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
host, port = judge.rsplit(":", 1)
report = socket.create_connection((host, int(port))).makefile("rw")


def say(what, lock):
    report.write(f"{what} kazoo {path}/{lock.node}\n")
    report.flush()
    assert report.readline() == "ok\n"


client = KazooClient(hosts=hosts, timeout=20)
client.start()
for turn in range(turns):
    # The names of the others, before their number: those that each kind waits for.
    if turn % 4 == 3:
        lock = client.WriteLock(path, "kazoo", extra_lock_patterns=["-__WRIT__", "-__READ__"])
    else:
        lock = client.ReadLock(path, "kazoo", extra_lock_patterns=["-__WRIT__"])
    with lock:
        say("enter", lock)
        time.sleep(0.002)
        say("leave", lock)
client.stop()
