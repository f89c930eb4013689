package io.github.fleetgauge.bridge;

import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Pattern;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.Importance;
import org.apache.kafka.common.config.ConfigDef.Range;
import org.apache.kafka.common.config.ConfigDef.Type;
import org.apache.kafka.common.config.ConfigException;

/**
 * The {@code fleetgauge.*} keys of {@code server.properties}: the one home of their names, defaults and bounds.
 *
 * <p>An unknown key and a bad value are refused with a ConfigException that names them. The settings of the producer
 * and the admin client that are made from them are in {@link ClientSettings}.
 */
final class BridgeConfig {

    static final String PREFIX = "fleetgauge.";
    static final String TOPIC = PREFIX + "topic";
    static final String TOPIC_CREATE = PREFIX + "topic.create";
    static final String TOPIC_PARTITIONS = PREFIX + "topic.partitions";
    static final String TOPIC_REPLICATION_FACTOR = PREFIX + "topic.replication.factor";
    static final String TOPIC_RETENTION_MS = PREFIX + "topic.retention.ms";
    static final String BOOTSTRAP_SERVERS = PREFIX + "bootstrap.servers";
    static final String BUFFER_BYTES = PREFIX + "buffer.bytes";
    static final String MAX_DECOMPRESSED_BYTES = PREFIX + "telemetry.max.decompressed.bytes";
    static final String DELIVERY_TIMEOUT_MS = PREFIX + "delivery.timeout.ms";
    static final String CLOSE_TIMEOUT_MS = PREFIX + "close.timeout.ms";

    /** Settings for both clients, for the producer, and for the admin client, under Kafka's own names. */
    static final String CLIENT_PREFIX = PREFIX + "client.";

    static final String PRODUCER_PREFIX = PREFIX + "producer.";
    static final String ADMIN_PREFIX = PREFIX + "admin.";

    private static final List<String> CLIENT_PREFIXES = Arrays.asList(CLIENT_PREFIX, PRODUCER_PREFIX, ADMIN_PREFIX);

    /** What the plugin's promises rest on: no loss, no repeats within a producer, no push from the plugin itself. */
    private static final Set<String> OWN_CLIENT_KEYS =
            Set.of(
                    "acks",
                    "enable.idempotence",
                    "enable.metrics.push",
                    "key.serializer",
                    "value.serializer",
                    "transactional.id",
                    "bootstrap.servers");

    private static final int MIB = 1024 * 1024;
    private static final Pattern TOPIC_NAME = Pattern.compile("(?!\\.{1,2}$)[a-zA-Z0-9._-]{1,249}");

    static final ConfigDef DEFINITION =
            new ConfigDef()
                    .define(
                            TOPIC,
                            Type.STRING,
                            "fleetgauge-pushes",
                            BridgeConfig::topicName,
                            Importance.HIGH,
                            "Topic that every push is written to, the push log.")
                    .define(
                            TOPIC_CREATE,
                            Type.BOOLEAN,
                            true,
                            Importance.MEDIUM,
                            "Whether the topic is created when it is missing; its settings below count only then.")
                    .define(
                            TOPIC_PARTITIONS,
                            Type.INT,
                            12,
                            BridgeConfig::brokerDefaultOrPositive,
                            Importance.MEDIUM,
                            "Partitions: as many processes can share the reading; -1 for the cluster's num.partitions.")
                    .define(
                            TOPIC_REPLICATION_FACTOR,
                            Type.SHORT,
                            (short) -1,
                            BridgeConfig::brokerDefaultOrPositive,
                            Importance.HIGH,
                            "Replicas; -1 for the cluster's default.replication.factor.")
                    .define(
                            TOPIC_RETENTION_MS,
                            Type.LONG,
                            7L * 24 * 3600 * 1000,
                            Range.atLeast(-1),
                            Importance.MEDIUM,
                            "How long the topic keeps a push [ms]; -1 for ever.")
                    .define(
                            BOOTSTRAP_SERVERS,
                            Type.STRING,
                            "",
                            Importance.HIGH,
                            "Cluster that has the topic; empty for this one, through the inter-broker listener.")
                    .define(
                            BUFFER_BYTES,
                            Type.LONG,
                            64L * MIB,
                            Range.atLeast(MIB),
                            Importance.HIGH,
                            "Bound on what waits for acknowledgement [B]; what does not fit is dropped and counted.")
                    .define(
                            MAX_DECOMPRESSED_BYTES,
                            Type.INT,
                            16 * MIB,
                            Range.between(1024, 512 * MIB),
                            Importance.MEDIUM,
                            "Largest payload that is written [B]; larger ones are dropped and counted.")
                    .define(
                            DELIVERY_TIMEOUT_MS,
                            Type.LONG,
                            600_000L,
                            Range.atLeast(1000),
                            Importance.MEDIUM,
                            "How long a push is tried [ms] before it is dropped and counted.")
                    .define(
                            CLOSE_TIMEOUT_MS,
                            Type.LONG,
                            5_000L,
                            Range.between(0, 60_000),
                            Importance.LOW,
                            "Bound on delivering what is buffered when the broker stops [ms].");

