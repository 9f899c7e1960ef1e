import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.api.transaction.CuratorOp;
import org.apache.curator.framework.api.transaction.CuratorTransactionResult;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.framework.api.CuratorWatcher;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Stat;

/** What recipes are made of: requests, transactions, watches and permissions. */
final class Requests {
    private Requests() {}

    static void add() {
        Judge.check("create, parents and modes", Requests::create);
        Judge.check("create, protection", Requests::protection);
        Judge.check("create, or set data", Requests::orSetData);
        Judge.check("data, versions and stats", Requests::data);
        Judge.check("data, large and compressed", Requests::large);
        Judge.check("delete", Requests::delete);
        Judge.check("in background", Requests::background);
        Judge.check("sync", place -> place.client().sync().forPath("/"));
        Judge.check("transaction, committed", Requests::committed);
        Judge.check("transaction, not committed", Requests::notCommitted);
        Judge.check("transaction, of reads", Requests::reads);
        Judge.check("watches, once", Requests::watches);
        Judge.check("watches, removed", Requests::removed);
        Judge.check("watches, persistent", Requests::persistent);
        Judge.check("ACL, digest", Requests::digest);
        Judge.check("ACL, versions", Requests::aclVersions);
        Judge.check("session ended, states", Requests::states);
        Judge.check("requests of 3.6", Requests::later);
    }

    private static void create(Place place) throws Exception {
        CuratorFramework client = place.client();
        Place.same("NoNodeException", Place.failure(() -> client.create().forPath("/a/b")), "without a parent");
        Place.same("/a/b", client.create().creatingParentsIfNeeded().forPath("/a/b", Place.bytes("x")), "path");
        Place.same("NodeExistsException", Place.failure(() -> client.create().forPath("/a/b")), "twice");
        client.create().withMode(CreateMode.EPHEMERAL).forPath("/a/e");
        Place.same("NoChildrenForEphemeralsException", Place.failure(() -> client.create().forPath("/a/e/c")),
                "below an ephemeral node");
        String first = client.create().withMode(CreateMode.PERSISTENT_SEQUENTIAL).forPath("/a/s-");
        String second = client.create().withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath("/a/s-");
        Place.that(first.compareTo(second) < 0, first + " and " + second);
        Stat stat = new Stat();
        client.create().storingStatIn(stat).forPath("/a/stat", Place.bytes("four"));
        Place.same(4, stat.getDataLength(), "length");
        Place.same(5, client.checkExists().forPath("/a").getNumChildren(), "children");
    }

    private static void protection(Place place) throws Exception {
        CuratorFramework client = place.client();
        String path = client.create().creatingParentsIfNeeded().withProtection()
                .withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath("/dir/node-");
        Place.that(path.matches("/dir/_c_[-0-9a-f]{36}-node-[0-9]{10}"), "path: " + path);
        Place.that(client.checkExists().forPath(path) != null, "not there");
    }

    private static void orSetData(Place place) throws Exception {
        CuratorFramework client = place.client();
        client.create().orSetData().forPath("/node", Place.bytes("1"));
        client.create().orSetData().forPath("/node", Place.bytes("2"));
        Place.same("2", Place.text(client.getData().forPath("/node")), "data");
        client.create().idempotent().forPath("/other", Place.bytes("1"));
        client.create().idempotent().forPath("/other", Place.bytes("1"));
        client.delete().idempotent().forPath("/other");
        client.setData().idempotent().withVersion(1).forPath("/node", Place.bytes("3"));
        client.setData().idempotent().withVersion(1).forPath("/node", Place.bytes("3"));
        Place.same(2, client.checkExists().forPath("/node").getVersion(), "version");
    }

    private static void data(Place place) throws Exception {
        CuratorFramework client = place.client();
        client.create().forPath("/node", new byte[0]);
        Place.same(0, client.getData().forPath("/node").length, "length of none");
        Stat first = client.setData().forPath("/node", Place.bytes("one"));
        Place.same(1, first.getVersion(), "version");
        Place.same("BadVersionException",
                Place.failure(() -> client.setData().withVersion(0).forPath("/node", Place.bytes("two"))), "version 0");
        Place.same("NoNodeException", Place.failure(() -> client.setData().forPath("/other")), "no node");
        Stat read = new Stat();
        Place.same("one", Place.text(client.getData().storingStatIn(read).forPath("/node")), "data");
        Place.same(first, read, "stat");
        Place.that(read.getMzxid() > read.getCzxid() && read.getMtime() >= read.getCtime(), "times");
        Place.same(null, client.checkExists().forPath("/other"), "stat of none");
    }

