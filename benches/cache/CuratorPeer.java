import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryForever;

/**
 * Curator's cache, controlled by lines on the standard input. It prints "ready" when it is connected. It answers each
 * command with one line: the nanoseconds that the command took.
 *
 * <pre>
 * load PATH NODES       reads a tree of NODES nodes, and forgets it
 * follow PATH NODES     reads it, and keeps it
 * changes N             waits until N changes were reported since follow or the last changes or compared
 * suspended             waits until the connection is lost
 * compared N            waits for the reconnect, and then for N changes; the time is that between the two
 * forget                closes the cache that is kept
 * </pre>
 *
 * The first argument is the connect string.
 */
public class CuratorPeer {
    private static final long PATIENCE = 120;

    private final CuratorFramework client;
    private final AtomicInteger changes = new AtomicInteger();
    private CountDownLatch suspended = new CountDownLatch(1);
    private CountDownLatch reconnected = new CountDownLatch(1);
    private long reconnectedAt;
    private CuratorCache cache;

    private CuratorPeer(String connect) throws Exception {
        client = CuratorFrameworkFactory.newClient(connect, 30_000, 10_000, new RetryForever(50));
        client.getConnectionStateListenable().addListener((of, state) -> connection(state));
        client.start();
        if (!client.blockUntilConnected(30, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no connection to " + connect);
        }
    }

    public static void main(String[] args) throws Exception {
        CuratorPeer peer = new CuratorPeer(args[0]);
        System.out.println("ready");
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String command; (command = commands.readLine()) != null; ) {
            System.out.println(peer.obey(command.split(" ")));
        }
        System.exit(0);
    }

    private synchronized void connection(ConnectionState state) {
        if (state == ConnectionState.SUSPENDED) {
            suspended.countDown();
        } else if (state == ConnectionState.RECONNECTED) {
            reconnectedAt = System.nanoTime();
            reconnected.countDown();
        }
    }

    private long obey(String[] command) throws Exception {
        long began = System.nanoTime();
        switch (command[0]) {
            case "load":
                read(command[1], Integer.parseInt(command[2]));
                long took = System.nanoTime() - began;
                cache.close();
                return took;
            case "follow":
                read(command[1], Integer.parseInt(command[2]));
                break;
            case "changes":
                await(Integer.parseInt(command[1]));
                break;
            case "suspended":
                await(suspended);
                break;
            case "compared":
                await(reconnected);
                await(Integer.parseInt(command[1]));
                synchronized (this) {
                    suspended = new CountDownLatch(1);
                    reconnected = new CountDownLatch(1);
                    return System.nanoTime() - reconnectedAt;
                }
            case "forget":
                cache.close();
                break;
            default:
                throw new IllegalArgumentException(command[0]);
        }
        return System.nanoTime() - began;
    }

    private void read(String path, int nodes) throws Exception {
        CountDownLatch initialized = new CountDownLatch(1);
        cache = CuratorCache.build(client, path);
        cache.listenable().addListener(CuratorCacheListener.builder()
                .forInitialized(initialized::countDown)
                .forChanges((before, now) -> changed())
                .build());
        cache.start();
        await(initialized);
        if (cache.size() != nodes) {
            throw new IllegalStateException(cache.size() + " nodes of " + nodes);
        }
        synchronized (changes) {
            changes.set(0);
        }
    }

    private void changed() {
        synchronized (changes) {
            changes.incrementAndGet();
            changes.notifyAll();
        }
    }

    private void await(int wanted) throws InterruptedException {
        synchronized (changes) {
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE);
            while (changes.get() < wanted) {
                if (System.nanoTime() > end) {
                    throw new IllegalStateException(changes.get() + " changes of " + wanted);
                }
                changes.wait(1000);
            }
            changes.set(0);
        }
    }

    private static void await(CountDownLatch latch) throws InterruptedException {
        if (!latch.await(PATIENCE, TimeUnit.SECONDS)) {
            throw new IllegalStateException("timed out");
        }
    }
}
