import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.CachedAtomicLong;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicInteger;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.atomic.PromotedToLock;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedCountListener;
import org.apache.curator.framework.recipes.shared.SharedCountReader;
import org.apache.curator.framework.recipes.shared.SharedValue;
import org.apache.curator.framework.recipes.shared.VersionedValue;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;

/** Counters and values. */
final class Numbers {
    private Numbers() {}

    static void add() {
        Judge.check("atomic long, contention", Numbers::contention);
        Judge.check("atomic long, one client", Numbers::alone);
        Judge.check("atomic integer", Numbers::integer);
        Judge.check("cached atomic long", Numbers::cached);
        Judge.check("shared count", Numbers::sharedCount);
        Judge.check("shared value", Numbers::sharedValue);
        Judge.check("shared value, session ended", Numbers::sharedSessionEnded);
    }

    private static void contention(Place place) throws Exception {
        List<Future<Void>> clients = new ArrayList<>();
        for (int number = 0; number < 4; number++) {
            CuratorFramework client = place.client();
            clients.add(place.spawn(() -> {
                PromotedToLock lock = PromotedToLock.builder().lockPath("/lock").timeout(30, TimeUnit.SECONDS)
                        .retryPolicy(new RetryNTimes(100, 10)).build();
                DistributedAtomicLong counter =
                        new DistributedAtomicLong(client, "/counter", new RetryNTimes(2, 1), lock);
                for (int turn = 0; turn < 10; turn++) {
                    Place.that(counter.increment().succeeded(), "not added");
                }
                return null;
            }));
        }
        for (Future<Void> client : clients) {
            Place.join(client);
        }
        AtomicValue<Long> value = new DistributedAtomicLong(place.client(), "/counter", new RetryNTimes(2, 1)).get();
        Place.same(40L, value.postValue(), "sum");
    }

    private static void alone(Place place) throws Exception {
        DistributedAtomicLong counter = new DistributedAtomicLong(place.client(), "/counter", new RetryNTimes(2, 1));
        Place.that(counter.initialize(7L), "initialized");
        Place.that(!counter.initialize(8L), "initialized twice");
        Place.same(12L, counter.add(5L).postValue(), "added");
        Place.that(!counter.compareAndSet(1L, 2L).succeeded(), "exchanged another value");
        Place.that(counter.compareAndSet(12L, 100L).succeeded(), "exchanged");
        Place.same(100L, counter.trySet(3L).preValue(), "before");
        counter.forceSet(-1L);
        Place.same(-1L, counter.get().postValue(), "set");
    }

    private static void integer(Place place) throws Exception {
        DistributedAtomicInteger counter =
                new DistributedAtomicInteger(place.client(), "/counter", new RetryNTimes(2, 1));
        Place.same(1, counter.increment().postValue(), "up");
        Place.same(-1, counter.subtract(2).postValue(), "down");
    }

    private static void cached(Place place) throws Exception {
        DistributedAtomicLong counter = new DistributedAtomicLong(place.client(), "/counter", new RetryNTimes(2, 1));
        CachedAtomicLong numbers = new CachedAtomicLong(counter, 10);
        for (long number = 0; number < 25; number++) {
            Place.same(number, numbers.next().preValue(), "number");
        }
        Place.same(30L, counter.get().postValue(), "reserved");
    }

    private static SharedCount count(Place place) throws Exception {
        SharedCount count = place.closing(new SharedCount(place.client(), "/count", 5));
        count.start();
        return count;
    }

    private static void sharedCount(Place place) throws Exception {
        SharedCount here = count(place);
        SharedCount there = count(place);
        Place.same(5, there.getCount(), "seed");
        AtomicInteger told = new AtomicInteger();
        there.addListener(new SharedCountListener() {
            @Override
            public void countHasChanged(SharedCountReader of, int number) {
                told.set(number);
            }

            @Override
            public void stateChanged(CuratorFramework client, ConnectionState state) {}
        });
        VersionedValue<Integer> old = there.getVersionedValue();
        here.setCount(6);
        Place.soon(() -> told.get() == 6 && there.getCount() == 6, "told of 6");
        Place.that(!there.trySetCount(old, 8), "set over an old version");
        Place.that(there.trySetCount(there.getVersionedValue(), 9), "set");
        Place.soon(() -> here.getCount() == 9, "9 here");
    }

    private static void sharedValue(Place place) throws Exception {
        SharedValue here = place.closing(new SharedValue(place.client(), "/value", Place.bytes("seed")));
        SharedValue there = place.closing(new SharedValue(place.client(), "/value", Place.bytes("other seed")));
        here.start();
        there.start();
        Place.same("seed", Place.text(there.getValue()), "seed");
        for (int number = 0; number < 20; number++) {
            here.setValue(Place.bytes("value " + number));
        }
        Place.soon(() -> Place.text(there.getValue()).equals("value 19"), "the last value");
    }

    private static void sharedSessionEnded(Place place) throws Exception {
        CuratorFramework client = place.client();
        SharedCount here = place.closing(new SharedCount(client, "/count", 5));
        here.start();
        SharedCount there = count(place);
        place.endSession(client);
        there.setCount(6);
        Place.soon(() -> here.getCount() == 6, "6 in the new session");
        there.setCount(7);
        Place.soon(() -> here.getCount() == 7, "7 in the new session");
    }
}
