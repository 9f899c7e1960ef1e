import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.NodeCache;
import org.apache.curator.framework.recipes.cache.PathChildrenCache;
import org.apache.curator.framework.recipes.cache.TreeCache;
import org.apache.curator.framework.recipes.watch.PersistentWatcher;

/** Caches. */
@SuppressWarnings("deprecation")
final class Caches {
    private Caches() {}

    static void add() {
        Judge.check("path children cache, events", Caches::children);
        Judge.check("path children cache, initial", Caches::childrenInitial);
        Judge.check("path children cache, session ended", Caches::childrenSessionEnded);
        Judge.check("tree cache", Caches::tree);
        Judge.check("tree cache, depth and session ended", Caches::treeDepth);
        Judge.check("node cache", Caches::node);
        Judge.check("curator cache, tree", Caches::curator);
        Judge.check("curator cache, one node", Caches::curatorNode);
        Judge.check("curator cache, session ended", Caches::curatorSessionEnded);
        Judge.check("persistent watcher", Caches::watcher);
    }

    private static List<String> list() {
        return Collections.synchronizedList(new ArrayList<>());
    }

    private static void children(Place place) throws Exception {
        CuratorFramework client = place.client();
        List<String> seen = list();
        PathChildrenCache cache = place.closing(new PathChildrenCache(place.client(), "/dir", true));
        cache.getListenable().addListener((of, event) -> {
            if (event.getData() != null) {
                seen.add(event.getType() + " " + event.getData().getPath() + Place.text(event.getData().getData()));
            }
        });
        cache.start();
        client.create().creatingParentsIfNeeded().forPath("/dir/one", Place.bytes("=1"));
        Place.soon(() -> seen.size() == 1, "added");
        client.setData().forPath("/dir/one", Place.bytes("=2"));
        Place.soon(() -> seen.size() == 2, "updated");
        client.delete().forPath("/dir/one");
        Place.soon(() -> seen.size() == 3, "removed");
        Place.same(List.of("CHILD_ADDED /dir/one=1", "CHILD_UPDATED /dir/one=2", "CHILD_REMOVED /dir/one=2"), seen,
                "events");
    }

    private static void childrenInitial(Place place) throws Exception {
        CuratorFramework client = place.client();
        for (String name : List.of("a", "b", "c")) {
            client.create().creatingParentsIfNeeded().forPath("/dir/" + name, Place.bytes(name));
        }
        PathChildrenCache cache = place.closing(new PathChildrenCache(client, "/dir", true));
        cache.start(PathChildrenCache.StartMode.BUILD_INITIAL_CACHE);
        Place.same(3, cache.getCurrentData().size(), "children");
        List<String> seen = list();
        PathChildrenCache other = place.closing(new PathChildrenCache(client, "/dir", false));
        other.getListenable().addListener((of, event) -> seen.add(event.getType().toString()));
        other.start(PathChildrenCache.StartMode.POST_INITIALIZED_EVENT);
        Place.soon(() -> seen.contains("INITIALIZED"), "initialized");
        Place.same(4, seen.size(), "events");
    }

    private static void childrenSessionEnded(Place place) throws Exception {
        CuratorFramework client = place.client();
        CuratorFramework other = place.client();
        other.create().creatingParentsIfNeeded().forPath("/dir/one");
        PathChildrenCache cache = place.closing(new PathChildrenCache(client, "/dir", true));
        cache.start(PathChildrenCache.StartMode.BUILD_INITIAL_CACHE);
        place.endSession(client);
        other.delete().forPath("/dir/one");
        other.create().forPath("/dir/two");
        Place.soon(() -> cache.getCurrentData("/dir/one") == null && cache.getCurrentData("/dir/two") != null,
                "the children after the session");
    }

    private static void tree(Place place) throws Exception {
        CuratorFramework client = place.client();
        TreeCache cache = place.closing(new TreeCache(place.client(), "/tree"));
        List<String> seen = list();
        cache.getListenable().addListener((of, event) -> seen.add(event.getType().toString()));
        cache.start();
        Place.soon(() -> seen.contains("INITIALIZED"), "initialized");
        client.create().creatingParentsIfNeeded().forPath("/tree/a/b/c", Place.bytes("deep"));
        Place.soon(() -> cache.getCurrentData("/tree/a/b/c") != null, "a deep node");
        client.setData().forPath("/tree/a/b", Place.bytes("new"));
        Place.soon(() -> Place.text(cache.getCurrentData("/tree/a/b").getData()).equals("new"), "its data");
        client.delete().deletingChildrenIfNeeded().forPath("/tree/a");
        Place.soon(() -> cache.getCurrentChildren("/tree").isEmpty(), "deleted");
        client.delete().quietly().forPath("/tree"); // a container, which the server may have deleted
        Place.soon(() -> cache.getCurrentData("/tree") == null, "the root is deleted");
        client.create().forPath("/tree", Place.bytes("again"));
        Place.soon(() -> cache.getCurrentData("/tree") != null, "the root is created again");
    }

