import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.shared.SharedCount;

/** Locks and semaphores. */
final class Locks {
    private Locks() {}

    static void add() {
        Judge.check("mutex, contention", place -> contention(place, client -> new InterProcessMutex(client, "/lock")));
        Judge.check("mutex, reentrance", Locks::reentrance);
        Judge.check("mutex, timeout", Locks::timeout);
        Judge.check("mutex, revocation", Locks::revocation);
        Judge.check("mutex, interrupted wait", Locks::interrupted);
        Judge.check("mutex, session ended", Locks::sessionEnded);
        Judge.check("mutex, line", Locks::line);
        Judge.check("semaphore mutex, contention",
                place -> contention(place, client -> new InterProcessSemaphoreMutex(client, "/lock")));
        Judge.check("semaphore mutex, no reentrance", Locks::noReentrance);
        Judge.check("read-write lock, readers together", Locks::readersTogether);
        Judge.check("read-write lock, downgrade", Locks::downgrade);
        Judge.check("read-write lock, writers alone",
                place -> contention(place, client -> new InterProcessReadWriteLock(client, "/lock").writeLock()));
        Judge.check("semaphore, permits", Locks::permits);
        Judge.check("semaphore, contention", Locks::semaphoreContention);
        Judge.check("semaphore, shared count", Locks::sharedPermits);
        Judge.check("multi lock, all or none", Locks::multiLock);
    }

    interface Make {
        InterProcessLock make(CuratorFramework client);
    }

    /** Three clients with three threads each, five turns a thread. */
    private static void contention(Place place, Make make) throws Exception {
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger turns = new AtomicInteger();
        List<Future<Void>> threads = new ArrayList<>();
        for (int number = 0; number < 3; number++) {
            CuratorFramework client = place.client();
            for (int thread = 0; thread < 3; thread++) {
                InterProcessLock lock = make.make(client);
                threads.add(place.spawn(() -> takeTurns(lock, inside, turns)));
            }
        }
        for (Future<Void> thread : threads) {
            Place.join(thread);
        }
        Place.same(45, turns.get(), "turns");
    }

    private static Void takeTurns(InterProcessLock lock, AtomicInteger inside, AtomicInteger turns) throws Exception {
        for (int turn = 0; turn < 5; turn++) {
            Place.that(lock.acquire(30, TimeUnit.SECONDS), "not acquired");
            try {
                Place.same(1, inside.incrementAndGet(), "holders");
                Thread.sleep(2);
                turns.incrementAndGet();
                inside.decrementAndGet();
            } finally {
                lock.release();
            }
        }
        return null;
    }

    private static void reentrance(Place place) throws Exception {
        InterProcessMutex lock = new InterProcessMutex(place.client(), "/lock");
        InterProcessMutex other = new InterProcessMutex(place.client(), "/lock");
        lock.acquire();
        Place.that(lock.acquire(1, TimeUnit.SECONDS), "not acquired again");
        Place.same(1, lock.getParticipantNodes().size(), "nodes");
        lock.release();
        Place.that(!other.acquire(200, TimeUnit.MILLISECONDS), "acquired although held");
        lock.release();
        Place.that(other.acquire(10, TimeUnit.SECONDS), "not acquired after the release");
        Place.same("IllegalMonitorStateException", Place.failure(() -> {
            lock.release();
            return null;
        }), "a release too many");
    }

    private static void timeout(Place place) throws Exception {
        CuratorFramework client = place.client();
        InterProcessMutex holder = new InterProcessMutex(place.client(), "/lock");
        holder.acquire();
        InterProcessMutex waiter = new InterProcessMutex(client, "/lock");
        long start = System.nanoTime();
        Place.that(!waiter.acquire(500, TimeUnit.MILLISECONDS), "acquired although held");
        Place.that(System.nanoTime() - start >= 490_000_000, "gave up early");
        Place.soon(() -> client.getChildren().forPath("/lock").size() == 1, "the node of the waiter is deleted");
    }

