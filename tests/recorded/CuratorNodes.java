import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.queue.DistributedDelayQueue;
import org.apache.curator.framework.recipes.queue.DistributedIdQueue;
import org.apache.curator.framework.recipes.queue.DistributedPriorityQueue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryForever;
import org.apache.curator.retry.RetryOneTime;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceType;
import org.apache.zookeeper.CreateMode;

/**
 * Creates the nodes of Curator's recipes below /curator, with Curator's own code. Says "ready" when all are there, and
 * ends with its standard input.
 *
 * <p>There are three sessions, host-1 to host-3. By default Curator writes the address of its host into a node, here
 * these names. The argument is the connect string.
 */
public class CuratorNodes {
    private static final String ROOT = "/curator/";
    private static final int HOSTS = 3;

    private final List<CuratorFramework> hosts = new ArrayList<>();
    private final CuratorFramework one;
    private final CuratorFramework two;
    private final CuratorFramework three;

    /** What a thread does until the recording is over. */
    private interface Work {
        void run() throws Exception;
    }

    private interface Condition {
        boolean holds() throws Exception;
    }

    /** Writes its host into its node, as an application would. */
    private static class Mutex extends InterProcessMutex {
        private final String data;

        Mutex(CuratorFramework client, String path, String data) {
            super(client, ROOT + path);
            this.data = data;
        }

        @Override
        protected byte[] getLockNodeBytes() {
            return bytes(data);
        }
    }

    private static class Text implements QueueSerializer<String> {
        @Override
        public byte[] serialize(String item) {
            return bytes(item);
        }

        @Override
        public String deserialize(byte[] data) {
            return new String(data, StandardCharsets.UTF_8);
        }
    }

    /** Never done with its first item. */
    private static class Slow implements QueueConsumer<String> {
        final CountDownLatch hasOne = new CountDownLatch(1);

        @Override
        public void consumeMessage(String message) throws Exception {
            hasOne.countDown();
            forever();
        }

        @Override
        public void stateChanged(CuratorFramework client, ConnectionState state) {}
    }

    /** Leads until the recording is over. */
    private static class Leads extends LeaderSelectorListenerAdapter {
        @Override
        public void takeLeadership(CuratorFramework client) throws Exception {
            forever();
        }
    }

    private CuratorNodes(String connect) throws Exception {
        for (int number = 1; number <= HOSTS; number++) {
            CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(connect)
                .defaultData(bytes("host-" + number))
                .retryPolicy(new RetryForever(50))
                .build();
            client.start();
            if (!client.blockUntilConnected(30, TimeUnit.SECONDS)) {
                throw new IllegalStateException("no connection to " + connect);
            }
            hosts.add(client);
        }
        one = hosts.get(0);
        two = hosts.get(1);
        three = hosts.get(2);
    }

    public static void main(String[] args) throws Exception {
        CuratorNodes nodes = new CuratorNodes(args[0]);
        nodes.locks();
        nodes.circle();
        nodes.readWriteLocks();
        nodes.semaphores();
        nodes.elections();
        nodes.doubleBarriers();
        nodes.queues();
        nodes.groups();
        nodes.services();
        nodes.values();
        System.out.println("ready");
        while (System.in.read() >= 0) {}
        System.exit(0);
    }

    private void locks() throws Exception {
        new Mutex(one, "mutex", "host-1").acquire();
        waits("mutex", 2, new Mutex(two, "mutex", "host-2"));
        waits("mutex", 3, new Mutex(three, "mutex", "host-3"));

        InterProcessMutex revocable = new InterProcessMutex(one, ROOT + "revocable");
        revocable.makeRevocable(mutex -> {});
        revocable.acquire();
        Revoker.attemptRevoke(two, ROOT + "revocable/" + one.getChildren().forPath(ROOT + "revocable").get(0));

        new InterProcessMultiLock(one, List.of(ROOT + "multi/a", ROOT + "multi/b")).acquire();
        waits("multi/b", 2, new InterProcessMutex(two, ROOT + "multi/b"));
    }

