"""Plays ClickHouse's use of ZooKeeper, in this process, on a server; each check says whether it has passed.

Arguments: the address of the server, and a directory for what ClickHouse keeps itself."""
import os
import pathlib
import sys

import chdb.session
from kazoo.client import KazooClient

ROOT = "/judge/clickhouse"
TABLE = "create table {} (k UInt32, v String) engine = ReplicatedMergeTree('/tables/t', '{}') order by k"
MAP = "create table {} (k String, v UInt32) engine = KeeperMap('/map') primary key k"


class Judge:
    def __init__(self, address, home):
        self.client = KazooClient(address)
        self.client.start()
        self.client.ensure_path(ROOT)
        host, port = address.rsplit(":", 1)
        config = pathlib.Path(home, "config.xml")
        config.write_text(f"""<clickhouse>
            <zookeeper>
                <node><host>{host}</host><port>{port}</port></node>
                <session_timeout_ms>30000</session_timeout_ms>
                <root>{ROOT}</root>
            </zookeeper>
            <keeper_map_path_prefix>/maps</keeper_map_path_prefix>
        </clickhouse>""")
        self.session = chdb.session.Session(f"file:{home}/data?config-file={config}")

    def query(self, query):
        return str(self.session.query(query)).split()

    def check(self, name, expected, *queries):
        """Passes if the last query says what is expected."""
        try:
            said = [self.query(query) for query in queries][-1]
            said = "ok" if said == expected else f"failed: {said} instead of {expected}"
        except Exception as failed:
            said = "failed: " + str(failed).replace("\n", " ")
        print(f"{name}: {said}", flush=True)

    def nodes(self, path):
        return sorted(self.client.get_children(ROOT + path)) if self.client.exists(ROOT + path) else []

    def node_check(self, name, expected, path):
        said = self.nodes(path)
        print(f"{name}: " + ("ok" if said == expected else f"failed: {said} instead of {expected}"), flush=True)


def play(judge):
    judge.check("replicated table, created", [], TABLE.format("a", "r1"))
    judge.check("replicated table, a second replica", [], TABLE.format("b", "r2"))
    judge.node_check("replicated table, its replicas", ["r1", "r2"], "/tables/t/replicas")
    judge.check("replicated table, both replicas are known", ["2"], "select max(total_replicas) from system.replicas")
    judge.check("replicated table, one dropped", [], "drop table b sync")
    judge.node_check("replicated table, the replica that is left", ["r1"], "/tables/t/replicas")
    judge.check("replicated table, dropped", [], "drop table a sync")
    judge.node_check("replicated table, nothing is left", [], "/tables/t")
    play_map(judge)


def play_map(judge):
    judge.check("map, created", [], MAP.format("m"))
    judge.check("map, inserted", ['"a",1', '"b",2'], "insert into m values ('a', 1), ('b', 2)",
                "select * from m order by k")
    judge.check("map, one of several keys", ["2"], "select v from m where k in ('b', 'none')")
    judge.check("map, updated", ["5"], "alter table m update v = 5 where k = 'a'", "select v from m where k = 'a'")
    judge.check("map, deleted", ['"a"'], "delete from m where k = 'b'", "select k from m")
    judge.check("map, many rows", ["1001,499505"], "insert into m select toString(number), number from numbers(1000)",
                "select count(), sum(v) from m")
    judge.check("map, large values", ["5"], "create table l (k String, v String) engine = KeeperMap('/large') "
                "primary key k", "insert into l select toString(number), repeat('x', 100000) from numbers(5)",
                "select countIf(length(v) = 100000) from l")
    judge.check("map, a second table of it", ["1001"], MAP.format("n"), "select count() from n")
    judge.check("map, emptied by the other table", ["0"], "truncate table n", "select count() from m")
    judge.check("map, dropped", [], "drop table n sync", "drop table m sync", "drop table l sync")
    judge.node_check("map, nothing is left", [], "/maps/map/data")


if __name__ == "__main__":
    play(Judge(*sys.argv[1:]))
    # The library fails at the end of a process, when its session is already closed.
    sys.stdout.flush()
    os._exit(0)
