package io.github.fleetgauge.bridge;

import java.util.OptionalInt;
import org.apache.kafka.server.telemetry.ClientTelemetryExporter;
import org.apache.kafka.server.telemetry.ClientTelemetryExporterProvider;

/**
 * Writes every client telemetry push that the broker accepts to a Kafka topic: the entry for Kafka 4.2 and later.
 *
 * <p>As {@link FleetgaugeReporter}, and with the push interval in force for the client (KIP-1217). A class of its own,
 * since brokers before 4.2 cannot load a class that names the interface. A broker that knows both interfaces asks a
 * class that has both for the exporter only, so no push is written twice.
 */
public class FleetgaugeExporterReporter extends FleetgaugeReporter implements ClientTelemetryExporterProvider {

    /** Asked for by brokers from 4.2 on when they start: from here on pushes are taken. */
    @Override
    public ClientTelemetryExporter clientTelemetryExporter() {
        if (!takesPushes()) {
            return (context, payload) -> {}; // as in clientReceiver()
        }
        PushIntake intake = start();
        return (context, payload) ->
                intake.accept(
                        context.authorizableRequestContext(), payload, OptionalInt.of(context.pushIntervalMs()));
    }
}