    /** Each holds one of three locks, and waits for the next one. */
    private void circle() throws Exception {
        String[] names = {"a", "b", "c"};
        for (int number = 0; number < HOSTS; number++) {
            new Mutex(hosts.get(number), "circle/" + names[number], "host-" + (number + 1)).acquire();
        }
        for (int number = 0; number < HOSTS; number++) {
            String next = "circle/" + names[(number + 1) % HOSTS];
            waits(next, 2, new Mutex(hosts.get(number), next, "host-" + (number + 1)));
        }
    }

    private void readWriteLocks() throws Exception {
        readWrite(one, "read-write", "host-1").readLock().acquire();
        readWrite(two, "read-write", "host-2").readLock().acquire();
        waits("read-write", 3, readWrite(three, "read-write", "host-3").writeLock());
        // Another thread, which is another reader.
        waits("read-write", 4, readWrite(one, "read-write", "host-1").readLock());

        // A writer that has become a reader, and is both still.
        InterProcessReadWriteLock downgraded = readWrite(one, "downgrade", "host-1");
        downgraded.writeLock().acquire();
        downgraded.readLock().acquire();
        waits("downgrade", 3, readWrite(two, "downgrade", "host-2").readLock());
    }

    private void semaphores() throws Exception {
        InterProcessSemaphoreV2 held = new InterProcessSemaphoreV2(one, ROOT + "semaphore", 3);
        held.setNodeData(bytes("host-1"));
        held.acquire(2);
        // It gets the third lease, and asks for a fourth one.
        InterProcessSemaphoreV2 asked = new InterProcessSemaphoreV2(two, ROOT + "semaphore", 3);
        asked.setNodeData(bytes("host-2"));
        thread(() -> asked.acquire(2));
        untilChildren("semaphore/leases", 4);
        InterProcessSemaphoreV2 behind = new InterProcessSemaphoreV2(three, ROOT + "semaphore", 3);
        behind.setNodeData(bytes("host-3"));
        thread(() -> behind.acquire());
        untilChildren("semaphore/locks", 2);

        new InterProcessSemaphoreMutex(one, ROOT + "semaphore-mutex").acquire();
        InterProcessSemaphoreMutex mutex = new InterProcessSemaphoreMutex(two, ROOT + "semaphore-mutex");
        thread(mutex::acquire);
        untilChildren("semaphore-mutex/leases", 2);

        // Returned, so that its directories alone are left. The lease is deleted in the background.
        InterProcessSemaphoreV2 idle = new InterProcessSemaphoreV2(three, ROOT + "semaphore-idle", 3);
        idle.returnLease(idle.acquire());
        untilChildren("semaphore-idle/leases", 0);
    }

    private void elections() throws Exception {
        LeaderLatch leads = new LeaderLatch(one, ROOT + "latch", "id-1");
        leads.start();
        leads.await();
        new LeaderLatch(two, ROOT + "latch", "id-2").start();
        untilChildren("latch", 2);

        for (int number = 1; number <= 2; number++) {
            LeaderSelector selector = new LeaderSelector(hosts.get(number - 1), ROOT + "selector", new Leads());
            selector.setId("id-" + number);
            selector.start();
            untilChildren("selector", number);
        }
    }

    private void doubleBarriers() throws Exception {
        thread(() -> new DistributedDoubleBarrier(one, ROOT + "double-barrier", 2).enter());
        untilChildren("double-barrier", 1);
        thread(() -> new DistributedDoubleBarrier(one, ROOT + "double-barrier-open", 2).enter());
        untilChildren("double-barrier-open", 1);
        new DistributedDoubleBarrier(two, ROOT + "double-barrier-open", 2).enter();
        untilChildren("double-barrier-open", 3);
    }

    private void queues() throws Exception {
        queue("orders", "orders-locks");
        queue("parcels", "parcels-claims");

        DistributedPriorityQueue<String> byPriority = builder("by-priority").buildPriorityQueue(0);
        byPriority.start();
        byPriority.put("late", 255);
        byPriority.put("soon", -1);
        untilChildren("by-priority", 2);
        DistributedDelayQueue<String> delayed = builder("delayed").buildDelayQueue();
        delayed.start();
        delayed.put("tomorrow", System.currentTimeMillis() + TimeUnit.DAYS.toMillis(1));
        untilChildren("delayed", 1);
        DistributedIdQueue<String> byId = builder("by-id").buildIdQueue();
        byId.start();
        byId.put("a cup", "order/17");
        untilChildren("by-id", 1);
    }