    private static void treeDepth(Place place) throws Exception {
        CuratorFramework client = place.client();
        CuratorFramework other = place.client();
        other.create().creatingParentsIfNeeded().forPath("/tree/a/b");
        TreeCache cache = place.closing(TreeCache.newBuilder(client, "/tree").setMaxDepth(1).build());
        cache.start();
        Place.soon(() -> cache.getCurrentData("/tree/a") != null, "the first level");
        place.endSession(client);
        other.create().forPath("/tree/c");
        Place.soon(() -> cache.getCurrentData("/tree/c") != null, "after the session");
        Place.same(null, cache.getCurrentData("/tree/a/b"), "the second level");
    }

    private static void node(Place place) throws Exception {
        CuratorFramework client = place.client();
        NodeCache cache = place.closing(new NodeCache(place.client(), "/some/node"));
        cache.start(true);
        Place.same(null, cache.getCurrentData(), "no node");
        client.create().creatingParentsIfNeeded().forPath("/some/node", Place.bytes("one"));
        Place.soon(() -> cache.getCurrentData() != null, "created");
        client.setData().forPath("/some/node", Place.bytes("two"));
        Place.soon(() -> Place.text(cache.getCurrentData().getData()).equals("two"), "changed");
        client.delete().forPath("/some/node");
        Place.soon(() -> cache.getCurrentData() == null, "deleted");
    }

    private static void curator(Place place) throws Exception {
        CuratorFramework client = place.client();
        client.create().creatingParentsIfNeeded().forPath("/tree/before", Place.bytes("b"));
        List<String> seen = list();
        CuratorCache cache = place.closing(CuratorCache.build(place.client(), "/tree"));
        cache.listenable().addListener((type, old, data) ->
                seen.add(type + " " + (data == null ? old : data).getPath()));
        cache.start();
        Place.soon(() -> seen.size() == 2, "what was there before");
        client.create().creatingParentsIfNeeded().forPath("/tree/a/b", Place.bytes("1"));
        Place.soon(() -> seen.size() == 4, "created");
        client.setData().forPath("/tree/a/b", Place.bytes("2"));
        Place.soon(() -> seen.contains("NODE_CHANGED /tree/a/b"), "changed");
        client.delete().deletingChildrenIfNeeded().forPath("/tree/a");
        Place.soon(() -> seen.contains("NODE_DELETED /tree/a/b") && seen.contains("NODE_DELETED /tree/a"), "deleted");
        Place.same(2, cache.size(), "nodes left");
    }

    private static void curatorNode(Place place) throws Exception {
        CuratorFramework client = place.client();
        CuratorCache cache = place.closing(
                CuratorCache.build(place.client(), "/node", CuratorCache.Options.SINGLE_NODE_CACHE));
        cache.start();
        client.create().forPath("/node", Place.bytes("1"));
        Place.soon(() -> cache.get("/node").isPresent(), "created");
        client.create().forPath("/node/child");
        client.setData().forPath("/node", Place.bytes("2"));
        Place.soon(() -> cache.get("/node").map(data -> Place.text(data.getData())).orElse("").equals("2"), "changed");
        Place.that(!cache.get("/node/child").isPresent(), "a child");
    }

    private static void curatorSessionEnded(Place place) throws Exception {
        CuratorFramework client = place.client();
        CuratorFramework other = place.client();
        other.create().creatingParentsIfNeeded().forPath("/tree/gone");
        CuratorCache cache = place.closing(CuratorCache.build(client, "/tree"));
        cache.start();
        Place.soon(() -> cache.size() == 2, "two nodes");
        place.endSession(client);
        other.delete().forPath("/tree/gone");
        other.create().forPath("/tree/new");
        Place.soon(() -> !cache.get("/tree/gone").isPresent() && cache.get("/tree/new").isPresent(),
                "the tree after the session");
        other.create().forPath("/tree/new/child");
        Place.soon(() -> cache.get("/tree/new/child").isPresent(), "a child in the new session");
    }

    private static void watcher(Place place) throws Exception {
        CuratorFramework client = place.client();
        CuratorFramework other = place.client();
        other.create().forPath("/node");
        List<String> seen = list();
        PersistentWatcher watcher = place.closing(new PersistentWatcher(client, "/node", true));
        java.util.concurrent.CountDownLatch armed = new java.util.concurrent.CountDownLatch(1);
        watcher.getResetListenable().addListener(armed::countDown);
        watcher.getListenable().addListener(event -> seen.add(event.getType() + " " + event.getPath()));
        watcher.start();
        armed.await();
        other.create().forPath("/node/a");
        other.setData().forPath("/node/a", Place.bytes("1"));
        other.setData().forPath("/node/a", Place.bytes("2"));
        other.delete().forPath("/node/a");
        Place.soon(() -> seen.size() == 4, "four events");
        Place.same(List.of("NodeCreated /node/a", "NodeDataChanged /node/a", "NodeDataChanged /node/a",
                "NodeDeleted /node/a"), seen, "events");
    }
}
