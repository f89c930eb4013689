import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;
import org.apache.kafka.shaded.io.opentelemetry.proto.common.v1.AnyValue;
import org.apache.kafka.shaded.io.opentelemetry.proto.common.v1.KeyValue;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.MetricsData;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.ResourceMetrics;

/** What every receiver in a broker has to do at least: parse a push, add the broker's labels, serialise it again. */
public final class LabellingReporter implements MetricsReporter, ClientTelemetry {
    private volatile long bytes;

    @Override
    public ClientTelemetryReceiver clientReceiver() {
        return this::export;
    }

    private void export(AuthorizableRequestContext context, ClientTelemetryPayload payload) {
        try {
            MetricsData.Builder labelled = MetricsData.newBuilder();
            for (ResourceMetrics one : MetricsData.parseFrom(payload.data()).getResourceMetricsList()) {
                ResourceMetrics.Builder builder = one.toBuilder();
                label(builder, "client_instance_id", payload.clientInstanceId().toString());
                label(builder, "client_id", context.clientId());
                label(builder, "client_source_address", context.clientAddress().getHostAddress());
                label(builder, "principal", context.principal().toString());
                label(builder, "node_id", "1");
                labelled.addResourceMetrics(builder);
            }
            bytes += ByteBuffer.wrap(labelled.build().toByteArray()).remaining();
        } catch (Exception error) {
            throw new IllegalArgumentException(error);
        }
    }

    private static void label(ResourceMetrics.Builder metrics, String name, String value) {
        AnyValue.Builder text = AnyValue.newBuilder().setStringValue(value);
        metrics.getResourceBuilder().addAttributes(KeyValue.newBuilder().setKey(name).setValue(text));
    }

    @Override
    public void init(List<KafkaMetric> metrics) {}

    @Override
    public void metricChange(KafkaMetric metric) {}

    @Override
    public void metricRemoval(KafkaMetric metric) {}

    @Override
    public void close() {}

    @Override
    public void configure(Map<String, ?> configs) {}
}
