import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryForever;
import org.apache.curator.x.discovery.ServiceCache;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceInstanceBuilder;
import org.apache.curator.x.discovery.ServiceProvider;
import org.apache.curator.x.discovery.ServiceType;
import org.apache.curator.x.discovery.UriSpec;
import org.apache.curator.x.discovery.details.JsonInstanceSerializer;

/**
 * Curator's service discovery, told by lines on the standard input what to do. It says "ready" when it is connected.
 * Each command is answered by one line.
 *
 * <p>These take an instance as JSON, and answer "ok". Fields that are missing are not set:
 *
 * <pre>
 * register {"id": "1", "address": "10.0.0.1", "port": 80, "sslPort": 443, "payload": "text", "registrationTimeUTC": 7,
 *           "serviceType": "DYNAMIC", "uriSpec": "{scheme}://{address}", "enabled": false}
 * update INSTANCE
 * unregister INSTANCE               names only the id
 * </pre>
 *
 * <p>These answer with instances as JSON, in the same fields, and with "uri" for the URI that was built:
 *
 * <pre>
 * query                             an array of all, as they are read now
 * cached                            an array of all, as a cache has them that was started with the program
 * provided                          the one that a provider chooses, or null
 * </pre>
 *
 * <p>The arguments are the connect string, the base path, the name of the service, the class of the payloads: "text",
 * "map", "list" or "details", and the format: "compatible", which is Curator's default, or "new", which writes "enabled".
 */
public class DiscoveryPeer<T> {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** A payload of a class of its own. */
    public static class Details {
        public String zone;
        public int weight;
    }

    private final String name;
    private final Class<T> payloads;
    private final ServiceDiscovery<T> discovery;
    private final ServiceCache<T> cache;
    private final ServiceProvider<T> provider;
    private final Map<String, ServiceInstance<T>> registered = new HashMap<>();

    private DiscoveryPeer(String[] args, Class<T> payloads) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], 10_000, 10_000, new RetryForever(50));
        client.start();
        if (!client.blockUntilConnected(30, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no connection to " + args[0]);
        }
        this.name = args[2];
        this.payloads = payloads;
        discovery = ServiceDiscoveryBuilder.builder(payloads)
                .client(client)
                .basePath(args[1])
                .serializer(args[4].equals("new")
                        ? new JsonInstanceSerializer<>(payloads, false)
                        : new JsonInstanceSerializer<>(payloads))
                .build();
        discovery.start();
        cache = discovery.serviceCacheBuilder().name(name).build();
        cache.start();
        provider = discovery.serviceProviderBuilder().serviceName(name).build();
        provider.start();
    }

    public static void main(String[] args) throws Exception {
        // Jackson looks for the class of a payload there; all threads inherit it.
        Thread.currentThread().setContextClassLoader(DiscoveryPeer.class.getClassLoader());
        DiscoveryPeer<?> peer = new DiscoveryPeer<>(args, payloads(args[3]));
        System.out.println("ready");
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String command; (command = commands.readLine()) != null; ) {
            System.out.println(peer.obey(command.split(" ", 2)));
        }
        System.exit(0);
    }

    private static Class<?> payloads(String name) {
        switch (name) {
            case "text":
                return String.class;
            case "map":
                return Map.class;
            case "list":
                return List.class;
            case "details":
                return Details.class;
            default:
                throw new IllegalArgumentException(name);
        }
    }

    private String obey(String[] command) throws Exception {
        switch (command[0]) {
            case "register":
                ServiceInstance<T> first = read(command[1]);
                discovery.registerService(first);
                registered.put(first.getId(), first);
                return "ok";
            case "update":
                ServiceInstance<T> next = read(command[1]);
                discovery.updateService(next);
                registered.put(next.getId(), next);
                return "ok";
            case "unregister":
                discovery.unregisterService(registered.remove(read(command[1]).getId()));
                return "ok";
            case "query":
                return JSON.writeValueAsString(all(discovery.queryForInstances(name)));
            case "cached":
                return JSON.writeValueAsString(all(cache.getInstances()));
            case "provided":
                ServiceInstance<T> chosen = provider.getInstance();
                return JSON.writeValueAsString(chosen == null ? null : fields(chosen));
            default:
                throw new IllegalArgumentException(command[0]);
        }
    }

    private ServiceInstance<T> read(String json) throws Exception {
        Map<?, ?> fields = JSON.readValue(json, Map.class);
        ServiceInstanceBuilder<T> builder = ServiceInstance.<T>builder().name(name).id((String) fields.get("id"));
        // Without one, Curator takes that of this machine.
        builder.address((String) fields.get("address"));
        if (fields.get("port") != null) {
            builder.port((Integer) fields.get("port"));
        }
        if (fields.get("sslPort") != null) {
            builder.sslPort((Integer) fields.get("sslPort"));
        }
        if (fields.get("payload") != null) {
            builder.payload(JSON.convertValue(fields.get("payload"), payloads));
        }
        if (fields.get("registrationTimeUTC") != null) {
            builder.registrationTimeUTC(((Number) fields.get("registrationTimeUTC")).longValue());
        }
        if (fields.get("serviceType") != null) {
            builder.serviceType(ServiceType.valueOf((String) fields.get("serviceType")));
        }
        if (fields.get("uriSpec") != null) {
            builder.uriSpec(new UriSpec((String) fields.get("uriSpec")));
        }
        if (fields.get("enabled") != null) {
            builder.enabled((Boolean) fields.get("enabled"));
        }
        return builder.build();
    }

    private List<Map<String, Object>> all(Iterable<ServiceInstance<T>> instances) {
        List<Map<String, Object>> all = new ArrayList<>();
        for (ServiceInstance<T> instance : instances) {
            all.add(fields(instance));
        }
        return all;
    }

    private Map<String, Object> fields(ServiceInstance<T> instance) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("id", instance.getId());
        fields.put("address", instance.getAddress());
        fields.put("port", instance.getPort());
        fields.put("sslPort", instance.getSslPort());
        // Fails if it is of another class.
        fields.put("payload", payloads.cast(instance.getPayload()));
        fields.put("registrationTimeUTC", instance.getRegistrationTimeUTC());
        fields.put("serviceType", instance.getServiceType());
        fields.put("uri", instance.getUriSpec() == null ? null : instance.buildUriSpec());
        fields.put("enabled", instance.isEnabled());
        return fields;
    }
}
