import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.data.Stat;

/** Nodes that are kept, members of groups, and nodes that end by themselves. */
final class Nodes {
    /** A server looks once a minute for nodes that are over, and finds the parent of one the next time. */
    private static final int CHECKED_S = 135;

    private Nodes() {}

    static void add() {
        Judge.check("persistent node, kept", Nodes::kept);
        Judge.check("persistent node, session ended", Nodes::sessionEnded);
        Judge.check("persistent node, sequential with protection", Nodes::sequential);
        Judge.check("persistent TTL node", Nodes::ttlNode);
        Judge.check("group member", Nodes::members);
        Judge.check("container", Nodes::container);
        Judge.check("node with a time to live", Nodes::ttl);
        Judge.check("sequential node with a time to live", Nodes::sequentialTtl);
    }

    private static PersistentNode node(Place place, CuratorFramework client, CreateMode mode, boolean isProtected)
            throws Exception {
        PersistentNode node =
                place.closing(new PersistentNode(client, mode, isProtected, "/dir/node", Place.bytes("data")));
        node.start();
        Place.that(node.waitForInitialCreate(10, TimeUnit.SECONDS), "not created");
        return node;
    }

    private static String read(CuratorFramework client, String path) throws Exception {
        return client.checkExists().forPath(path) == null ? null : Place.text(client.getData().forPath(path));
    }

    private static void kept(Place place) throws Exception {
        CuratorFramework other = place.client();
        PersistentNode node = node(place, place.client(), CreateMode.EPHEMERAL, false);
        Place.same("data", read(other, "/dir/node"), "data");
        other.delete().forPath("/dir/node");
        Place.soon(() -> "data".equals(read(other, "/dir/node")), "created again");
        node.setData(Place.bytes("new"));
        Place.soon(() -> "new".equals(read(other, "/dir/node")), "new data");
        node.close();
        Place.soon(() -> other.checkExists().forPath("/dir/node") == null, "deleted");
    }

    private static void sessionEnded(Place place) throws Exception {
        CuratorFramework client = place.client();
        CuratorFramework other = place.client();
        node(place, client, CreateMode.EPHEMERAL, false);
        Stat before = other.checkExists().forPath("/dir/node");
        place.endSession(client);
        Place.soon(() -> {
            Stat stat = other.checkExists().forPath("/dir/node");
            return stat != null && stat.getEphemeralOwner() != before.getEphemeralOwner();
        }, "a node of the new session");
    }

    private static void sequential(Place place) throws Exception {
        CuratorFramework other = place.client();
        PersistentNode node = node(place, place.client(), CreateMode.EPHEMERAL_SEQUENTIAL, true);
        String path = node.getActualPath();
        Place.that(path.matches("/dir/_c_[-0-9a-f]{36}-node[0-9]{10}"), "path: " + path);
        other.delete().forPath(path);
        Place.soon(() -> other.getChildren().forPath("/dir").size() == 1, "created again");
    }

    private static void ttlNode(Place place) throws Exception {
        CuratorFramework other = place.client();
        PersistentTtlNode node = new PersistentTtlNode(place.client(), "/kept", 1_000, Place.bytes("data"));
        place.closing(node);
        node.start();
        Place.that(node.waitForInitialCreate(10, TimeUnit.SECONDS), "not created");
        Thread.sleep(3_000);
        Place.same("data", read(other, "/kept"), "data after the time");
        node.close();
        Place.soon(CHECKED_S, () -> other.checkExists().forPath("/kept") == null, "gone after it was closed");
    }

    private static void members(Place place) throws Exception {
        CuratorFramework client = place.client();
        GroupMember one = place.closing(new GroupMember(client, "/group", "one", Place.bytes("1")));
        GroupMember two = place.closing(new GroupMember(place.client(), "/group", "two", Place.bytes("2")));
        one.start();
        two.start();
        Place.soon(() -> one.getCurrentMembers().size() == 2 && two.getCurrentMembers().size() == 2, "two members");
        two.setThisData(Place.bytes("new"));
        Place.soon(() -> "new".equals(Place.text(one.getCurrentMembers().get("two"))), "new data");
        place.endSession(client);
        CuratorFramework other = place.client();
        Place.soon(() -> other.getChildren().forPath("/group").size() == 2, "two after a session");
        two.close();
        Place.soon(() -> one.getCurrentMembers().keySet().equals(java.util.Set.of("one")), "one member");
    }

    private static void container(Place place) throws Exception {
        CuratorFramework client = place.client();
        client.createContainers("/one");
        client.create().creatingParentContainersIfNeeded().forPath("/one/two");
        Place.same(List.of("two"), client.getChildren().forPath("/one"), "children");
        Thread.sleep(1_500);
        Place.that(client.checkExists().forPath("/one") != null, "gone although it has a child");
        client.delete().forPath("/one/two");
        Place.soon(CHECKED_S, () -> client.checkExists().forPath("/one") == null, "the container is gone");
    }

    private static void ttl(Place place) throws Exception {
        CuratorFramework client = place.client();
        client.create().withTtl(500).withMode(CreateMode.PERSISTENT_WITH_TTL).forPath("/ttl");
        Place.soon(CHECKED_S, () -> client.checkExists().forPath("/ttl") == null, "gone");
    }

    private static void sequentialTtl(Place place) throws Exception {
        CuratorFramework client = place.client();
        String path = client.create().withTtl(500).withMode(CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL).forPath("/ttl-");
        Place.that(path.matches("/ttl-[0-9]{10}"), "path: " + path);
        Place.soon(CHECKED_S, () -> client.checkExists().forPath(path) == null, "gone");
    }
}
