import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.lang.reflect.Method;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.retry.RetryForever;

/**
 * Curator's locks and numbers, told by lines on the standard input what to do. It says "ready" when it is connected. Each
 * command is answered by one line.
 *
 * <p>These let all participants at once have so many turns each, and tell the judge of each; the answer is "done":
 *
 * <pre>
 * mutex TURNS PATH
 * read-write TURNS PATH             reads three times of four, and writes otherwise; every other writer becomes a
 *                                   reader, if Curator keeps its place then (since CURATOR-621)
 * multi TURNS PATH PATH...          holds all of these mutexes at once
 * semaphore TURNS PATH              acquires one lease of three
 * count TURNS PATH                  adds one to a shared count, of which the judge is not told
 * long TURNS PATH                   adds one to an atomic long, of which the judge is not told
 * </pre>
 *
 * <p>These are for one participant, the answer is the node, or "ok":
 *
 * <pre>
 * read PATH, write PATH             acquires
 * downgrade                         acquires the read lock beside the write lock, and releases that
 * release
 * revocable PATH                    acquires a mutex whose holder can be asked to release
 * revoked                           waits until it was asked
 * revoke NODE                       asks another holder to release
 * </pre>
 *
 * <p>The arguments are the connect string, the address of the judge, and the number of participants.
 */
public class CuratorPeer {
    private static final long PATIENCE = 60;
    private static final int LEASES = 3;

    private final List<Participant> participants = new ArrayList<>();
    private InterProcessReadWriteLock readWrite;
    private InterProcessMutex held;
    private final CountDownLatch revoked = new CountDownLatch(1);

    /** What a participant does each time it has its turn. */
    private interface Turn {
        void play(int number) throws Exception;
    }

    /** A session of its own, and its way to the judge. */
    private static class Participant {
        final CuratorFramework client;
        final BufferedReader answers;
        final PrintWriter judge;

        Participant(String connect, String address) throws Exception {
            client = CuratorFrameworkFactory.newClient(connect, 20_000, 10_000, new RetryForever(50));
            client.start();
            if (!client.blockUntilConnected(30, TimeUnit.SECONDS)) {
                throw new IllegalStateException("no connection to " + connect);
            }
            int colon = address.lastIndexOf(':');
            Socket socket = new Socket(address.substring(0, colon), Integer.parseInt(address.substring(colon + 1)));
            socket.setTcpNoDelay(true);
            answers = new BufferedReader(new InputStreamReader(socket.getInputStream()));
            judge = new PrintWriter(socket.getOutputStream(), true);
        }

        void tell(String what, String node) throws IOException {
            judge.print(what + " curator " + node + "\n");
            judge.flush();
            if (!"ok".equals(answers.readLine())) {
                throw new IllegalStateException("the judge refused to hear " + what);
            }
        }

        /** Holds a lock that is acquired, and releases it. */
        void hold(InterProcessLock lock, InterProcessMutex... mutexes) throws Exception {
            List<String> nodes = new ArrayList<>();
            for (InterProcessMutex mutex : mutexes) {
                nodes.add(node(mutex));
            }
            for (String node : nodes) {
                tell("enter", node);
            }
            Thread.sleep(2);
            for (String node : nodes) {
                tell("leave", node);
            }
            lock.release();
        }

        Turn turn(String[] command) throws Exception {
            String path = command[2];
            switch (command[0]) {
                case "mutex":
                    return mutex(path);
                case "read-write":
                    return readWrite(path);
                case "multi":
                    return multi(List.of(command).subList(2, command.length));
                case "semaphore":
                    return semaphore(path);
                case "count":
                    return count(path);
                case "long":
                    return atomicLong(path);
                default:
                    throw new IllegalArgumentException(command[0]);
            }
        }

        private Turn mutex(String path) {
            InterProcessMutex mutex = new InterProcessMutex(client, path);
            return number -> {
                acquire(mutex);
                hold(mutex, mutex);
            };
        }

        private Turn readWrite(String path) throws ClassNotFoundException {
            InterProcessReadWriteLock lock = new InterProcessReadWriteLock(client, path);
            boolean keepsItsPlace = keepsItsPlace();
            return number -> {
                InterProcessMutex mutex = number % 4 == 3 ? lock.writeLock() : lock.readLock();
                acquire(mutex);
                if (number % 8 != 7 || !keepsItsPlace) {
                    hold(mutex, mutex);
                    return;
                }
                String writer = node(mutex);
                tell("enter", writer);
                acquire(lock.readLock());
                tell("leave", writer);
                mutex.release();
                hold(lock.readLock(), lock.readLock());
            };
        }