    private static void revocation(Place place) throws Exception {
        InterProcessMutex holder = new InterProcessMutex(place.client(), "/lock");
        CountDownLatch asked = new CountDownLatch(1);
        holder.makeRevocable(lock -> asked.countDown());
        holder.acquire();
        InterProcessMutex other = new InterProcessMutex(place.client(), "/lock");
        Collection<String> nodes = other.getParticipantNodes();
        Revoker.attemptRevoke(place.client(), nodes.iterator().next());
        Place.that(asked.await(10, TimeUnit.SECONDS), "the holder is not asked");
    }

    private static void interrupted(Place place) throws Exception {
        CuratorFramework client = place.client();
        InterProcessMutex holder = new InterProcessMutex(place.client(), "/lock");
        holder.acquire();
        Future<Void> waiting = place.spawn(() -> {
            new InterProcessMutex(client, "/lock").acquire();
            return null;
        });
        Place.soon(() -> client.getChildren().forPath("/lock").size() == 2, "two in line");
        waiting.cancel(true);
        Place.soon(() -> client.getChildren().forPath("/lock").size() == 1, "the node of the waiter is deleted");
    }

    private static void sessionEnded(Place place) throws Exception {
        CuratorFramework client = place.client();
        new InterProcessMutex(client, "/lock").acquire();
        InterProcessMutex next = new InterProcessMutex(place.client(), "/lock");
        Future<Boolean> waiting = place.spawn(() -> next.acquire(20, TimeUnit.SECONDS));
        CuratorFramework third = place.client();
        Place.soon(() -> third.getChildren().forPath("/lock").size() == 2, "two in line");
        place.endSession(client);
        Place.that(Place.join(waiting), "not acquired after the holder's session");
    }

    /** The lock passes in the order of the line. */
    private static void line(Place place) throws Exception {
        CuratorFramework client = place.client();
        InterProcessMutex holder = new InterProcessMutex(client, "/lock");
        holder.acquire();
        List<Integer> order = java.util.Collections.synchronizedList(new ArrayList<>());
        List<Future<Void>> waiting = new ArrayList<>();
        for (int number = 0; number < 4; number++) {
            int own = number;
            CuratorFramework other = place.client();
            waiting.add(place.spawn(() -> {
                InterProcessMutex lock = new InterProcessMutex(other, "/lock");
                lock.acquire();
                order.add(own);
                lock.release();
                return null;
            }));
            Place.soon(() -> client.getChildren().forPath("/lock").size() == own + 2, "one more in line");
        }
        holder.release();
        for (Future<Void> thread : waiting) {
            Place.join(thread);
        }
        Place.same(List.of(0, 1, 2, 3), order, "order");
    }

    private static void noReentrance(Place place) throws Exception {
        InterProcessSemaphoreMutex lock = new InterProcessSemaphoreMutex(place.client(), "/lock");
        lock.acquire();
        Place.that(!lock.acquire(300, TimeUnit.MILLISECONDS), "acquired twice");
        Place.join(place.spawn(() -> {
            lock.release(); // by another thread
            return null;
        }));
        Place.that(lock.acquire(10, TimeUnit.SECONDS), "not acquired after the release");
    }

    private static void readersTogether(Place place) throws Exception {
        InterProcessReadWriteLock[] locks = new InterProcessReadWriteLock[3];
        for (int number = 0; number < locks.length; number++) {
            locks[number] = new InterProcessReadWriteLock(place.client(), "/lock");
        }
        Place.that(locks[0].readLock().acquire(10, TimeUnit.SECONDS), "the first reader");
        Place.that(locks[1].readLock().acquire(10, TimeUnit.SECONDS), "the second reader");
        Place.that(!locks[2].writeLock().acquire(300, TimeUnit.MILLISECONDS), "a writer beside readers");
        Future<Boolean> writer = place.spawn(() -> locks[2].writeLock().acquire(20, TimeUnit.SECONDS));
        Place.soon(() -> locks[0].writeLock().getParticipantNodes().size() == 1, "a writer in line");
        InterProcessReadWriteLock late = new InterProcessReadWriteLock(place.client(), "/lock");
        Place.that(!late.readLock().acquire(300, TimeUnit.MILLISECONDS), "a reader behind a writer");
        locks[0].readLock().release();
        Place.that(!writer.isDone(), "a writer beside a reader");
        locks[1].readLock().release();
        Place.that(Place.join(writer), "the writer after the readers");
    }

