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

class BrokerListenerTest {

    private static BrokerListener listener(String... more) {
        return new BrokerListener(Pushes.brokerConfigs(more));
    }

    @Test
    void theOnlyListenerIsTheWayToThisCluster() {
        assertEquals("127.0.0.1:9092", listener().bootstrapServer());
        assertEquals(Map.of("security.protocol", "PLAINTEXT"), listener().securitySettings());
    }

    @Test
    void theAdvertisedInterBrokerListenerGoesBeforeTheOthers() {
        BrokerListener listener =
                listener(
                        "inter.broker.listener.name", "INTERNAL",
                        "advertised.listeners", "CLIENTS://kafka.example:9092, internal://[::1]:9094",
                        "listener.security.protocol.map", "CLIENTS:SASL_SSL, INTERNAL:SSL");
        assertEquals("[::1]:9094", listener.bootstrapServer());
        assertEquals("SSL", listener.securitySettings().get("security.protocol"));
    }

    @Test
    void aListenerOnEveryInterfaceIsReachedByTheMachinesName() {
        for (String host : new String[] {"", "0.0.0.0", "[::]"}) {
            String server = listener("listeners", "PLAINTEXT://" + host + ":9095").bootstrapServer();
            assertTrue(server.matches("[^:]+:9095"), server);
            assertFalse(server.startsWith("0.0.0.0"), server);
        }
    }

    @Test
    void theBrokersOwnCredentialsOfThatListenerAreUsed() {
        Map<String, Object> settings =
                listener(
                                "security.inter.broker.protocol", "SASL_SSL",
                                "listeners", "SASL_SSL://broker1:9092",
                                "sasl.mechanism.inter.broker.protocol", "SCRAM-SHA-512",
                                "sasl.enabled.mechanisms", "SCRAM-SHA-512",
                                "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config", "the credentials",
                                "ssl.truststore.location", "/everywhere",
                                "listener.name.sasl_ssl.ssl.truststore.location", "/of-the-listener",
                                "ssl.keystore.location", "/of-the-broker",
                                "ssl.client.auth", "required")
                        .securitySettings();
        assertEquals("SASL_SSL", settings.get("security.protocol"));
        assertEquals("SCRAM-SHA-512", settings.get("sasl.mechanism"));
        assertEquals("the credentials", settings.get("sasl.jaas.config"));
        assertEquals("/of-the-listener", settings.get("ssl.truststore.location"));
        assertEquals("/of-the-broker", settings.get("ssl.keystore.location"));
        assertFalse(settings.containsKey("ssl.client.auth"), "a server's setting");
        assertFalse(settings.containsKey("sasl.enabled.mechanisms"), "a server's setting");
    }

    @Test
    void plaintextTakesNoCredentials() {
        assertEquals(1, listener("ssl.truststore.location", "/t", "sasl.jaas.config", "j").securitySettings().size());
    }

    @Test
    void listenersAreReadWhenTheBrokerHandsThemOverParsed() {
        Map<String, Object> configs = new HashMap<>(Pushes.brokerConfigs());
        configs.put("listeners", List.of("CONTROLLER://127.0.0.1:1", "PLAINTEXT://127.0.0.1:2"));
        configs.put("advertised.listeners", null);
        assertEquals("127.0.0.1:2", new BrokerListener(configs).bootstrapServer());
    }

    @Test
    void aListenerThatIsNotThereIsNamedWithWhatToSet() {
        ConfigException refused =
                assertThrows(
                        ConfigException.class, () -> listener("inter.broker.listener.name", "GONE").bootstrapServer());
        assertTrue(refused.getMessage().contains("GONE"), refused.getMessage());
        assertTrue(refused.getMessage().contains("fleetgauge.bootstrap.servers"), refused.getMessage());
    }
}
