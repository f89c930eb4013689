package io.github.fleetgauge.bridge;

import java.time.Clock;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsContext;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Writes every client telemetry push that the broker accepts to a Kafka topic: the entry for Kafka 3.7 to 4.1.
 *
 * <p>Named in {@code metric.reporters} of a KRaft broker. From Kafka 4.2 on {@link FleetgaugeExporterReporter} does
 * the same and knows the push interval, too; this class goes on working there.
 *
 * <p>{@code fleetgauge.*} keys of {@code server.properties} are those of {@link BridgeConfig}; a wrong one stops the
 * start of the broker with a sentence that names it, as any wrong key of Kafka's does. Past the start nothing here
 * throws into the broker or waits for anything.
 */
@SuppressWarnings({"deprecation", "removal"}) // ClientTelemetry is all that brokers before 4.2 have
public class FleetgaugeReporter implements MetricsReporter, ClientTelemetry {

    private static final Logger LOG = LoggerFactory.getLogger(FleetgaugeReporter.class);

    private BridgeConfig config;
    private BrokerIdentity identity;
    private Bridge bridge;

    @Override
    public void configure(Map<String, ?> configs) {
        config = new BridgeConfig(configs);
        if (config.isBroker()) {
            ClientSettings.check(config);
        }
        identity = BrokerIdentity.fromConfig(configs);
        if (!config.isBroker()) {
            LOG.info("Fleetgauge plugin loaded on node {}, a controller: it takes no pushes.", identity.nodeId());
        }
    }

    @Override
    public void contextChange(MetricsContext context) {
        identity = identity.with(context);
    }

    /** Asked for by brokers before 4.2 when they start: from here on pushes are taken. */
    @Override
    public ClientTelemetryReceiver clientReceiver() {
        if (!takesPushes()) {
            return (context, payload) -> {}; // Kafka keeps what it is given and would call a null
        }
        PushIntake intake = start();
        return (context, payload) -> intake.accept(context, payload, OptionalInt.empty());
    }

    /** False on a controller: it sees no client, and has no listener to write through. */
    final boolean takesPushes() {
        return config.isBroker();
    }

    /** Starts the bridge, unless it runs. */
    final synchronized PushIntake start() {
        if (bridge == null) {
            bridge = new Bridge(config, identity, Clock.systemUTC());
            bridge.start();
        }
        return bridge.intake();
    }

    /** Delivers what waits within {@code fleetgauge.close.timeout.ms}; what then remains is counted and logged. */
    @Override
    public synchronized void close() {
        if (bridge != null) {
            bridge.close();
            bridge = null;
        }
    }

    @Override
    public void init(List<KafkaMetric> metrics) {
        // The broker's own metrics are no business of this reporter.
    }

    @Override
    public void metricChange(KafkaMetric metric) {
        // As above.
    }

    @Override
    public void metricRemoval(KafkaMetric metric) {
        // As above.
    }
}
