package io.github.fleetgauge.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.TopicConfig;
import org.junit.jupiter.api.Test;

class ClientSettingsTest {

    @Test
    void theProducerLosesNothingAndDoesNotFeedItself() {
        BridgeConfig config = Pushes.config();
        ProducerConfig producer = new ProducerConfig(ClientSettings.producer(config, "me"));
        assertEquals("-1", producer.getString("acks"));
        assertTrue(producer.getBoolean("enable.idempotence"));
        assertFalse(producer.getBoolean("enable.metrics.push"));
        assertEquals("zstd", producer.getString("compression.type"));
        assertEquals("me", producer.getString("client.id"));
        // Not left to the default, which has changed between Kafka's versions.
        assertEquals(false, ClientSettings.admin(config, "me").get(AdminClientConfig.ENABLE_METRICS_PUSH_CONFIG));
    }

    @Test
    void requestsBufferAndTopicFitTheLargestPayload() {
        BridgeConfig config =
                Pushes.config(
                        BridgeConfig.MAX_DECOMPRESSED_BYTES, "50000000", BridgeConfig.BUFFER_BYTES, "100000000");
        ProducerConfig producer = new ProducerConfig(ClientSettings.producer(config, ""));
        assertTrue(producer.getInt("max.request.size") > 50_000_000);
        assertTrue(producer.getLong("buffer.memory") > producer.getInt("max.request.size"));
        String topicMax = new PushTopic(config, null).newTopic().configs().get(TopicConfig.MAX_MESSAGE_BYTES_CONFIG);
        assertTrue(Integer.parseInt(topicMax) > 50_000_000);
    }

    @Test
    void theProducersOwnSettingGoesBeforeThatOfBothAndTheDefault() {
        BridgeConfig config =
                Pushes.config(
                        "fleetgauge.client.request.timeout.ms", "1111",
                        "fleetgauge.producer.request.timeout.ms", "2222",
                        "fleetgauge.producer.linger.ms", "3");
        Map<String, Object> producer = ClientSettings.producer(config, "");
        assertEquals("2222", producer.get("request.timeout.ms"));
        assertEquals("3", producer.get("linger.ms"));
        assertEquals("1111", ClientSettings.admin(config, "").get("request.timeout.ms"));
    }

    @Test
    void anotherClusterIsReachedWithoutThisBrokersCredentials() {
        BridgeConfig config =
                Pushes.config(
                        "fleetgauge.bootstrap.servers", "other:9092",
                        "security.inter.broker.protocol", "SSL",
                        "ssl.keystore.location", "/secret");
        Map<String, Object> producer = ClientSettings.producer(config, "");
        assertEquals("other:9092", producer.get("bootstrap.servers"));
        assertFalse(producer.containsKey("security.protocol"));
        assertFalse(producer.containsKey("ssl.keystore.location"));
    }

    @Test
    void aSecurityProtocolOfOnesOwnTakesNoneOfTheBrokersCredentials() {
        BridgeConfig config =
                Pushes.config("fleetgauge.client.security.protocol", "PLAINTEXT", "ssl.keystore.location", "/secret");
        Map<String, Object> admin = ClientSettings.admin(config, "");
        assertEquals("127.0.0.1:9092", admin.get("bootstrap.servers"));
        assertEquals("PLAINTEXT", admin.get("security.protocol"));
        assertFalse(admin.containsKey("ssl.keystore.location"));
    }

    @Test
    void aBadValueIsRefusedWhenTheBrokerStarts() {
        BridgeConfig config = Pushes.config("fleetgauge.producer.linger.ms", "soon");
        ConfigException refused = assertThrows(ConfigException.class, () -> ClientSettings.check(config));
        assertTrue(refused.getMessage().contains("linger.ms"), refused.getMessage());
    }
}
