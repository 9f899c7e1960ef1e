import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** A contender of the lab with Curator: Worker mutex|latch CONNECT PATH TIMEOUT_MS TICK_MS. */
public class Worker {
    private final CuratorFramework client;
    private final String path;
    private boolean wanted;
    private boolean believes;
    private long session;

    private Worker(String connect, String path, int timeout) {
        this.path = path;
        client = CuratorFrameworkFactory.builder()
                .connectString(connect)
                .sessionTimeoutMs(timeout)
                .connectionTimeoutMs(timeout)
                .retryPolicy(new ExponentialBackoffRetry(1000, 3))
                .build();
        client.getConnectionStateListenable().addListener((same, state) -> onState(state));
    }

    private static void say(String what, String text) {
        System.out.println(what + " " + System.nanoTime() / 1000 + " " + text);
        System.out.flush();
    }

    private void onState(ConnectionState state) {
        say("state", state.name());
        if (state == ConnectionState.SUSPENDED || state == ConnectionState.LOST) {
            stopBelieving("lost", state.name());
        } else {
            nameSession();
        }
    }

    private void nameSession() {
        try {
            long latest = client.getZookeeperClient().getZooKeeper().getSessionId();
            if (latest != session) {
                session = latest;
                System.out.println("session " + Long.toHexString(latest));
                System.out.flush();
            }
        } catch (Exception error) {
            say("error", error.toString());
        }
    }

    private synchronized void believe() {
        if (!believes) {
            believes = true;
            say("held", "");
        }
    }

    private synchronized void stopBelieving(String what, String why) {
        if (believes) {
            say(what, why);
        }
        believes = false;
        notifyAll();
    }

    private synchronized void want(boolean wants) {
        wanted = wants;
        notifyAll();
    }

    private synchronized void untilWanted(boolean wants) throws InterruptedException {
        while (wanted != wants) {
            wait();
        }
    }

    private synchronized void whileHeld() throws InterruptedException {
        while (believes && wanted) {
            wait();
        }
    }

    /** The thread that acquires also releases, as this lock belongs to threads. */
    private void mutex() throws Exception {
        InterProcessMutex mutex = new InterProcessMutex(client, path);
        while (true) {
            untilWanted(true);
            try {
                mutex.acquire();
            } catch (Exception error) {
                say("error", error.toString());
                Thread.sleep(200);
                continue;
            }
            believe();
            // The listener was called before there was anything to lose.
            if (!client.getZookeeperClient().isConnected()) {
                stopBelieving("lost", "not connected");
            }
            whileHeld();
            stopBelieving("released", "");
            try {
                mutex.release();
            } catch (Exception error) {
                // Curator deletes the node in the background.
                say("error", error.toString());
            }
        }
    }

    private void latch() throws Exception {
        while (true) {
            untilWanted(true);
            LeaderLatch latch = new LeaderLatch(client, path, "lab");
            latch.addListener(new LeaderLatchListener() {
                @Override
                public void isLeader() {
                    believe();
                }

                @Override
                public void notLeader() {
                    stopBelieving("lost", "notLeader");
                }
            });
            latch.start();
            untilWanted(false);
            stopBelieving("released", "");
            latch.close();
        }
    }

    private void commands() {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = lines.readLine(); line != null && !line.equals("quit"); line = lines.readLine()) {
                want(line.equals("acquire"));
            }
        } catch (Exception error) {
            say("error", error.toString());
        }
        client.close();
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    public static void main(String[] arguments) throws Exception {
        Worker worker = new Worker(arguments[1], arguments[2], Integer.parseInt(arguments[3]));
        worker.client.start();
        worker.client.blockUntilConnected();
        worker.nameSession();
        Thread commands = new Thread(worker::commands);
        commands.setDaemon(true);
        commands.start();
        if (arguments[0].equals("latch")) {
            worker.latch();
        } else {
            worker.mutex();
        }
    }
}
