"""Tells what a server does, line by line, as far as it is the same on every server: transcript HOST:PORT"""
import socket
import struct
import sys
import threading
import time
from collections import namedtuple

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.protocol.states import Callback
from kazoo.security import ACL, Id, Permissions, make_acl, make_digest_acl

hosts = sys.argv[1]
clients = []


def client(*auth):
    one = KazooClient(hosts=hosts, timeout=20, auth_data=auth)
    one.start()
    clients.append(one)
    return one


def tell(what, ask, *show):
    """Prints the parts of an answer that do not differ between servers, or the error."""
    try:
        answer = ask()
        print(what, *(part(answer) for part in show))
    except KazooException as error:
        print(what, type(error).__name__)


def acl(scheme, name, permissions=Permissions.ALL):
    return [ACL(permissions, Id(scheme, name))]


def entries(answer):
    return [(one.perms, one.id.scheme, one.id.id) for one in answer[0]]


nobody, user = client(), client(("digest", "user:password"))

print("# nodes")
tell("create", lambda: nobody.create("/t", b"data"), str)
tell("create again", lambda: nobody.create("/t", b""))
tell("without a parent", lambda: nobody.create("/no/t", b""))
tell("sequence", lambda: nobody.create("/t/s-", b"", sequence=True), str)
tell("ephemeral", lambda: nobody.create("/t/e", b"1", ephemeral=True), str)
tell("below it", lambda: nobody.create("/t/e/f", b"2"))
tell("get", lambda: user.get("/t/e"), lambda answer: (answer[0], answer[1].version, answer[1].ephemeralOwner != 0))
tell("set", lambda: user.set("/t", b"more", version=0), lambda stat: (stat.version, stat.dataLength, stat.numChildren))
tell("set again", lambda: user.set("/t", b"more", version=0))
tell("children", lambda: user.get_children("/t"), sorted)
tell("not empty", lambda: user.delete("/t"))
transaction = nobody.transaction()
transaction.create("/t/both", b"")
transaction.check("/t", 7)
transaction.delete("/t/e")
tell("transaction", transaction.commit, lambda results: [type(one).__name__ for one in results])
tell("undone", lambda: nobody.exists("/t/both"), str)

tell("the root", lambda: nobody.create("/", b""))
tell("without it", lambda: nobody.delete("/"))
tell("reconfig", lambda: nobody.reconfig("server.9=host:1:2", None, None))

print("# what kazoo does not ask")


class Raw(namedtuple("Raw", "type body")):
    """A request, and the body of its answer, as bytes."""

    def serialize(self):
        return bytearray(self.body)

    def deserialize(self, answer, offset):
        return bytes(answer[offset:])


def raw(one, operation, *parts):
    parts = [struct.pack(">i", part) if isinstance(part, int) else struct.pack(">i", len(part)) + part for part in parts]
    result = one.handler.async_result()
    one._call(Raw(operation, b"".join(parts)), result)
    return result.get(timeout=10)


tell("ephemerals", lambda: raw(nobody, 103, b"/t"), bytes)
tell("of others", lambda: raw(user, 103, b"/t"), bytes)
tell("descendants", lambda: raw(user, 104, b"/t"), bytes)
tell("of none", lambda: raw(user, 104, b"/none"), bytes)
tell("who am I", lambda: raw(user, 107), lambda answer: b"digest\0\0\0\4user" in answer)
tell("an unknown kind of watch", lambda: raw(user, 106, b"/t", 9))
tell("no path", lambda: raw(user, 4))
nobody.exists("/t", watch=lambda event: None)
tell("a watch", lambda: raw(nobody, 17, b"/t", 2), bytes)
tell("no watch", lambda: raw(user, 17, b"/t", 2))
tell("all are well", lambda: [one.exists("/t").version for one in clients], str)

print("# watches")
events = []
nobody.get("/t/e", watch=events.append)
nobody.get_children("/t", watch=events.append)
user.set("/t/e", b"3")
user.create("/t/new", b"")
nobody.sync("/t")
# The events came before the answer, but another thread passes them on, in order: this comes after them.
passed_on = threading.Event()
nobody.handler.dispatch_callback(Callback("watch", passed_on.set, ()))
assert passed_on.wait(20), "the thread of the events is stuck"
print([(event.type, event.path) for event in events])

