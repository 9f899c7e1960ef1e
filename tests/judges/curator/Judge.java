import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Plays Curator's own recipes on the servers of a connect string; each check says whether it has passed. */
public final class Judge {
    private static final int LIMIT_S = 170;
    private static final int AT_ONCE = 8;
    private static final Map<String, Check> CHECKS = new LinkedHashMap<>();

    interface Check {
        void run(Place place) throws Exception;
    }

    static void check(String name, Check check) {
        Place.that(CHECKS.put(name, check) == null, "twice: " + name);
    }

    /** Arguments: the connect string, and what the names of checks must contain. */
    public static void main(String[] arguments) throws Exception {
        Locks.add();
        Elections.add();
        Barriers.add();
        Queues.add();
        Numbers.add();
        Caches.add();
        Nodes.add();
        Requests.add();
        String part = arguments.length > 1 ? arguments[1] : "";
        ExecutorService pool = Executors.newFixedThreadPool(AT_ONCE, Place::daemon);
        List<Future<?>> runs = new ArrayList<>();
        CHECKS.forEach((name, check) -> {
            if (name.contains(part)) {
                runs.add(pool.submit(() -> report(name, play(arguments[0], name, check))));
            }
        });
        for (Future<?> run : runs) {
            run.get();
        }
        System.exit(0);
    }

    private static synchronized void report(String name, String outcome) {
        System.out.println(name + ": " + outcome);
    }

    /** Plays one check, in a thread that is abandoned if it does not end. */
    private static String play(String connect, String name, Check check) {
        ExecutorService thread = Executors.newSingleThreadExecutor(Place::daemon);
        Place place = new Place(connect, name);
        Future<?> run = thread.submit(() -> {
            place.createNamespace();
            check.run(place);
            return null;
        });
        try {
            run.get(LIMIT_S, TimeUnit.SECONDS);
            return "ok";
        } catch (TimeoutException late) {
            return "failed: not over after " + LIMIT_S + " s";
        } catch (Exception failed) {
            return "failed: " + String.valueOf(failed.getCause()).replace('\n', ' ');
        } finally {
            thread.shutdownNow();
            Place.daemon(place::close).start();
        }
    }
}
