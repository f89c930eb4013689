package io.github.fleetgauge.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.Map;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.metrics.KafkaMetricsContext;
import org.apache.kafka.server.telemetry.ClientTelemetryContext;
import org.apache.kafka.server.telemetry.ClientTelemetryExporter;
import org.junit.jupiter.api.Test;

class FleetgaugeReporterTest {

    private static final MBeanServer MBEANS = ManagementFactory.getPlatformMBeanServer();

    /** Nothing listens there: what the plugin does without a cluster is what is tested. */
    private static final String[] NO_CLUSTER = {
        "fleetgauge.bootstrap.servers", "127.0.0.1:1", "fleetgauge.close.timeout.ms", "0"
    };

    private static final String THREAD = "fleetgauge-bridge";

    private static FleetgaugeExporterReporter configured(String... more) {
        FleetgaugeExporterReporter reporter = new FleetgaugeExporterReporter();
        reporter.configure(Pushes.brokerConfigs(more));
        reporter.contextChange(
                new KafkaMetricsContext("kafka.server", Map.of("kafka.node.id", "77", "kafka.cluster.id", "abc")));
        return reporter;
    }

    private static ClientTelemetryContext context() {
        return new ClientTelemetryContext() {
            @Override
            public int pushIntervalMs() {
                return 1000;
            }

            @Override
            public org.apache.kafka.common.requests.RequestContext authorizableRequestContext() {
                return Pushes.context("orders");
            }
        };
    }

    @Test
    void countsAreSeenInJmxUntilTheReporterIsClosed() throws Exception {
        ObjectName name = new ObjectName("fleetgauge:type=bridge,node-id=77");
        FleetgaugeExporterReporter reporter = configured(NO_CLUSTER);
        try {
            ClientTelemetryExporter exporter = reporter.clientTelemetryExporter();
            exporter.exportMetrics(context(), Pushes.payload(100));
            assertEquals(1L, MBEANS.getAttribute(name, "ReceivedTotal"));
            assertEquals(100L, MBEANS.getAttribute(name, "ReceivedBytesTotal"));
            assertEquals(1L, MBEANS.getAttribute(name, "BufferedPushes"));
            assertTrue((Long) MBEANS.getAttribute(name, "BufferedBytes") > 1100);
            assertEquals("CONNECTING", MBEANS.getAttribute(name, "State"));
            assertEquals("fleetgauge-pushes", MBEANS.getAttribute(name, "Topic"));
        } finally {
            reporter.close();
        }
        assertFalse(MBEANS.isRegistered(name));
    }

    @Test
    void aReporterThatWasTakenOutAndCalledStillHarmsNobody() {
        FleetgaugeExporterReporter reporter = configured(NO_CLUSTER);
        ClientTelemetryExporter exporter = reporter.clientTelemetryExporter();
        reporter.close();
        exporter.exportMetrics(context(), Pushes.payload(100));
        reporter.close();
    }

    @Test
    void theBrokersStopDoesNotWaitForAClusterThatIsAway() {
        FleetgaugeExporterReporter reporter =
                configured(
                        "fleetgauge.bootstrap.servers", "127.0.0.1:1",
                        "fleetgauge.close.timeout.ms", "60000",
                        "fleetgauge.admin.request.timeout.ms", "600000",
                        "fleetgauge.admin.default.api.timeout.ms", "600000");
        reporter.clientTelemetryExporter().exportMetrics(context(), Pushes.payload(100));
        assertTimeoutPreemptively(Duration.ofSeconds(30), reporter::close);
    }

    @Test
    void askingForBothInterfacesStartsOneBridge() {
        FleetgaugeExporterReporter reporter = configured(NO_CLUSTER);
        try {
            assertEquals(reporter.start(), reporter.start());
        } finally {
            reporter.close();
        }
    }

    @Test
    @SuppressWarnings({"deprecation", "removal"})
    void aControllerStartsNothing() throws Exception {
        ObjectName name = new ObjectName("fleetgauge:type=bridge,node-id=78");
        FleetgaugeExporterReporter reporter = new FleetgaugeExporterReporter();
        reporter.configure(
                Map.of("process.roles", "controller", "node.id", "78", "listeners", "CONTROLLER://127.0.0.1:9093"));
        // Kafka keeps what it gets in a list and calls it for each push: it must not be null.
        reporter.clientTelemetryExporter().exportMetrics(context(), Pushes.payload(100));
        reporter.clientReceiver().exportMetrics(Pushes.context("orders"), Pushes.payload(100));
        assertFalse(MBEANS.isRegistered(name));
        assertTrue(
                Thread.getAllStackTraces().keySet().stream().noneMatch(each -> each.getName().equals(THREAD)),
                "a controller has no sender");
        reporter.close();
    }

    @Test
    void aNodeOfBothRolesIsABroker() throws Exception {
        FleetgaugeExporterReporter reporter = configured(NO_CLUSTER);
        try {
            assertTrue(reporter.takesPushes());
        } finally {
            reporter.close();
        }
    }

    @Test
    void aWrongKeyStopsTheStart() {
        assertThrows(ConfigException.class, () -> configured("fleetgauge.topc", "x"));
        assertThrows(ConfigException.class, () -> configured("fleetgauge.producer.linger.ms", "soon"));
    }

    @Test
    void theClassForOlderBrokersNamesNoNewInterface() {
        for (Class<?> each : FleetgaugeReporter.class.getInterfaces()) {
            assertFalse(each.getSimpleName().contains("Exporter"), each.getName());
        }
    }
}