print("# ACLs")
own = [make_digest_acl("user", "password", all=True)]
tell("of a user", lambda: user.create("/t/own", b"", acl=own), str)
tell("for others", lambda: nobody.get("/t/own"))
tell("their children", lambda: nobody.get_children("/t/own"))
tell("their stat", lambda: nobody.exists("/t/own"), lambda stat: stat.aversion)
tell("their ACL", lambda: nobody.get_acls("/t/own"), entries)
tell("the user's", lambda: user.get_acls("/t/own"), entries)
readable = own + [make_acl("world", "anyone", read=True)]
tell("readable", lambda: user.set_acls("/t/own", readable), lambda stat: (stat.aversion, stat.version))
tell("by others", lambda: nobody.get("/t/own"), lambda answer: answer[0])
tell("their ACL now", lambda: nobody.get_acls("/t/own"), entries)
tell("they set it", lambda: nobody.set_acls("/t/own", readable))
tell("another version", lambda: user.set_acls("/t/own", readable, version=7))
tell("of no node", lambda: user.set_acls("/t/none", readable))
tell("of all users", lambda: user.create("/t/auth", b"", acl=acl("auth", "")), str)
tell("and who they are", lambda: user.get_acls("/t/auth"), entries)
tell("of nobody", lambda: nobody.create("/t/nobody", b"", acl=acl("auth", "")))
tell("none", lambda: nobody.create("/t/empty", b"", acl=[]))
for scheme, name in [
    ("world", "someone"), ("unknown", "u"), ("digest", "user"), ("digest", "u:v:w"), ("digest", "u:v"),
    ("ip", "somewhere"), ("ip", "10.0.0.0/8"), ("ip", "10.0.0.0/33"), ("ip", "::1"), ("ip", "0.0.0.0/0"),
]:
    path = f"/t/{scheme}-{name.replace('/', '-')}"
    tell(f"{scheme}:{name}", lambda: nobody.create(path, b"", acl=acl(scheme, name)), str)
    tell("  is kept", lambda: user.get_acls(path), entries)
    tell("  read", lambda: nobody.get(path), lambda answer: answer[0])
no_delete = [make_acl("world", "anyone", read=True, create=True, admin=True)]
tell("nothing is deleted below", lambda: nobody.create("/t/keep", b"", acl=no_delete), str)
tell("created below", lambda: nobody.create("/t/keep/a", b""), str)
tell("deleted below", lambda: nobody.delete("/t/keep/a"))
tell("half a user", lambda: user.add_auth("digest", "half"), str)
tell("an address", lambda: user.add_auth("ip", ""), str)
tell("unknown scheme", lambda: nobody.add_auth("unknown", "u:p"))

print("# words")


def word(asked):
    host, port = hosts.rsplit(":", 1)
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(asked.encode())
        return b"".join(iter(lambda: connection.recv(65536), b"")).decode()


def names(text, end):
    """The words before the first such sign of each line."""
    return {line.split(end)[0].strip() for line in text.splitlines() if end in line}


KNOWN = {
    "srvr": (":", {"Zookeeper version", "Received", "Sent", "Connections", "Outstanding", "Zxid", "Mode", "Node count"}),
    "mntr": ("\t", {"zk_version", "zk_server_state", "zk_packets_received", "zk_packets_sent", "zk_num_alive_connections",
                    "zk_outstanding_requests", "zk_znode_count", "zk_watch_count", "zk_ephemerals_count", "zk_global_sessions"}),
    "conf": ("=", {"tickTime", "maxClientCnxns", "minSessionTimeout", "maxSessionTimeout", "serverId"}),
    "envi": ("=", {"zookeeper.version"}),
}
KNOWN["stat"] = KNOWN["srvr"]
for asked, (end, known) in KNOWN.items():
    print(asked, sorted(names(word(asked), end) & known))
counts = {}
# A session whose connection was refused its credentials may stay until its timeout.
deadline = time.monotonic() + 30
while counts.get("zk_global_sessions") != "2" and time.monotonic() < deadline:
    counts = dict(line.split("\t", 1) for line in word("mntr").splitlines())
    time.sleep(0.1)
print([(name, counts[name]) for name in ["zk_server_state", "zk_watch_count", "zk_ephemerals_count", "zk_global_sessions"]])
print([line for line in word("conf").splitlines() if line.split("=")[0] == "tickTime"])
print("ruok", word("ruok"))
print("isro", word("isro"))
print("wchs", word("wchs"))
print("cons", f"sid={hex(user.client_id[0])}," in word("cons"))
