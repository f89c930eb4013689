package io.github.fleetgauge.bridge;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The settings of the plugin's own producer and admin client.
 *
 * <p>Layers, later ones first: what the plugin's promises rest on; {@code fleetgauge.producer.*} or
 * {@code fleetgauge.admin.*}; {@code fleetgauge.client.*}; defaults; the way to this cluster, unless another one
 * ({@code fleetgauge.bootstrap.servers}) or another security protocol is named.
 */
final class ClientSettings {

    private static final int MIB = 1024 * 1024;

    private ClientSettings() {}

    /** Idempotent, acks=all, zstd, its own telemetry off; requests as large as the largest record. */
    static Map<String, Object> producer(BridgeConfig config, String clientId) {
        Map<String, Object> settings = connection(config, clientId);
        settings.put(ProducerConfig.COMPRESSION_TYPE_CONFIG, "zstd");
        settings.put(ProducerConfig.LINGER_MS_CONFIG, 100);
        settings.put(ProducerConfig.BATCH_SIZE_CONFIG, 128 * 1024);
        settings.put(ProducerConfig.MAX_BLOCK_MS_CONFIG, 5_000); // blocks the plugin's own thread only
        // What is not delivered by then is tried again by the plugin, which looks at the topic first and tells of it.
        settings.put(ProducerConfig.REQUEST_TIMEOUT_MS_CONFIG, 15_000);
        settings.put(ProducerConfig.DELIVERY_TIMEOUT_MS_CONFIG, 30_000);
        settings.put(ProducerConfig.MAX_REQUEST_SIZE_CONFIG, config.maxRecordBytes());
        settings.put(ProducerConfig.BUFFER_MEMORY_CONFIG, (long) Math.max(32 * MIB, config.maxRecordBytes() + MIB));
        settings.putAll(config.withPrefix(BridgeConfig.CLIENT_PREFIX));
        settings.putAll(config.withPrefix(BridgeConfig.PRODUCER_PREFIX));
        settings.put(ProducerConfig.ACKS_CONFIG, "all");
        settings.put(ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, true);
        settings.put(ProducerConfig.ENABLE_METRICS_PUSH_CONFIG, false);
        settings.put(ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class);
        settings.put(ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class);
        return settings;
    }

    /** Telemetry off; calls end within 15 s unless set otherwise, and are tried again by the plugin's thread. */
    static Map<String, Object> admin(BridgeConfig config, String clientId) {
        Map<String, Object> settings = connection(config, clientId);
        settings.put(AdminClientConfig.DEFAULT_API_TIMEOUT_MS_CONFIG, 15_000);
        settings.put(AdminClientConfig.REQUEST_TIMEOUT_MS_CONFIG, 10_000);
        settings.putAll(config.withPrefix(BridgeConfig.CLIENT_PREFIX));
        settings.putAll(config.withPrefix(BridgeConfig.ADMIN_PREFIX));
        settings.put(AdminClientConfig.ENABLE_METRICS_PUSH_CONFIG, false);
        return settings;
    }

    /**
     * Refuses what neither client would start with, before any thread depends on it.
     *
     * @throws org.apache.kafka.common.config.ConfigException with Kafka's own words, which name key and value
     */
    static void check(BridgeConfig config) {
        parse(ProducerConfig.configDef(), producer(config, ""));
        parse(AdminClientConfig.configDef(), admin(config, ""));
    }

    private static void parse(ConfigDef definition, Map<String, Object> settings) {
        definition.parse(settings);
    }

    private static Map<String, Object> connection(BridgeConfig config, String clientId) {
        Map<String, Object> settings = new HashMap<>();
        BrokerListener ownListener = new BrokerListener(config.brokerConfigs());
        if (config.bootstrapServers().isEmpty()) {
            settings.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, ownListener.bootstrapServer());
            if (!config.withPrefix(BridgeConfig.CLIENT_PREFIX).containsKey("security.protocol")) {
                settings.putAll(ownListener.securitySettings());
            }
        } else {
            settings.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, config.bootstrapServers());
        }
        settings.put(ProducerConfig.CLIENT_ID_CONFIG, clientId);
        settings.put("metadata.recovery.strategy", "none"); // the plugin starts anew itself, and says so less often
        settings.put(ProducerConfig.RECONNECT_BACKOFF_MS_CONFIG, 500L); // a starting broker is not hammered
        settings.put(ProducerConfig.RECONNECT_BACKOFF_MAX_MS_CONFIG, 10_000L);
        return settings;
    }
}