    private final Map<String, Object> values;
    private final Map<String, ?> brokerConfigs;

    /**
     * Reads and checks the keys among everything that the broker was given.
     *
     * @throws ConfigException a {@code fleetgauge.} key is unknown or its value is not allowed
     */
    BridgeConfig(Map<String, ?> brokerConfigs) {
        this.brokerConfigs = brokerConfigs;
        refuseUnknownKeys(brokerConfigs);
        values = DEFINITION.parse(brokerConfigs);
        if (bufferBytes() < maxDecompressedBytes()) {
            throw new ConfigException(
                    BUFFER_BYTES,
                    bufferBytes(),
                    "must be at least " + MAX_DECOMPRESSED_BYTES + " (" + maxDecompressedBytes()
                            + "), or the largest pushes never fit");
        }
    }

    String topic() {
        return (String) values.get(TOPIC);
    }

    boolean topicCreate() {
        return (Boolean) values.get(TOPIC_CREATE);
    }

    int topicPartitions() {
        return (Integer) values.get(TOPIC_PARTITIONS);
    }

    short topicReplicationFactor() {
        return (Short) values.get(TOPIC_REPLICATION_FACTOR);
    }

    long topicRetentionMs() {
        return (Long) values.get(TOPIC_RETENTION_MS);
    }

    String bootstrapServers() {
        return (String) values.get(BOOTSTRAP_SERVERS);
    }

    long bufferBytes() {
        return (Long) values.get(BUFFER_BYTES);
    }

    int maxDecompressedBytes() {
        return (Integer) values.get(MAX_DECOMPRESSED_BYTES);
    }

    /** Bound on a whole record [B]: the largest payload with a MiB for its headers and the batch around it. */
    int maxRecordBytes() {
        return maxDecompressedBytes() + MIB;
    }

    long deliveryTimeoutMs() {
        return (Long) values.get(DELIVERY_TIMEOUT_MS);
    }

    long closeTimeoutMs() {
        return (Long) values.get(CLOSE_TIMEOUT_MS);
    }

    /** What an operator set under a prefix, without the prefix: {@code fleetgauge.producer.linger.ms -> linger.ms}. */
    Map<String, Object> withPrefix(String prefix) {
        Map<String, Object> found = new HashMap<>();
        for (Map.Entry<String, ?> entry : brokerConfigs.entrySet()) {
            if (entry.getKey().startsWith(prefix)) {
                found.put(entry.getKey().substring(prefix.length()), entry.getValue());
            }
        }
        return found;
    }

    /** True in a process that serves clients; a controller loads its metric.reporters, too. */
    boolean isBroker() {
        String roles = BrokerListener.text(brokerConfigs, "process.roles", "");
        return Arrays.asList(roles.split("\\s*,\\s*")).contains("broker");
    }

    /** All that the broker was configured with, for what is derived from its listeners. */
    Map<String, Object> brokerConfigs() {
        return Collections.unmodifiableMap(brokerConfigs);
    }

    private static void refuseUnknownKeys(Map<String, ?> configs) {
        for (Map.Entry<String, ?> entry : new TreeMap<>(configs).entrySet()) {
            String key = entry.getKey();
            if (key.startsWith(PREFIX) && !DEFINITION.names().contains(key)) {
                refuseUnlessClientSetting(key);
            }
        }
    }

    private static void refuseUnlessClientSetting(String key) {
        for (String prefix : CLIENT_PREFIXES) {
            if (key.startsWith(prefix) && key.length() > prefix.length()) {
                String setting = key.substring(prefix.length());
                if (OWN_CLIENT_KEYS.contains(setting)) {
                    throw new ConfigException(
                            key + " cannot be set: the plugin decides " + setting
                                    + (setting.equals("bootstrap.servers") ? " by " + BOOTSTRAP_SERVERS : " itself"));
                }
                return;
            }
        }
        throw new ConfigException(
                "Unknown configuration " + key + "; allowed are " + String.join(", ", new TreeMap<>(
                        DEFINITION.configKeys()).keySet()) + " and Kafka's own settings after "
                        + String.join(", ", CLIENT_PREFIXES));
    }

    private static void topicName(String key, Object value) {
        if (!TOPIC_NAME.matcher(String.valueOf(value)).matches()) {
            throw new ConfigException(
                    key, value, "a topic is named by 1 to 249 letters, digits, dots, underscores and hyphens");
        }
    }

    private static void brokerDefaultOrPositive(String key, Object value) {
        long number = ((Number) value).longValue();
        if (number != -1 && number < 1) {
            throw new ConfigException(key, value, "must be at least 1, or -1 for the cluster's default");
        }
    }
}