        private Turn multi(List<String> paths) {
            InterProcessMutex[] mutexes = new InterProcessMutex[paths.size()];
            for (int index = 0; index < mutexes.length; index++) {
                mutexes[index] = new InterProcessMutex(client, paths.get(index));
            }
            InterProcessMultiLock lock = new InterProcessMultiLock(List.<InterProcessLock>of(mutexes));
            return number -> {
                acquire(lock);
                hold(lock, mutexes);
            };
        }

        private Turn semaphore(String path) {
            InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, path, LEASES);
            return number -> {
                Lease lease = semaphore.acquire(PATIENCE, TimeUnit.SECONDS);
                if (lease == null) {
                    throw new IllegalStateException("no lease in time");
                }
                String node = path + "/leases/" + lease.getNodeName();
                tell("enter", node);
                // Longer than it takes to acquire, so that all leases are held at times.
                Thread.sleep(20);
                tell("leave", node);
                semaphore.returnLease(lease);
            };
        }

        private Turn count(String path) throws Exception {
            SharedCount count = new SharedCount(client, path, 0);
            count.start();
            return number -> {
                while (!count.trySetCount(count.getVersionedValue(), count.getCount() + 1)) {
                    Thread.yield();
                }
            };
        }

        private Turn atomicLong(String path) {
            DistributedAtomicLong value = new DistributedAtomicLong(client, path, new RetryForever(1));
            return number -> {
                while (!value.increment().succeeded()) {
                    Thread.yield();
                }
            };
        }
    }

    private CuratorPeer(String connect, String judge, int participants) throws Exception {
        for (int number = 0; number < participants; number++) {
            this.participants.add(new Participant(connect, judge));
        }
    }

    public static void main(String[] args) throws Exception {
        CuratorPeer peer = new CuratorPeer(args[0], args[1], Integer.parseInt(args[2]));
        System.out.println("ready");
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String command; (command = commands.readLine()) != null; ) {
            System.out.println(peer.obey(command.split(" ")));
        }
        System.exit(0);
    }

    private String obey(String[] command) throws Exception {
        CuratorFramework client = participants.get(0).client;
        switch (command[0]) {
            case "read":
                readWrite = new InterProcessReadWriteLock(client, command[1]);
                return acquired(readWrite.readLock());
            case "write":
                readWrite = new InterProcessReadWriteLock(client, command[1]);
                return acquired(readWrite.writeLock());
            case "downgrade":
                InterProcessMutex writer = held;
                String node = acquired(readWrite.readLock());
                writer.release();
                return node;
            case "release":
                held.release();
                return "ok";
            case "revocable":
                InterProcessMutex revocable = new InterProcessMutex(client, command[1]);
                revocable.makeRevocable(mutex -> revoked.countDown());
                return acquired(revocable);
            case "revoked":
                if (!revoked.await(PATIENCE, TimeUnit.SECONDS)) {
                    throw new IllegalStateException("no request to release came");
                }
                return "ok";
            case "revoke":
                Revoker.attemptRevoke(client, command[1]);
                return "ok";
            default:
                contend(command);
                return "done";
        }
    }

    private String acquired(InterProcessMutex mutex) throws Exception {
        acquire(mutex);
        held = mutex;
        return node(mutex);
    }

    /** All of them at once, each in a thread of its own. */
    private void contend(String[] command) throws Exception {
        int turns = Integer.parseInt(command[1]);
        ExecutorService threads = Executors.newFixedThreadPool(participants.size());
        List<Future<Void>> all = new ArrayList<>();
        for (Participant participant : participants) {
            Callable<Void> work = () -> {
                Turn turn = participant.turn(command);
                for (int number = 0; number < turns; number++) {
                    turn.play(number);
                }
                return null;
            };
            all.add(threads.submit(work));
        }
        for (Future<Void> one : all) {
            one.get();
        }
        threads.shutdown();
    }

    private static void acquire(InterProcessLock lock) throws Exception {
        if (!lock.acquire(PATIENCE, TimeUnit.SECONDS)) {
            throw new IllegalStateException("not acquired in time");
        }
    }

    /** Whether the node of a reader gets the number of the writer that it was. */
    private static boolean keepsItsPlace() throws ClassNotFoundException {
        Class<?> driver = Class.forName(InterProcessReadWriteLock.ReadLock.class.getName() + "$1");
        for (Method method : driver.getDeclaredMethods()) {
            if (method.getName().equals("getSortingSequence")) {
                return true;
            }
        }
        return false;
    }

    /** The node of a mutex that this thread holds; Curator tells it to subclasses only. */
    private static String node(InterProcessMutex mutex) throws ReflectiveOperationException {
        Method getLockPath = InterProcessMutex.class.getDeclaredMethod("getLockPath");
        getLockPath.setAccessible(true);
        return (String) getLockPath.invoke(mutex);
    }
}
