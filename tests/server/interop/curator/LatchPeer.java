import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.StringJoiner;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.Participant;
import org.apache.curator.retry.RetryForever;

/**
 * Curator's leader latch, told by lines on the standard input what to do. It says "ready" when it is connected. Each
 * command is answered by one line:
 *
 * <pre>
 * start          takes part; "ok"
 * leader         the id of the leader
 * participants   the ids of all
 * await          waits until it leads; "leads", or "late" after 30 s
 * close          "ok"
 * </pre>
 *
 * <p>The arguments are the connect string, the path and the id.
 */
public class LatchPeer {
    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], 10_000, 10_000, new RetryForever(50));
        client.start();
        if (!client.blockUntilConnected(30, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no connection to " + args[0]);
        }
        LeaderLatch latch = new LeaderLatch(client, args[1], args[2]);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String command = commands.readLine(); command != null; command = commands.readLine()) {
            System.out.println(play(latch, command));
        }
        System.exit(0);
    }

    private static String play(LeaderLatch latch, String command) throws Exception {
        switch (command) {
            case "start":
                latch.start();
                return "ok";
            case "leader":
                return latch.getLeader().getId();
            case "participants":
                StringJoiner ids = new StringJoiner(" ");
                for (Participant participant : latch.getParticipants()) {
                    ids.add(participant.getId());
                }
                return ids.toString();
            case "await":
                return latch.await(30, TimeUnit.SECONDS) ? "leads" : "late";
            case "close":
                latch.close();
                return "ok";
            default:
                throw new IllegalArgumentException(command);
        }
    }
}
