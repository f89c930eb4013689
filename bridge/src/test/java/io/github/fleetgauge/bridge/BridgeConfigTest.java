package io.github.fleetgauge.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class BridgeConfigTest {

    @Test
    void nothingNeedsToBeSet() {
        BridgeConfig config = Pushes.config();
        assertEquals("fleetgauge-pushes", config.topic());
        assertEquals(12, config.topicPartitions());
        assertEquals(-1, config.topicReplicationFactor());
        assertEquals(604_800_000L, config.topicRetentionMs());
        assertEquals(67_108_864L, config.bufferBytes());
        assertEquals(16_777_216, config.maxDecompressedBytes());
        assertTrue(config.topicCreate());
    }

    @ParameterizedTest
    @CsvSource({
        "fleetgauge.topc, pushes",
        "fleetgauge., x",
        "fleetgauge.producer., x",
        "fleetgauge.topic, no spaces allowed",
        "fleetgauge.topic, ..",
        "fleetgauge.topic.partitions, 0",
        "fleetgauge.topic.partitions, many",
        "fleetgauge.topic.replication.factor, -2",
        "fleetgauge.topic.create, perhaps",
        "fleetgauge.buffer.bytes, 1000",
        "fleetgauge.buffer.bytes, 2000000",
        "fleetgauge.close.timeout.ms, 60001",
        "fleetgauge.producer.acks, 1",
        "fleetgauge.client.enable.metrics.push, true",
        "fleetgauge.admin.bootstrap.servers, elsewhere:9092",
    })
    void whatIsWrongIsRefusedByName(String key, String value) {
        ConfigException refused = assertThrows(ConfigException.class, () -> Pushes.config(key, value));
        assertTrue(refused.getMessage().contains(key), refused.getMessage());
    }

    @Test
    void settingsOfTheClientsAreFoundByTheirPrefix() {
        BridgeConfig config = Pushes.config("fleetgauge.producer.linger.ms", "7", "fleetgauge.admin.retries", "3");
        assertEquals(Map.of("linger.ms", "7"), config.withPrefix(BridgeConfig.PRODUCER_PREFIX));
        assertEquals(Map.of("retries", "3"), config.withPrefix(BridgeConfig.ADMIN_PREFIX));
    }

    @Test
    void aControllerIsNoBroker() {
        assertFalse(Pushes.config("process.roles", "controller").isBroker());
        assertTrue(Pushes.config("process.roles", "controller, broker").isBroker());
        Map<String, Object> parsed = new HashMap<>(Pushes.brokerConfigs());
        parsed.put("process.roles", List.of("controller", "broker"));
        assertTrue(new BridgeConfig(parsed).isBroker());
    }
}
