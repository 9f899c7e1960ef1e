"""Joins a party as kazoo-1, waits until another member is in it and until that has left: party CONNECT PATH KIND OTHER"""
import sys
import time

from kazoo.client import KazooClient

hosts, path, kind, other = sys.argv[1:]
client = KazooClient(hosts=hosts, timeout=20)
client.start()
party = {"Party": client.Party, "ShallowParty": client.ShallowParty}[kind](path, "kazoo-1")
party.join()
deadline = time.monotonic() + 60

def wait_for(members):
    while sorted(party) != members:
        assert time.monotonic() < deadline, f"{list(party)} instead of {members}"
        time.sleep(0.02)


wait_for(["kazoo-1", other])
client.create(f"{path}-seen")
wait_for(["kazoo-1"])
party.leave()
client.stop()