    private static void downgrade(Place place) throws Exception {
        InterProcessReadWriteLock lock = new InterProcessReadWriteLock(place.client(), "/lock");
        InterProcessReadWriteLock other = new InterProcessReadWriteLock(place.client(), "/lock");
        lock.writeLock().acquire();
        Place.that(lock.readLock().acquire(10, TimeUnit.SECONDS), "the writer reads");
        Place.that(!other.readLock().acquire(300, TimeUnit.MILLISECONDS), "a reader beside a writer");
        lock.writeLock().release();
        Place.that(other.readLock().acquire(10, TimeUnit.SECONDS), "two readers");
        Place.that(!other.writeLock().acquire(300, TimeUnit.MILLISECONDS), "an upgrade");
    }

    private static void permits(Place place) throws Exception {
        InterProcessSemaphoreV2 here = new InterProcessSemaphoreV2(place.client(), "/semaphore", 3);
        InterProcessSemaphoreV2 there = new InterProcessSemaphoreV2(place.client(), "/semaphore", 3);
        Collection<Lease> two = here.acquire(2, 10, TimeUnit.SECONDS);
        Lease third = there.acquire(10, TimeUnit.SECONDS);
        Place.that(two != null && third != null, "three permits");
        Place.same(null, there.acquire(300, TimeUnit.MILLISECONDS), "a fourth");
        Place.same(null, there.acquire(2, 300, TimeUnit.MILLISECONDS), "two more");
        here.returnAll(two);
        Place.that(there.acquire(2, 10, TimeUnit.SECONDS) != null, "two that were returned");
    }

    private static void semaphoreContention(Place place) throws Exception {
        AtomicInteger inside = new AtomicInteger();
        List<Future<Void>> threads = new ArrayList<>();
        for (int number = 0; number < 4; number++) {
            InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(place.client(), "/semaphore", 2);
            threads.add(place.spawn(() -> {
                for (int turn = 0; turn < 5; turn++) {
                    Lease lease = semaphore.acquire(30, TimeUnit.SECONDS);
                    Place.that(inside.incrementAndGet() <= 2, "more than two");
                    Thread.sleep(2);
                    inside.decrementAndGet();
                    semaphore.returnLease(lease);
                }
                return null;
            }));
        }
        for (Future<Void> thread : threads) {
            Place.join(thread);
        }
    }

    private static void sharedPermits(Place place) throws Exception {
        CuratorFramework client = place.client();
        SharedCount count = place.closing(new SharedCount(client, "/count", 1));
        count.start();
        InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, "/semaphore", count);
        Place.that(semaphore.acquire(10, TimeUnit.SECONDS) != null, "the first");
        Future<Lease> second = place.spawn(() -> semaphore.acquire(20, TimeUnit.SECONDS));
        Thread.sleep(200);
        Place.that(!second.isDone(), "a second of one");
        count.setCount(2);
        Place.that(Place.join(second) != null, "the second of two");
    }

    private static void multiLock(Place place) throws Exception {
        CuratorFramework client = place.client();
        InterProcessMultiLock both = new InterProcessMultiLock(client, Arrays.asList("/one", "/two"));
        InterProcessMutex two = new InterProcessMutex(place.client(), "/two");
        two.acquire();
        Place.that(!both.acquire(300, TimeUnit.MILLISECONDS), "acquired although one is held");
        InterProcessMutex one = new InterProcessMutex(place.client(), "/one");
        Place.that(one.acquire(10, TimeUnit.SECONDS), "the other is not held");
        one.release();
        two.release();
        Place.that(both.acquire(10, TimeUnit.SECONDS), "both");
        Place.that(!one.acquire(300, TimeUnit.MILLISECONDS), "one of both");
        both.release();
    }
}
