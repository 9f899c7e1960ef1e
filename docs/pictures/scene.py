"""Plays what `zkr` cannot: scene CONNECT. Says "ready", and ends with its standard input."""
import sys
import threading
import time

from kazoo.client import KazooClient

LOCKS = ["stock", "invoices", "parcels"]
HOLDERS = ["web-4", "web-5", "web-6"]


def client():
    started = KazooClient(hosts=sys.argv[1], timeout=20)
    started.start()
    return started


# Each holds one lock, and waits for the next one.
clients = [client() for _ in HOLDERS]
for one, lock, holder in zip(clients, LOCKS, HOLDERS):
    one.Lock(f"/shop/locks/{lock}", holder).acquire()
for one, lock, holder in zip(clients, LOCKS[1:] + LOCKS[:1], HOLDERS):
    threading.Thread(target=one.Lock(f"/shop/locks/{lock}", holder).acquire, daemon=True).start()
while any(len(clients[0].get_children(f"/shop/locks/{lock}")) < 2 for lock in LOCKS):
    time.sleep(0.01)

# As a person creates them who tries something out: no session ends that would delete them.
clients[0].create("/shop/licences/leases/by-hand-lease-0000000007", b"a test")
clients[0].create("/shop/import/by-hand-lock-0000000000", b"a test", makepath=True)
print("ready", flush=True)
sys.stdin.read()