    private static void large(Place place) throws Exception {
        CuratorFramework client = place.client();
        byte[] bytes = new byte[900_000];
        java.util.Arrays.fill(bytes, (byte) 7);
        client.create().forPath("/large", bytes);
        Place.that(java.util.Arrays.equals(bytes, client.getData().forPath("/large")), "other data");
        client.create().compressed().forPath("/compressed", bytes);
        Place.that(client.getData().forPath("/compressed").length < 10_000, "not compressed");
        Place.that(java.util.Arrays.equals(bytes, client.getData().decompressed().forPath("/compressed")), "data");
    }

    private static void delete(Place place) throws Exception {
        CuratorFramework client = place.client();
        client.create().creatingParentsIfNeeded().forPath("/a/b/c");
        Place.same("NotEmptyException", Place.failure(() -> client.delete().forPath("/a")), "with children");
        Place.same("BadVersionException", Place.failure(() -> client.delete().withVersion(7).forPath("/a/b/c")),
                "another version");
        client.delete().guaranteed().deletingChildrenIfNeeded().forPath("/a");
        Place.same("NoNodeException", Place.failure(() -> client.delete().forPath("/a")), "twice");
        client.delete().quietly().forPath("/a");
    }

    private static void background(Place place) throws Exception {
        CuratorFramework client = place.client();
        List<String> seen = Collections.synchronizedList(new ArrayList<>());
        for (int number = 0; number < 50; number++) {
            client.create().inBackground((of, event) -> seen.add(event.getType() + " " + event.getResultCode()))
                    .forPath("/node-" + number);
        }
        client.getChildren().inBackground((of, event) -> seen.add("children " + event.getChildren().size()))
                .forPath("/");
        client.getData().inBackground((of, event) -> seen.add("code " + event.getResultCode())).forPath("/none");
        Place.soon(() -> seen.size() == 52, "all answers");
        List<String> expected = new ArrayList<>(Collections.nCopies(50, "CREATE 0"));
        expected.add("children 50");
        expected.add("code -101");
        Place.same(expected, seen, "answers");
    }

    private static void committed(Place place) throws Exception {
        CuratorFramework client = place.client();
        client.create().forPath("/old");
        List<CuratorOp> steps = List.of(
                client.transactionOp().check().withVersion(0).forPath("/old"),
                client.transactionOp().create().forPath("/new", Place.bytes("1")),
                client.transactionOp().create().withMode(CreateMode.PERSISTENT_SEQUENTIAL).forPath("/new/s-"),
                client.transactionOp().create().withMode(CreateMode.CONTAINER).forPath("/new/c"),
                client.transactionOp().create().withTtl(60_000).withMode(CreateMode.PERSISTENT_WITH_TTL)
                        .forPath("/new/t"),
                client.transactionOp().setData().withVersion(0).forPath("/new", Place.bytes("2")),
                client.transactionOp().delete().forPath("/old"));
        List<CuratorTransactionResult> results = client.transaction().forOperations(steps);
        String said = results.stream().map(result -> result.getType() + " " + result.getForPath())
                .collect(Collectors.joining(", "));
        Place.same("CHECK /old, CREATE /new, CREATE /new/s-, CREATE /new/c, CREATE /new/t, SET_DATA /new, DELETE /old",
                said, "results");
        Place.same("/new/s-0000000000", results.get(2).getResultPath(), "path");
        Place.same(1, results.get(5).getResultStat().getVersion(), "version");
        Place.same(new TreeSet<>(List.of("s-0000000000", "c", "t")),
                new TreeSet<>(client.getChildren().forPath("/new")), "children");
    }

    private static void notCommitted(Place place) throws Exception {
        CuratorFramework client = place.client();
        client.create().forPath("/node");
        for (CuratorOp wrong : List.of(client.transactionOp().check().withVersion(7).forPath("/node"),
                client.transactionOp().create().forPath("/node"), client.transactionOp().delete().forPath("/none"),
                client.transactionOp().setData().withVersion(3).forPath("/node"),
                client.transactionOp().create().forPath("/none/child"))) {
            String failure = Place.failure(() -> client.transaction().forOperations(
                    client.transactionOp().create().forPath("/new"), wrong,
                    client.transactionOp().create().forPath("/never")));
            Place.that(List.of("BadVersionException", "NodeExistsException", "NoNodeException").contains(failure),
                    failure);
            Place.same(List.of("node"), client.getChildren().forPath("/"), "nodes");
        }
        ZooKeeper plain = place.plain();
        String path = "/" + place.namespace + "/node";
        try {
            plain.multi(List.of(Op.setData(path, null, -1), Op.delete(path, 9), Op.check(path, 0)));
            Place.that(false, "committed");
        } catch (org.apache.zookeeper.KeeperException.BadVersionException failed) {
            String codes = failed.getResults().stream()
                    .map(result -> String.valueOf(((OpResult.ErrorResult) result).getErr()))
                    .collect(Collectors.joining(" "));
            Place.same("0 -103 -2", codes, "codes");
        }
    }

