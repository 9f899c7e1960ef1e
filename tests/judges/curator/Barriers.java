import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;

/** Barriers. */
final class Barriers {
    private Barriers() {}

    static void add() {
        Judge.check("barrier", Barriers::barrier);
        Judge.check("double barrier, together", Barriers::together);
        Judge.check("double barrier, timeout", Barriers::timeout);
    }

    private static void barrier(Place place) throws Exception {
        DistributedBarrier here = new DistributedBarrier(place.client(), "/barrier");
        DistributedBarrier there = new DistributedBarrier(place.client(), "/barrier");
        Place.that(there.waitOnBarrier(5, TimeUnit.SECONDS), "no barrier");
        here.setBarrier();
        here.setBarrier();
        Place.that(!there.waitOnBarrier(300, TimeUnit.MILLISECONDS), "a barrier that is set");
        Future<Boolean> waiting = place.spawn(() -> there.waitOnBarrier(20, TimeUnit.SECONDS));
        Thread.sleep(100);
        here.removeBarrier();
        Place.that(Place.join(waiting), "the barrier is removed");
    }

    private static void together(Place place) throws Exception {
        AtomicInteger inside = new AtomicInteger();
        List<Future<Void>> members = new ArrayList<>();
        for (int number = 0; number < 4; number++) {
            CuratorFramework client = place.client();
            members.add(place.spawn(() -> {
                DistributedDoubleBarrier barrier = new DistributedDoubleBarrier(client, "/barrier", 4);
                inside.incrementAndGet();
                Place.that(barrier.enter(20, TimeUnit.SECONDS), "not entered");
                Place.same(4, inside.get(), "members inside");
                Place.that(barrier.leave(20, TimeUnit.SECONDS), "not left");
                return null;
            }));
        }
        for (Future<Void> member : members) {
            Place.join(member);
        }
    }

    private static void timeout(Place place) throws Exception {
        CuratorFramework client = place.client();
        Place.that(!new DistributedDoubleBarrier(client, "/barrier", 2).enter(300, TimeUnit.MILLISECONDS), "alone");
    }
}