    /** Three items, and a consumer that has the first one. */
    private void queue(String path, String lockPath) throws Exception {
        DistributedQueue<String> producer = builder(path).buildQueue();
        producer.start();
        for (String item : List.of("a cup", "a plate", "a spoon")) {
            producer.put(item);
        }
        untilChildren(path, 3);
        Slow slow = new Slow();
        QueueBuilder<String> consumer = QueueBuilder.builder(two, slow, new Text(), ROOT + path);
        consumer.lockPath(ROOT + lockPath).buildQueue().start();
        if (!slow.hasOne.await(30, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no item in " + path);
        }
    }

    /** Of a producer. */
    private QueueBuilder<String> builder(String path) {
        return QueueBuilder.builder(one, null, new Text(), ROOT + path);
    }

    private void groups() throws Exception {
        for (int number = 1; number <= 2; number++) {
            new GroupMember(hosts.get(number - 1), ROOT + "group", "api-" + number, bytes("port 808" + number)).start();
            untilChildren("group", number);
        }
        keep(one, "plain", false);
        keep(two, "protected", true);
    }

    private static void keep(CuratorFramework client, String name, boolean isProtected) throws Exception {
        String path = ROOT + "nodes/" + name;
        PersistentNode node = new PersistentNode(client, CreateMode.EPHEMERAL, isProtected, path, bytes("mine"));
        node.start();
        node.waitForInitialCreate(30, TimeUnit.SECONDS);
    }

    /** A service with an instance of each type, and one whose instances are all static. */
    private void services() throws Exception {
        register(one, "api", "a", ServiceType.DYNAMIC);
        register(two, "api", "b", ServiceType.STATIC);
        register(three, "api", "c", ServiceType.DYNAMIC_SEQUENTIAL);
        register(one, "printers", "first", ServiceType.STATIC);
        register(one, "printers", "second", ServiceType.PERMANENT);
    }

    private static void register(CuratorFramework client, String name, String id, ServiceType type) throws Exception {
        ServiceDiscovery<Void> discovery =
            ServiceDiscoveryBuilder.builder(Void.class).client(client).basePath(ROOT + "services").build();
        discovery.start();
        discovery.registerService(ServiceInstance.<Void>builder()
            .name(name)
            .id(id)
            .address("10.0.0.1")
            .port(80)
            .serviceType(type)
            .build());
    }

    private void values() throws Exception {
        SharedCount count = new SharedCount(one, ROOT + "count", 17);
        count.start();
        count.setCount(18);
        DistributedAtomicLong number = new DistributedAtomicLong(one, ROOT + "number", new RetryOneTime(1));
        number.increment();
        new DistributedBarrier(one, ROOT + "barrier").setBarrier();
    }

    private static InterProcessReadWriteLock readWrite(CuratorFramework client, String path, String data) {
        return new InterProcessReadWriteLock(client, ROOT + path, bytes(data));
    }

    /** Starts to wait for a lock, and returns once its directory has so many nodes. */
    private void waits(String directory, int nodes, InterProcessLock lock) throws Exception {
        thread(lock::acquire);
        untilChildren(directory, nodes);
    }

    private void untilChildren(String path, int number) throws Exception {
        until(path + " has " + number, () -> one.checkExists().forPath(ROOT + path) != null
            && one.getChildren().forPath(ROOT + path).size() == number);
    }

    private static void until(String what, Condition condition) throws Exception {
        for (int attempt = 0; !condition.holds(); attempt++) {
            if (attempt > 3000) {
                throw new IllegalStateException("not in time: " + what);
            }
            Thread.sleep(10);
        }
    }

    private static void thread(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
                forever();
            } catch (Exception error) {
                error.printStackTrace();
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    private static void forever() throws InterruptedException {
        new CountDownLatch(1).await();
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