    private static void reads(Place place) throws Exception {
        CuratorFramework client = place.client();
        client.create().creatingParentsIfNeeded().forPath("/dir/child", Place.bytes("data"));
        String dir = "/" + place.namespace + "/dir";
        List<OpResult> results = place.plain().multi(List.of(Op.getData(dir + "/child"), Op.getChildren(dir),
                Op.getData(dir + "/none"), Op.getChildren(dir + "/none")));
        Place.same("data", Place.text(((OpResult.GetDataResult) results.get(0)).getData()), "data");
        Place.same(List.of("child"), ((OpResult.GetChildrenResult) results.get(1)).getChildren(), "children");
        Place.same(-101, ((OpResult.ErrorResult) results.get(2)).getErr(), "data of none");
        Place.same(-101, ((OpResult.ErrorResult) results.get(3)).getErr(), "children of none");
    }

    private static void watches(Place place) throws Exception {
        CuratorFramework client = place.client();
        CuratorFramework other = place.client();
        List<String> seen = Collections.synchronizedList(new ArrayList<>());
        other.create().forPath("/node");
        CuratorWatcher data = event -> seen.add("data " + event.getType());
        CuratorWatcher child = event -> seen.add("children " + event.getType());
        CuratorWatcher exists = event -> seen.add("exists " + event.getType());
        client.getData().usingWatcher(data).forPath("/node");
        client.getChildren().usingWatcher(child).forPath("/node");
        client.checkExists().usingWatcher(exists).forPath("/none");
        other.setData().forPath("/node", Place.bytes("1"));
        other.setData().forPath("/node", Place.bytes("2"));
        other.create().forPath("/node/child");
        other.create().forPath("/none");
        other.delete().forPath("/none");
        Place.soon(() -> seen.size() == 3, "three events");
        client.getData().usingWatcher(data).forPath("/node");
        client.getChildren().usingWatcher(child).forPath("/node");
        other.delete().deletingChildrenIfNeeded().forPath("/node");
        Place.soon(() -> seen.size() == 5, "five events");
        Thread.sleep(200);
        Place.same(List.of("data NodeDataChanged", "children NodeChildrenChanged", "exists NodeCreated",
                "children NodeChildrenChanged", "data NodeDeleted"), seen, "events");
    }

    private static void removed(Place place) throws Exception {
        CuratorFramework client = place.client();
        CuratorFramework other = place.client();
        other.create().forPath("/node");
        List<String> seen = Collections.synchronizedList(new ArrayList<>());
        CuratorWatcher watcher = event -> seen.add(event.getType().toString());
        client.getData().usingWatcher(watcher).forPath("/node");
        client.watchers().remove(watcher).forPath("/node");
        Place.soon(() -> seen.equals(List.of("DataWatchRemoved")), "removed");
        client.getChildren().usingWatcher(watcher).forPath("/node");
        client.watchers().removeAll().ofType(Watcher.WatcherType.Children).forPath("/node");
        Place.soon(() -> seen.size() == 2, "removed by kind");
        client.checkExists().usingWatcher(watcher).forPath("/node");
        client.watchers().removeAll().ofType(Watcher.WatcherType.Any).forPath("/node");
        Place.soon(() -> seen.size() == 3, "all removed");
        Place.same("NoWatcherException", Place.failure(() -> client.watchers().removeAll().forPath("/node")), "none");
        client.getData().usingWatcher(watcher).forPath("/node");
        Place.same("NoWatcherException", Place.failure(() ->
                client.watchers().removeAll().ofType(Watcher.WatcherType.Children).forPath("/node")), "another kind");
        other.setData().forPath("/node");
        Place.soon(() -> seen.contains("NodeDataChanged"), "the watch that is left");
    }

    private static void persistent(Place place) throws Exception {
        CuratorFramework client = place.client();
        CuratorFramework other = place.client();
        List<String> seen = Collections.synchronizedList(new ArrayList<>());
        CuratorWatcher watcher = event -> seen.add(event.getType() + " " + event.getPath());
        client.watchers().add().withMode(AddWatchMode.PERSISTENT).usingWatcher(watcher).forPath("/node");
        other.create().forPath("/node");
        other.setData().forPath("/node", Place.bytes("1"));
        other.create().forPath("/node/child");
        other.delete().forPath("/node/child");
        other.delete().forPath("/node");
        List<String> expected = List.of("NodeCreated /node", "NodeDataChanged /node", "NodeChildrenChanged /node",
                "NodeChildrenChanged /node", "NodeDeleted /node");
        Place.soon(() -> seen.size() >= expected.size(), "five events");
        Place.same(expected, seen, "events");
        client.watchers().removeAll().forPath("/node");
        other.create().forPath("/node");
        Thread.sleep(200);
        Place.that(!seen.subList(expected.size(), seen.size()).contains("NodeCreated /node"), "an event after that");
    }

