package io.github.fleetgauge.kroxylicious;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.net.InetSocketAddress;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.NullAndEmptySource;
import org.junit.jupiter.params.provider.ValueSource;

class TelemetryConfigTest {

    @Test
    void hasDefaults() {
        assertEquals(
                new TelemetryConfig("127.0.0.1:9092", true, 1_500, 60_000),
                new TelemetryConfig("127.0.0.1:9092", null, null, null));
    }

    @Test
    void takesIpv6() {
        assertEquals(new InetSocketAddress("::1", 9092), new TelemetryConfig("[::1]:9092", null, null, null).resolve());
    }

    @ParameterizedTest
    @NullAndEmptySource
    @ValueSource(strings = {"node", ":9092", "node:", "node:port", "node:65536"})
    void namesAWrongNode(String node) {
        String message = assertThrows(
                        IllegalArgumentException.class, () -> new TelemetryConfig(node, null, null, null))
                .getMessage();
        assertEquals("node must be HOST:PORT of a fleetgauge serve listener, not " + node, message);
    }

    @Test
    void namesAValueOutOfItsRange() {
        String message = assertThrows(
                        IllegalArgumentException.class, () -> new TelemetryConfig("node:1", null, 20_000, null))
                .getMessage();
        assertEquals("timeoutMs must be 100 to 10000, not 20000", message);
    }
}
