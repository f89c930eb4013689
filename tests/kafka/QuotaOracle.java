import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.Reconfigurable;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.errors.ThrottlingQuotaExceededException;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MeasurableStat;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.metrics.QuotaViolationException;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.metrics.stats.Avg;
import org.apache.kafka.common.metrics.stats.CumulativeSum;
import org.apache.kafka.common.metrics.stats.Max;
import org.apache.kafka.common.metrics.stats.Min;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.metrics.stats.SimpleRate;
import org.apache.kafka.common.metrics.stats.TokenBucket;
import org.apache.kafka.common.metrics.stats.WindowedCount;
import org.apache.kafka.common.metrics.stats.WindowedSum;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.requests.ApiError;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.controller.ClientQuotaControlManager;
import org.apache.kafka.network.ConnectionThrottledException;
import org.apache.kafka.network.Session;
import org.apache.kafka.network.TooManyConnectionsException;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import org.apache.kafka.server.config.QuotaConfig;
import org.apache.kafka.server.config.ReplicationQuotaManagerConfig;
import org.apache.kafka.server.quota.ClientQuotaEntity.ConfigEntity;
import org.apache.kafka.server.quota.ClientQuotaManager;
import org.apache.kafka.server.quota.ControllerMutationQuota;
import org.apache.kafka.server.quota.ControllerMutationQuotaManager;
import org.apache.kafka.server.quota.QuotaType;
import org.apache.kafka.server.quota.QuotaUtils;

/**
 * Kafka's own quota classes behind lines: a command on stdin, its answer on stdout, at the time that the command says.
 * "new KIND ..." begins anew; tests/support/quotas/quota_oracle.py knows the commands.
 */
public final class QuotaOracle {
    private QuotaOracle() {}

    /** The classes under test, as one scenario uses them. */
    private interface Subject {
        String answer(String[] words) throws Exception;

        default void close() throws Exception {}
    }

    /** Stands still until it is set. */
    private static final class Clock implements Time {
        volatile long nowMs = 1_750_000_000_000L;
        volatile int reads;

        @Override
        public long milliseconds() {
            reads++;
            return nowMs;
        }

        @Override
        public long nanoseconds() {
            return nowMs * 1_000_000L;
        }

