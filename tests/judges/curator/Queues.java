import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.queue.DistributedDelayQueue;
import org.apache.curator.framework.recipes.queue.DistributedIdQueue;
import org.apache.curator.framework.recipes.queue.DistributedPriorityQueue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.MultiItem;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.state.ConnectionState;

/** Queues. */
final class Queues {
    private Queues() {}

    static void add() {
        Judge.check("queue, order", Queues::order);
        Judge.check("queue, two consumers with a lock path", Queues::twoConsumers);
        Judge.check("queue, many at once", Queues::multi);
        Judge.check("queue, a failed consumer", Queues::failedConsumer);
        Judge.check("id queue", Queues::idQueue);
        Judge.check("priority queue", Queues::priority);
        Judge.check("delay queue", Queues::delay);
        Judge.check("simple queue", Queues::simple);
        Judge.check("simple queue, two takers", Queues::takers);
    }

    private static final class Texts implements QueueSerializer<String> {
        @Override
        public byte[] serialize(String item) {
            return Place.bytes(item);
        }

        @Override
        public String deserialize(byte[] bytes) {
            return Place.text(bytes);
        }
    }

    interface Taking {
        void take(String item) throws Exception;
    }

    private static QueueBuilder<String> builder(CuratorFramework client, Taking taking) {
        QueueConsumer<String> consumer = taking == null ? null : new QueueConsumer<>() {
            @Override
            public void consumeMessage(String item) throws Exception {
                taking.take(item);
            }

            @Override
            public void stateChanged(CuratorFramework of, ConnectionState state) {}
        };
        return QueueBuilder.builder(client, consumer, new Texts(), "/queue");
    }

    private static List<String> list() {
        return Collections.synchronizedList(new ArrayList<>());
    }

    private static List<String> items(int count) {
        List<String> items = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            items.add("item-" + number);
        }
        return items;
    }

    private static void order(Place place) throws Exception {
        DistributedQueue<String> producer = place.closing(builder(place.client(), null).buildQueue());
        producer.start();
        for (String item : items(30)) {
            producer.put(item);
        }
        Place.that(producer.flushPuts(10, TimeUnit.SECONDS), "flushed");
        List<String> taken = list();
        place.closing(builder(place.client(), taken::add).buildQueue()).start();
        Place.soon(() -> taken.size() == 30, "all taken");
        Place.same(items(30), taken, "order");
    }

    private static void twoConsumers(Place place) throws Exception {
        List<String> taken = list();
        for (int number = 0; number < 2; number++) {
            place.closing(builder(place.client(), taken::add).lockPath("/locks").buildQueue()).start();
        }
        DistributedQueue<String> producer = place.closing(builder(place.client(), null).buildQueue());
        producer.start();
        for (String item : items(40)) {
            producer.put(item);
        }
        Place.soon(() -> taken.size() >= 40, "all taken");
        Thread.sleep(200);
        Set<String> different = new TreeSet<>(taken);
        Place.same(40, different.size(), "different items");
        Place.same(40, taken.size(), "items");
    }

    private static void multi(Place place) throws Exception {
        List<String> taken = list();
        DistributedQueue<String> queue = place.closing(builder(place.client(), taken::add).buildQueue());
        queue.start();
        List<String> left = new ArrayList<>(items(10));
        queue.putMulti(new MultiItem<>() {
            @Override
            public String nextItem() {
                return left.isEmpty() ? null : left.remove(0);
            }
        });
        Place.soon(() -> taken.size() == 10, "all taken");
        Place.same(items(10), taken, "order");
    }

    /** With a lock path an item whose consumer fails comes again. */
    private static void failedConsumer(Place place) throws Exception {
        List<String> taken = list();
        DistributedQueue<String> queue = place.closing(builder(place.client(), item -> {
            taken.add(item);
            Place.that(taken.size() > 1, "the first time");
        }).lockPath("/locks").buildQueue());
        queue.setErrorMode(org.apache.curator.framework.recipes.queue.ErrorMode.REQUEUE);
        queue.start();
        queue.put("again");
        Place.soon(() -> taken.size() >= 2, "delivered again");
    }

    private static void idQueue(Place place) throws Exception {
        CuratorFramework client = place.client();
        DistributedIdQueue<String> producer = place.closing(builder(client, null).buildIdQueue());
        producer.start();
        producer.put("one", "1");
        producer.put("two", "2");
        producer.put("three", "3");
        Place.soon(() -> client.getChildren().forPath("/queue").size() == 3, "three items");
        Place.same(1, producer.remove("2"), "removed");
        List<String> taken = list();
        place.closing(builder(place.client(), taken::add).buildIdQueue()).start();
        Place.soon(() -> taken.size() == 2, "two taken");
        Place.same(List.of("one", "three"), taken, "items");
    }

    private static void priority(Place place) throws Exception {
        CuratorFramework client = place.client();
        DistributedPriorityQueue<String> producer = place.closing(builder(client, null).buildPriorityQueue(0));
        producer.start();
        producer.put("last", 20);
        producer.put("middle", 0);
        producer.put("first", -5);
        Place.that(producer.flushPuts(10, TimeUnit.SECONDS), "flushed");
        List<String> taken = list();
        place.closing(builder(place.client(), taken::add).buildPriorityQueue(0)).start();
        Place.soon(() -> taken.size() == 3, "all taken");
        Place.same(List.of("first", "middle", "last"), taken, "order");
    }

    private static void delay(Place place) throws Exception {
        List<String> taken = list();
        DistributedDelayQueue<String> queue = place.closing(builder(place.client(), taken::add).buildDelayQueue());
        queue.start();
        long now = System.currentTimeMillis();
        queue.put("late", now + 2_000);
        queue.put("soon", now + 300);
        Place.soon(() -> taken.size() == 2, "all taken");
        Place.that(System.currentTimeMillis() - now >= 1_900, "taken early");
        Place.same(List.of("soon", "late"), taken, "order");
    }

    private static void simple(Place place) throws Exception {
        SimpleDistributedQueue queue = new SimpleDistributedQueue(place.client(), "/queue");
        Place.same(null, queue.poll(), "of none");
        Place.same("NoSuchElementException", Place.failure(queue::element), "element of none");
        Place.same(null, queue.poll(300, TimeUnit.MILLISECONDS), "of none in a while");
        Place.that(queue.offer(Place.bytes("one")), "offered");
        queue.offer(Place.bytes("two"));
        queue.offer(Place.bytes("three"));
        Place.same("one", Place.text(queue.peek()), "peek");
        Place.same("one", Place.text(queue.take()), "take");
        Place.same("two", Place.text(queue.poll(1, TimeUnit.SECONDS)), "poll");
        Place.same("three", Place.text(queue.remove()), "remove");
        Place.same("NoSuchElementException", Place.failure(queue::remove), "remove of none");
    }

    private static void takers(Place place) throws Exception {
        List<Future<byte[]>> takers = new ArrayList<>();
        for (int number = 0; number < 4; number++) {
            SimpleDistributedQueue queue = new SimpleDistributedQueue(place.client(), "/queue");
            takers.add(place.spawn(queue::take));
        }
        SimpleDistributedQueue queue = new SimpleDistributedQueue(place.client(), "/queue");
        Set<String> taken = new TreeSet<>();
        for (String item : items(4)) {
            queue.offer(Place.bytes(item));
        }
        for (Future<byte[]> taker : takers) {
            taken.add(Place.text(Place.join(taker)));
        }
        Place.same(new TreeSet<>(items(4)), taken, "items");
    }
}
