import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;

/** Elections. */
final class Elections {
    private Elections() {}

    static void add() {
        Judge.check("leader latch, closed leaders hand over", Elections::latches);
        Judge.check("leader latch, session ended", Elections::latchSessionEnded);
        Judge.check("leader latch, listener and timeout", Elections::latchListener);
        Judge.check("leader selector, in turn", Elections::inTurn);
        Judge.check("leader selector, interrupted", Elections::interrupted);
        Judge.check("leader selector, session ended", Elections::selectorSessionEnded);
    }

    private static LeaderLatch latch(Place place, CuratorFramework client, String id) throws Exception {
        LeaderLatch latch = place.closing(new LeaderLatch(client, "/latch", id));
        latch.start();
        return latch;
    }

    private static void latches(Place place) throws Exception {
        List<LeaderLatch> latches = new ArrayList<>();
        for (int number = 0; number < 5; number++) {
            latches.add(latch(place, place.client(), "member-" + number));
        }
        for (int left = 5; left > 0; left--) {
            int many = left;
            Place.soon(() -> latches.stream().filter(LeaderLatch::hasLeadership).count() == 1, "one leader");
            Place.soon(() -> latches.get(0).getParticipants().size() == many, many + " participants");
            LeaderLatch leader = latches.stream().filter(LeaderLatch::hasLeadership).findAny().get();
            Place.same(leader.getId(), latches.get(0).getLeader().getId(), "the leader as others see it");
            latches.remove(leader);
            leader.close();
            if (latches.isEmpty()) {
                return;
            }
        }
    }

    private static void latchSessionEnded(Place place) throws Exception {
        CuratorFramework client = place.client();
        LeaderLatch first = latch(place, client, "first");
        Place.that(first.await(10, TimeUnit.SECONDS), "the first leads");
        LeaderLatch second = latch(place, place.client(), "second");
        place.endSession(client);
        Place.that(second.await(20, TimeUnit.SECONDS), "the second leads");
        Place.soon(() -> !first.hasLeadership(), "the first does not lead");
        Place.soon(() -> second.getParticipants().size() == 2, "the first takes part again");
    }

    private static void latchListener(Place place) throws Exception {
        LeaderLatch leader = latch(place, place.client(), "leader");
        AtomicInteger told = new AtomicInteger();
        leader.addListener(new LeaderLatchListener() {
            @Override
            public void isLeader() {
                told.addAndGet(1);
            }

            @Override
            public void notLeader() {
                told.addAndGet(10);
            }
        });
        Place.that(leader.await(10, TimeUnit.SECONDS), "the leader leads");
        LeaderLatch other = latch(place, place.client(), "other");
        Place.that(!other.await(300, TimeUnit.MILLISECONDS), "two leaders");
        leader.close(LeaderLatch.CloseMode.NOTIFY_LEADER);
        Place.soon(() -> told.get() == 11, "told of both");
        Place.that(other.await(20, TimeUnit.SECONDS), "the other leads");
    }

    /** Each of three leads three times. */
    private static void inTurn(Place place) throws Exception {
        AtomicInteger leaders = new AtomicInteger();
        CountDownLatch inLine = new CountDownLatch(3);
        CountDownLatch terms = new CountDownLatch(9);
        int[] each = new int[3];
        List<LeaderSelector> selectors = new ArrayList<>();
        for (int number = 0; number < each.length; number++) {
            int own = number;
            LeaderSelector selector = new LeaderSelector(place.client(), "/selector", listener(client -> {
                Place.same(1, leaders.incrementAndGet(), "leaders");
                each[own]++;
                inLine.await();
                leaders.decrementAndGet();
                terms.countDown();
            }));
            selector.autoRequeue();
            selector.start();
            selectors.add(place.closing(selector));
            Place.soon(() -> selectors.get(0).getParticipants().size() > own, "one more in line");
            inLine.countDown();
        }
        Place.that(terms.await(30, TimeUnit.SECONDS), "nine terms");
        for (LeaderSelector selector : selectors) {
            selector.close();
        }
        for (int led : each) {
            Place.that(led >= 2, "terms of one: " + led);
        }
    }

    private static void interrupted(Place place) throws Exception {
        CountDownLatch leads = new CountDownLatch(1);
        CountDownLatch interrupted = new CountDownLatch(1);
        LeaderSelector selector = place.closing(new LeaderSelector(place.client(), "/selector", listener(client -> {
            leads.countDown();
            try {
                Thread.sleep(60_000);
            } catch (InterruptedException end) {
                interrupted.countDown();
                throw end;
            }
        })));
        selector.setId("one");
        selector.start();
        Place.that(leads.await(10, TimeUnit.SECONDS), "leads");
        Place.same("one", selector.getLeader().getId(), "the leader");
        selector.interruptLeadership();
        Place.that(interrupted.await(10, TimeUnit.SECONDS), "interrupted");
        Place.soon(() -> selector.getParticipants().isEmpty(), "nobody in line");
        Place.that(selector.requeue(), "in line again");
    }

    private static void selectorSessionEnded(Place place) throws Exception {
        AtomicInteger terms = new AtomicInteger();
        CountDownLatch second = new CountDownLatch(1);
        CuratorFramework client = place.client();
        for (CuratorFramework one : List.of(client, place.client())) {
            LeaderSelector selector = place.closing(new LeaderSelector(one, "/selector", listener(leader -> {
                terms.incrementAndGet();
                if (leader != client) {
                    second.countDown();
                }
                Thread.sleep(60_000);
            })));
            selector.start();
            Place.soon(() -> terms.get() == 1, "one leader");
        }
        place.endSession(client);
        Place.that(second.await(20, TimeUnit.SECONDS), "the second leads");
    }

    interface Term {
        void lead(CuratorFramework client) throws Exception;
    }

    private static LeaderSelectorListenerAdapter listener(Term term) {
        return new LeaderSelectorListenerAdapter() {
            @Override
            public void takeLeadership(CuratorFramework client) throws Exception {
                term.lead(client);
            }
        };
    }
}