        @Override
        public void sleep(long ms) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err); // a log line is no answer
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Subject subject = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            String answer;
            if (words[0].equals("new")) {
                if (subject != null) {
                    subject.close();
                }
                subject = subject(words);
                answer = "new";
            } else {
                answer = subject.answer(words);
            }
            out.println(answer);
            if (!in.ready()) {
                out.flush(); // what was asked so far is answered
            }
        }
        if (subject != null) {
            subject.close();
        }
        out.flush();
        System.exit(0); // the metrics library of the broker leaves threads behind
    }

    private static Subject subject(String[] words) {
        return switch (words[1]) {
            case "sensor" -> new Sensors(words);
            case "replication" -> new Replication(words);
            case "connections" -> new Connections(words);
            case "limits" -> new Limits();
            default -> new Clients(words);
        };
    }

    private static Quota quota(String bound, String upper) {
        return bound.equals("none") ? null : new Quota(Double.parseDouble(bound), upper.equals("upper"));
    }

    private static String value(Metrics metrics, MetricName name) {
        KafkaMetric metric = metrics.metric(name);
        return metric == null ? "none" : String.valueOf(metric.metricValue());
    }

    /** One sensor with any statistics, and a parent with the same ones or none. */
    private static final class Sensors implements Subject {
        private final Clock clock = new Clock();
        private final Metrics metrics = new Metrics(new MetricConfig(), List.of(), clock);
        private final Sensor sensor;
        private final List<MetricName> names = new ArrayList<>();

        Sensors(String[] words) {
            boolean hasParent = words[8].equals("parent");
            Sensor parent = hasParent ? metrics.sensor("p", config(words, 2)) : null;
            sensor = hasParent ? metrics.sensor("s", config(words, 2), parent) : metrics.sensor("s", config(words, 2));
            for (Sensor each : hasParent ? List.of(sensor, parent) : List.of(sensor)) {
                for (String stat : words[7].split(",")) {
                    MetricName name = metrics.metricName("m" + names.size(), "g");
                    each.add(name, stat(stat));
                    names.add(name);
                }
            }
        }

        private static MetricConfig config(String[] words, int at) {
            return new MetricConfig()
                .samples(Integer.parseInt(words[at]))
                .timeWindow(Long.parseLong(words[at + 1]), TimeUnit.MILLISECONDS)
                .eventWindow(Long.parseLong(words[at + 2]))
                .quota(quota(words[at + 3], words[at + 4]));
        }

        private static MeasurableStat stat(String text) {
            String[] parts = text.split(":");
            return switch (parts[0]) {
                case "rate" -> new Rate(TimeUnit.valueOf(parts[1]));
                case "count-rate" -> new Rate(TimeUnit.valueOf(parts[1]), new WindowedCount());
                case "simple" -> new SimpleRate();
                case "bucket" -> new TokenBucket(TimeUnit.valueOf(parts[1]));
                case "sum" -> new WindowedSum();
                case "count" -> new WindowedCount();
                case "total" -> new CumulativeSum();
                case "avg" -> new Avg();
                case "max" -> new Max();
                case "min" -> new Min();
                default -> throw new IllegalArgumentException(text);
            };
        }

        @Override
        public String answer(String[] words) {
            long nowMs = Long.parseLong(words[1]);
            clock.nowMs = nowMs;
            try {
                switch (words[0]) {
                    case "record" -> sensor.record(Double.parseDouble(words[2]), nowMs, words[3].equals("check"));
                    case "check" -> sensor.checkQuotas(nowMs);
                    case "limit" -> metrics.metric(names.get(Integer.parseInt(words[2]))).config(config(words, 3));
                    case "measure" -> {
                        return String.join(" ", names.stream().map(name -> value(metrics, name)).toList());
                    }
                    default -> throw new IllegalArgumentException(words[0]);
                }
                return "ok";
            } catch (QuotaViolationException e) {
                Object stat = e.metric().measurable();
                Object wait = "-";
                if (stat instanceof TokenBucket) {
                    wait = ControllerMutationQuotaManager.throttleTimeMs(e);
                } else if (stat instanceof Rate) {
                    wait = QuotaUtils.throttleTime(e, nowMs);
                }
                return "violation " + e.metric().metricName().name() + " " + e.value() + " " + e.bound() + " " + wait;
            }
        }
    }

    /** The throttle of replication. */
    private static final class Replication implements Subject {
        private final Clock clock = new Clock();
        private final Metrics metrics = new Metrics(new MetricConfig(), List.of(), clock);
        private final kafka.server.ReplicationQuotaManager manager;

        Replication(String[] words) {
            var config = new ReplicationQuotaManagerConfig(Integer.parseInt(words[2]), Integer.parseInt(words[3]));
            manager = new kafka.server.ReplicationQuotaManager(config, metrics, QuotaType.LEADER_REPLICATION, clock);
        }

        @Override
        public String answer(String[] words) {
            clock.nowMs = Long.parseLong(words[1]);
            switch (words[0]) {
                case "limit" -> manager.updateQuota(quota(words[2], "upper"));
                case "record" -> manager.record(Long.parseLong(words[2]));
                case "mark" -> {
                    if (words[3].equals("*")) {
                        manager.markThrottled(words[2]);
                    } else {
                        manager.markThrottled(words[2], List.of(words[3].split(",")).stream().map(Integer::valueOf).toList());
                    }
                }
                case "unmark" -> manager.removeThrottle(words[2]);
                default -> {
                    boolean throttled = manager.isThrottled(new TopicPartition(words[2], Integer.parseInt(words[3])));
                    boolean exceeded = manager.isQuotaExceeded();
                    String rate = value(metrics, metrics.metricName("byte-rate", "LeaderReplication"));
                    return throttled + " " + exceeded + " " + manager.upperBound() + " " + rate;
                }
            }
            return "ok";
        }
    }

    /** The quotas of clients: produce, fetch, request, controller mutation. */
    private static final class Clients implements Subject {
        private final Clock clock = new Clock();
        private final Metrics metrics = new Metrics(new MetricConfig(), List.of(), clock);
        private final ClientQuotaManager manager;

        Clients(String[] words) {
            var config = new ClientQuotaManagerConfig(Integer.parseInt(words[2]), Integer.parseInt(words[3]));
            manager = switch (words[1]) {
                case "REQUEST" -> new kafka.server.ClientRequestQuotaManager(config, metrics, clock, "", Optional.empty());
                case "CONTROLLER_MUTATION" ->
                    new ControllerMutationQuotaManager(config, metrics, clock, "", Optional.empty());
                default -> new ClientQuotaManager(config, metrics, QuotaType.valueOf(words[1]), clock, "");
            };
        }

        /** A blank of a name is written as U+2423: words are parted by blanks. */
        private static Session session(String user) {
            KafkaPrincipal principal = new KafkaPrincipal(KafkaPrincipal.USER_TYPE, user.replace('\u2423', ' '));
            return new Session(principal, InetAddress.getLoopbackAddress());
        }

        private static Optional<ConfigEntity> user(String name) {
            return switch (name) {
                case "-" -> Optional.empty();
                case "*" -> Optional.of(ClientQuotaManager.DEFAULT_USER_ENTITY);
                default -> Optional.of(new ClientQuotaManager.UserEntity(session(name).sanitizedUser));
            };
        }

        private static Optional<ConfigEntity> client(String name) {
            return switch (name) {
                case "-" -> Optional.empty();
                case "*" -> Optional.of(ClientQuotaManager.DEFAULT_USER_CLIENT_ID);
                default -> Optional.of(new ClientQuotaManager.ClientIdEntity(name));
            };
        }

        @Override
        public String answer(String[] words) {
            clock.nowMs = Long.parseLong(words[1]);
            String user = words[2];
            String client = words[3];
            switch (words[0]) {
                case "limit" -> manager.updateQuota(user(user), client(client), Optional.ofNullable(quota(words[4], "upper")));
                case "record" -> {
                    double value = Double.parseDouble(words[4]);
                    return "" + manager.maybeRecordAndGetThrottleTimeMs(session(user), client, value, clock.nowMs);
                }
                case "unrecord" ->
                    manager.unrecordQuotaSensor(session(user), client, Double.parseDouble(words[4]), clock.nowMs);
                case "strict", "permissive" -> {
                    return mutate(words, (ControllerMutationQuotaManager) manager);
                }
                case "metrics" -> {
                    return measures();
                }
                default -> {
                    String quota = String.valueOf(manager.quota(session(user).principal, client).bound());
                    double most = manager.maxValueInQuotaWindow(session(user), client);
                    return manager.quotaTypesEnabled() + " " + quota + " " + most;
                }
            }
            return "ok";
        }

        /** NAME|USER|CLIENT VALUE of every metric of clients, in order. */
        private String measures() {
            var found = new java.util.TreeMap<String, String>();
            for (KafkaMetric metric : metrics.metrics().values()) {
                MetricName name = metric.metricName();
                if (name.tags().containsKey("user") || name.tags().containsKey("client-id")) {
                    String tags = name.tags().getOrDefault("user", "-") + "|" + name.tags().getOrDefault("client-id", "-");
                    found.put(name.name() + "|" + tags, String.valueOf(metric.metricValue()));
                }
            }
            return found.entrySet().stream()
                .map(each -> each.getKey() + " " + each.getValue())
                .collect(java.util.stream.Collectors.joining(" ", "metrics ", ""));
        }

        private String mutate(String[] words, ControllerMutationQuotaManager mutations) {
            Session session = session(words[2]);
            boolean strict = words[0].equals("strict");
            ControllerMutationQuota quota =
                strict ? mutations.newStrictQuotaFor(session, words[3]) : mutations.newPermissiveQuotaFor(session, words[3]);
            String refused = "recorded";
            try {
                quota.record(Double.parseDouble(words[4]));
            } catch (ThrottlingQuotaExceededException e) {
                refused = "refused";
            }
            return refused + " " + quota.isExceeded() + " " + quota.throttleTime();
        }

        @Override
        public void close() throws Exception {
            manager.shutdown();
        }
    }

    /** The quotas of connections. A connection that has to wait does so in a thread, as in an acceptor. */
    private static final class Connections implements Subject {
        private final Clock clock = new Clock();
        private final Metrics metrics = new Metrics(new MetricConfig(), List.of(), clock);
        private final kafka.network.ConnectionQuotas quotas;
        private final com.yammer.metrics.core.Meter blocked =
            com.yammer.metrics.Metrics.newMeter(QuotaOracle.class, "blocked", "ns", TimeUnit.NANOSECONDS);
        private int maxConnections;

        /** A broker's with two listeners. */
        static Properties properties() {
            Properties properties = new Properties();
            properties.put("process.roles", "broker");
            properties.put("node.id", "1");
            properties.put("controller.quorum.bootstrap.servers", "localhost:1");
            properties.put("controller.listener.names", "CONTROLLER");
            properties.put("listeners", "EXTERNAL://:0,INTERNAL://:0");
            properties.put("advertised.listeners", "EXTERNAL://localhost:1,INTERNAL://localhost:2");
            properties.put("listener.security.protocol.map",
                "CONTROLLER:PLAINTEXT,EXTERNAL:PLAINTEXT,INTERNAL:PLAINTEXT");
            properties.put("inter.broker.listener.name", "INTERNAL");
            return properties;
        }

        Connections(String[] words) {
            maxConnections = Integer.parseInt(words[4]);
            Properties properties = properties();
            properties.put("quota.window.num", words[2]);
            properties.put("quota.window.size.seconds", words[3]);
            properties.put("max.connections", words[4]);
            properties.put("max.connections.per.ip", words[5]);
            properties.put("max.connection.creation.rate", words[6]);
            properties.put("listener.name.external.max.connections", words[7]);
            properties.put("listener.name.external.max.connection.creation.rate", words[8]);
            properties.put("listener.name.internal.max.connections", words[9]);
            properties.put("listener.name.internal.max.connection.creation.rate", words[10]);
            kafka.server.KafkaConfig config = kafka.server.KafkaConfig.fromProps(properties);
            quotas = new kafka.network.ConnectionQuotas(config, clock, metrics);
            quotas.addListener(config, new ListenerName("EXTERNAL"));
            quotas.addListener(config, new ListenerName("INTERNAL"));
        }

        @Override
        public String answer(String[] words) throws Exception {
            clock.nowMs = Long.parseLong(words[1]);
            switch (words[0]) {
                case "max" -> {
                    maxConnections = Integer.parseInt(words[2]);
                    quotas.updateBrokerMaxConnections(maxConnections);
                }
                case "rate" -> quotas.updateBrokerMaxConnectionRate(Integer.parseInt(words[2]));
                case "ip-max" -> quotas.updateMaxConnectionsPerIp(Integer.parseInt(words[2]));
                case "ip-rate" -> quotas.updateIpConnectionRateQuota(
                    words[2].equals("*") ? scala.Option.empty() : scala.Option.apply(InetAddress.getByName(words[2])),
                    words[3].equals("none") ? scala.Option.empty() : scala.Option.apply(Integer.valueOf(words[3])));
                case "dec" -> quotas.dec(new ListenerName(words[2]), InetAddress.getByName(words[3]));
                case "connect" -> {
                    return connect(words);
                }
                case "look" -> {
                    return look(words[2]);
                }
                default -> throw new IllegalArgumentException(words[0]);
            }
            return "ok";
        }

        /** connect NOW LISTENER IP WAIT [LISTENER IP]: waits WAIT ms, then until the other connection has ended. */
        private String connect(String[] words) throws Exception {
            ListenerName listener = new ListenerName(words[2]);
            InetAddress address = InetAddress.getByName(words[3]);
            long waitMs = Long.parseLong(words[4]);
            String[] outcome = new String[1];
            Thread acceptor = new Thread(() -> outcome[0] = outcome(listener, address));
            long arrivedMs = clock.nowMs;
            acceptor.start();
            boolean waits = isWaiting(acceptor, -1);
            String seen = waits ? "waits" : "goes";
            if (waits && waitMs > 0) {
                seen += moveTo(arrivedMs + waitMs - 1, acceptor) ? " waits" : " goes";
                waits = moveTo(arrivedMs + waitMs, acceptor);
                seen += waits ? " waits" : " goes";
            }
            if (waits && words.length > 5) {
                quotas.dec(new ListenerName(words[5]), InetAddress.getByName(words[6]));
                waits = isWaiting(acceptor, -1);
            }
            if (waits) {
                return seen + " for ever";
            }
            acceptor.join();
            return seen + " " + outcome[0];
        }

        private String outcome(ListenerName listener, InetAddress address) {
            try {
                quotas.inc(listener, address, blocked);
                return "admitted";
            } catch (TooManyConnectionsException e) {
                quotas.dec(listener, address);
                return "too-many " + e.count;
            } catch (ConnectionThrottledException e) {
                return "throttled " + e.throttleTimeMs;
            }
        }

        private boolean moveTo(long nowMs, Thread acceptor) throws Exception {
            int before = clock.reads;
            clock.nowMs = nowMs;
            quotas.updateBrokerMaxConnections(maxConnections); // wakes the acceptor
            return isWaiting(acceptor, before);
        }

        /** Lets the acceptor come to rest, after it has read the clock once more than `before`. */
        private boolean isWaiting(Thread acceptor, int before) throws Exception {
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
            while (System.nanoTime() < deadline) {
                Thread.State state = acceptor.getState();
                if (state == Thread.State.TERMINATED) {
                    return false;
                }
                boolean rests = state == Thread.State.WAITING || state == Thread.State.TIMED_WAITING;
                if (rests && clock.reads > before) {
                    return true;
                }
                Thread.onSpinWait();
            }
            throw new IllegalStateException("the acceptor does not come to rest");
        }

        private String look(String address) throws Exception {
            String group = "socket-server-metrics";
            List<String> found = new ArrayList<>();
            found.add("" + quotas.get(InetAddress.getByName(address)));
            found.add("" + quotas.maxConnectionsExceeded(new ListenerName("EXTERNAL")));
            found.add(value(metrics, metrics.metricName("broker-connection-accept-rate", group)));
            for (String listener : List.of("EXTERNAL", "INTERNAL")) {
                for (String name : List.of("connection-accept-rate", "connection-accept-throttle-time",
                        "ip-connection-accept-throttle-time")) {
                    found.add(value(metrics, metrics.metricName(name, group, "", "listener", listener)));
                }
            }
            found.add(value(metrics, metrics.metricName("connection-accept-rate", group, "", "ip", address)));
            return String.join(" ", found);
        }

        @Override
        public void close() {
            quotas.close();
        }
    }

    /** Which limits Kafka takes, and its words for those that it refuses. */
    private static final class Limits implements Subject {
        @Override
        public String answer(String[] words) throws Exception {
            try {
                return switch (words[0]) {
                    case "entity" -> entity(words[1], words[2], Double.parseDouble(words[3]));
                    case "dynamic" -> dynamic(words[1], words[2]);
                    case "broker" -> broker(words);
                    case "listener" -> listener(words[1], words[2]);
                    default -> throw new IllegalArgumentException(words[0]);
                };
            } catch (ConfigException | IllegalArgumentException e) {
                return "refused " + e.getMessage().replaceFirst("^requirement failed: ", "");
            }
        }

        /** entity KIND KEY VALUE: as the controller checks AlterClientQuotas. */
        private static String entity(String kind, String key, double value) throws Exception {
            ConfigDef keys = kind.equals("ips") ? QuotaConfig.ipConfigs() : QuotaConfig.userAndClientQuotaConfigs();
            Method check = ClientQuotaControlManager.class
                .getDeclaredMethod("validateQuotaKeyValue", Map.class, String.class, double.class);
            check.setAccessible(true);
            ApiError error = (ApiError) check.invoke(null, keys.configKeys(), key, value);
            return error.isSuccess() ? "ok" : "refused " + error.message();
        }

        /** dynamic KEY VALUE: a throttled rate, or the limit of an address, by its ConfigDef. */
        private static String dynamic(String key, String value) {
            ConfigDef keys = key.startsWith("connection_") ? QuotaConfig.ipConfigs() : QuotaConfig.brokerQuotaConfigs();
            keys.parse(Map.of(key, value));
            return "ok";
        }

        /** broker KEY VALUE ...: of the broker's configuration. */
        private static String broker(String[] words) {
            Properties properties = Connections.properties();
            for (int at = 1; at < words.length; at += 2) {
                properties.put(words[at], words[at + 1]);
            }
            kafka.server.KafkaConfig.fromProps(properties);
            return "ok";
        }

        /** listener KEY VALUE: of a listener that is there, as its configuration is changed. */
        private static String listener(String key, String value) {
            Clock clock = new Clock();
            kafka.server.KafkaConfig config = kafka.server.KafkaConfig.fromProps(Connections.properties());
            try (var quotas = new kafka.network.ConnectionQuotas(config, clock, new Metrics(clock))) {
                ListenerName name = new ListenerName("EXTERNAL");
                quotas.addListener(config, name);
                Properties changed = Connections.properties();
                changed.put(name.configPrefix() + key, value);
                Reconfigurable listener = quotas.maxConnectionsPerListener().apply(name);
                listener.validateReconfiguration(
                    kafka.server.KafkaConfig.fromProps(changed).valuesWithPrefixOverride(name.configPrefix()));
            }
            return "ok";
        }
    }
}
