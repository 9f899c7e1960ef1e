import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.queue.DistributedDelayQueue;
import org.apache.curator.framework.recipes.queue.DistributedIdQueue;
import org.apache.curator.framework.recipes.queue.DistributedPriorityQueue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBase;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryForever;

/**
 * Curator's queues, told by lines on the standard input what to do. It says "ready" when it is connected. Each command is
 * answered by one line. KIND is plain, priority, delay or id; KEY is the number, the time or the id, or 0.
 *
 * <pre>
 * put KIND PATH KEY ITEM            the answer is "ok"
 * take KIND PATH LOCKS COUNT        the answer is the items, each with the time at which it was consumed: "a@1785000000000 ..."
 * remove PATH LOCKS ID              the answer is the number of items
 * </pre>
 *
 * <p>The argument is the connect string.
 */
public class QueuePeer {
    private static final long PATIENCE = 60;

    private static final QueueSerializer<String> TEXT = new QueueSerializer<String>() {
        @Override
        public byte[] serialize(String item) {
            return item.getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public String deserialize(byte[] bytes) {
            return new String(bytes, StandardCharsets.UTF_8);
        }
    };

    /** Notes what it consumes. */
    private static class Consumer implements QueueConsumer<String> {
        final List<String> items = new CopyOnWriteArrayList<>();
        final CountDownLatch left;

        Consumer(int count) {
            left = new CountDownLatch(count);
        }

        @Override
        public void consumeMessage(String item) {
            items.add(item + "@" + System.currentTimeMillis());
            left.countDown();
        }

        @Override
        public void stateChanged(CuratorFramework client, ConnectionState state) {}
    }

    private final CuratorFramework client;

    private QueuePeer(String connect) throws Exception {
        client = CuratorFrameworkFactory.newClient(connect, 20_000, 10_000, new RetryForever(50));
        client.start();
        if (!client.blockUntilConnected(30, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no connection to " + connect);
        }
    }

    public static void main(String[] args) throws Exception {
        QueuePeer peer = new QueuePeer(args[0]);
        System.out.println("ready");
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String command; (command = commands.readLine()) != null; ) {
            System.out.println(peer.obey(command.split(" ")));
        }
        System.exit(0);
    }

    private String obey(String[] command) throws Exception {
        switch (command[0]) {
            case "put":
                put(builder(null, command[2]), command[1], command[3], command[4]);
                return "ok";
            case "take":
                return take(command[1], command[2], command[3], Integer.parseInt(command[4]));
            case "remove":
                try (DistributedIdQueue<String> queue = builder(null, command[1]).lockPath(command[2]).buildIdQueue()) {
                    queue.start();
                    return Integer.toString(queue.remove(command[3]));
                }
            default:
                throw new IllegalArgumentException(command[0]);
        }
    }

    private QueueBuilder<String> builder(QueueConsumer<String> consumer, String path) {
        return QueueBuilder.builder(client, consumer, TEXT, path).putInBackground(false);
    }

    private static void put(QueueBuilder<String> builder, String kind, String key, String item) throws Exception {
        switch (kind) {
            case "plain":
                try (DistributedQueue<String> queue = builder.buildQueue()) {
                    queue.start();
                    queue.put(item);
                }
                break;
            case "priority":
                try (DistributedPriorityQueue<String> queue = builder.buildPriorityQueue(0)) {
                    queue.start();
                    queue.put(item, Integer.parseInt(key));
                }
                break;
            case "delay":
                try (DistributedDelayQueue<String> queue = builder.buildDelayQueue()) {
                    queue.start();
                    queue.put(item, Long.parseLong(key));
                }
                break;
            default:
                try (DistributedIdQueue<String> queue = builder.buildIdQueue()) {
                    queue.start();
                    queue.put(item, key);
                }
        }
    }

    private String take(String kind, String path, String locks, int count) throws Exception {
        Consumer consumer = new Consumer(count);
        QueueBuilder<String> builder = builder(consumer, path).lockPath(locks);
        try (QueueBase<String> queue = queue(builder, kind)) {
            queue.start();
            if (!consumer.left.await(PATIENCE, TimeUnit.SECONDS)) {
                throw new IllegalStateException("too few items in time: " + consumer.items);
            }
            // An item is deleted after it was consumed, and a close would interrupt that.
            while (!client.getChildren().forPath(locks).isEmpty()) {
                Thread.sleep(5);
            }
        }
        return String.join(" ", consumer.items);
    }

    private static QueueBase<String> queue(QueueBuilder<String> builder, String kind) {
        switch (kind) {
            case "plain":
                return builder.buildQueue();
            case "priority":
                return builder.buildPriorityQueue(0);
            case "delay":
                return builder.buildDelayQueue();
            default:
                return builder.buildIdQueue();
        }
    }
}
