import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.curator.utils.ZKPaths;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooKeeper;

/** What one check works with: a namespace of its own, clients and threads, all of which end with it. */
final class Place implements AutoCloseable {
    private static final int SESSION_MS = 15_000;
    private static final int SOON_S = 20;

    final String connect;
    final String namespace;
    private final ExecutorService threads = Executors.newCachedThreadPool(Place::daemon);
    private final Deque<AutoCloseable> opened = new ArrayDeque<>();

    Place(String connect, String name) {
        this.connect = connect;
        namespace = "judge/" + name.replaceAll("[^a-zA-Z0-9]+", "-");
    }

    /** Curator would create its namespace as a container, which the server deletes between two steps of a check. */
    void createNamespace() throws Exception {
        ZKPaths.mkdirs(plain(), "/" + namespace);
    }

    static Thread daemon(Runnable task) {
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        return thread;
    }

    CuratorFramework client() throws Exception {
        return client(builder -> builder);
    }

    CuratorFramework client(UnaryOperator<CuratorFrameworkFactory.Builder> settings) throws Exception {
        CuratorFrameworkFactory.Builder builder = CuratorFrameworkFactory.builder().connectString(connect)
                .namespace(namespace).sessionTimeoutMs(SESSION_MS).connectionTimeoutMs(10_000)
                .retryPolicy(new ExponentialBackoffRetry(100, 5));
        CuratorFramework client = closing(settings.apply(builder).build());
        client.start();
        that(client.blockUntilConnected(SOON_S, TimeUnit.SECONDS), "no connection");
        return client;
    }

    /** A client of ZooKeeper itself, without the namespace. */
    ZooKeeper plain() throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper plain = new ZooKeeper(connect, SESSION_MS, event -> {
            if (event.getState() == Watcher.Event.KeeperState.SyncConnected) {
                connected.countDown();
            }
        });
        closing(plain);
        that(connected.await(SOON_S, TimeUnit.SECONDS), "no connection");
        return plain;
    }

    /** Ends the session of a client: a second connection takes it up, and closes it. */
    void endSession(CuratorFramework client) throws Exception {
        ZooKeeper owner = client.getZookeeperClient().getZooKeeper();
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper second = new ZooKeeper(connect, SESSION_MS, event -> {
            if (event.getState() == Watcher.Event.KeeperState.SyncConnected) {
                connected.countDown();
            }
        }, owner.getSessionId(), owner.getSessionPasswd());
        try {
            that(connected.await(SOON_S, TimeUnit.SECONDS), "the session cannot be taken up");
        } finally {
            second.close();
        }
    }

    <T extends AutoCloseable> T closing(T resource) {
        synchronized (opened) {
            opened.push(resource);
        }
        return resource;
    }

    <T> Future<T> spawn(Callable<T> task) {
        return threads.submit(task);
    }

    static <T> T join(Future<T> task) throws Exception {
        return task.get(2 * SOON_S, TimeUnit.SECONDS);
    }

    @Override
    public void close() {
        threads.shutdownNow();
        synchronized (opened) {
            while (!opened.isEmpty()) {
                try {
                    opened.pop().close();
                } catch (Exception ignored) {
                    // Many are closed by their checks already.
                }
            }
        }
    }

    static void that(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static void same(Object expected, Object actual, String what) {
        that(expected == null ? actual == null : expected.equals(actual),
                what + ": " + actual + " instead of " + expected);
    }

    /** Waits until this holds. */
    static void soon(Callable<Boolean> holds, String what) throws Exception {
        soon(SOON_S, holds, what);
    }

    static void soon(int seconds, Callable<Boolean> holds, String what) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        while (!holds.call()) {
            that(System.nanoTime() < end, "not after " + seconds + " s: " + what);
            Thread.sleep(20);
        }
    }

    /** The name of the exception that a call ends with. */
    static String failure(Callable<?> call) {
        try {
            call.call();
            return "none";
        } catch (Exception failure) {
            return failure.getClass().getSimpleName();
        }
    }

    static byte[] bytes(String text) {
        return text.getBytes(java.nio.charset.StandardCharsets.UTF_8);
    }

    static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, java.nio.charset.StandardCharsets.UTF_8);
    }
}