    private static void digest(Place place) throws Exception {
        CuratorFramework owner = place.client(builder -> builder.authorization("digest", Place.bytes("anna:secret")));
        CuratorFramework wrong = place.client(builder -> builder.authorization("digest", Place.bytes("anna:other")));
        CuratorFramework nobody = place.client();
        owner.create().withACL(ZooDefs.Ids.CREATOR_ALL_ACL).forPath("/mine", Place.bytes("data"));
        for (CuratorFramework other : List.of(wrong, nobody)) {
            Place.same("NoAuthException", Place.failure(() -> other.getData().forPath("/mine")), "read");
            Place.same("NoAuthException", Place.failure(() -> other.setData().forPath("/mine")), "write");
            Place.same("NoAuthException", Place.failure(() -> other.create().forPath("/mine/c")), "create");
            Place.same("NoAuthException", Place.failure(() -> other.getACL().forPath("/mine")), "ask who may");
        }
        Place.same("data", Place.text(owner.getData().forPath("/mine")), "data");
        ACL acl = owner.getACL().forPath("/mine").get(0);
        Place.that(acl.getPerms() == 31 && acl.getId().getId().startsWith("anna:"), "ACL: " + acl);
        owner.setACL().withACL(ZooDefs.Ids.READ_ACL_UNSAFE).forPath("/mine");
        Place.same("data", Place.text(nobody.getData().forPath("/mine")), "data that all may read");
        Place.same("NoAuthException", Place.failure(() -> owner.setData().forPath("/mine")), "write it");
        Place.same("InvalidACLException", Place.failure(() ->
                nobody.create().withACL(ZooDefs.Ids.CREATOR_ALL_ACL).forPath("/none")), "the creator is nobody");
    }

    private static void aclVersions(Place place) throws Exception {
        CuratorFramework client = place.client();
        client.create().forPath("/node");
        Place.same(ZooDefs.Ids.OPEN_ACL_UNSAFE, client.getACL().forPath("/node"), "ACL");
        Stat stat = client.setACL().withVersion(0).withACL(ZooDefs.Ids.OPEN_ACL_UNSAFE).forPath("/node");
        Place.same(1, stat.getAversion(), "version");
        Place.same("BadVersionException", Place.failure(() ->
                client.setACL().withVersion(0).withACL(ZooDefs.Ids.OPEN_ACL_UNSAFE).forPath("/node")), "an old one");
        Place.same("InvalidACLException", Place.failure(() ->
                client.setACL().withACL(List.of(new ACL(31, new org.apache.zookeeper.data.Id("none", "x"))))
                        .forPath("/node")), "no such scheme");
    }

    private static void states(Place place) throws Exception {
        CuratorFramework client = place.client();
        List<ConnectionState> seen = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch again = new CountDownLatch(1);
        client.getConnectionStateListenable().addListener((of, state) -> {
            seen.add(state);
            if (state == ConnectionState.RECONNECTED) {
                again.countDown();
            }
        });
        client.create().withMode(CreateMode.EPHEMERAL).forPath("/mine");
        place.endSession(client);
        Place.that(again.await(20, TimeUnit.SECONDS), "not connected again: " + seen);
        Place.that(seen.contains(ConnectionState.LOST), "states: " + seen);
        Place.same(null, client.checkExists().forPath("/mine"), "the ephemeral node");
    }

    private static void later(Place place) throws Exception {
        CuratorFramework client = place.client();
        ZooKeeper own = client.getZookeeperClient().getZooKeeper();
        client.create().creatingParentsIfNeeded().withMode(CreateMode.EPHEMERAL).forPath("/dir/mine");
        String path = "/" + place.namespace + "/dir";
        Place.same(List.of(path + "/mine"), own.getEphemerals(), "ephemeral nodes");
        Place.same(List.of(), own.getEphemerals("/none"), "ephemeral nodes elsewhere");
        Place.same(1, own.getAllChildrenNumber(path), "descendants");
        Collection<String> users = own.whoAmI().stream().map(info -> info.getAuthScheme()).collect(Collectors.toList());
        Place.same(List.of("ip"), users, "users");
    }
}
