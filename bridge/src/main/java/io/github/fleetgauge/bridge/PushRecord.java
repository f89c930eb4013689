package io.github.fleetgauge.bridge;

import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalInt;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;

/**
 * One push as a record on the topic. The fields are those of {@code telemetry/push_record.py}, the one list of them.
 *
 * <p>Key: the instance id as Kafka shows it (22 characters). Value: the payload, decompressed, never null. Headers:
 * the other fields as UTF-8 text. {@code subscription_id}, {@code compression_type} and {@code payload_bytes} are not
 * known to a plugin and have no header; nor has {@code push_interval_ms} before Kafka 4.2.
 */
final class PushRecord {

    static final String SCHEMA_VERSION = "1";

    /** Of the objects around payload and headers [B]; measured 830, with compressed references. */
    static final int OBJECT_BYTES = 1024;

    private final String instanceId;
    private final long receivedAtUs;
    private final ByteBuffer payload;
    private final List<Header> headers = new ArrayList<>(16);
    private long headerBytes;

    private PushRecord(String instanceId, long receivedAtUs, ByteBuffer payload) {
        this.instanceId = instanceId;
        this.receivedAtUs = receivedAtUs;
        this.payload = payload;
    }

    /** Everything but the payload is read; the payload is copied by {@link #toProducerRecord}. */
    static PushRecord of(
            AuthorizableRequestContext context,
            ClientTelemetryPayload payload,
            OptionalInt pushIntervalMs,
            BrokerIdentity broker,
            String pushId,
            long receivedAtUs) {
        ByteBuffer data = payload.data();
        PushRecord record =
                new PushRecord(
                        payload.clientInstanceId().toString(),
                        receivedAtUs,
                        data == null ? ByteBuffer.allocate(0) : data.duplicate());
        InetAddress address = context.clientAddress();
        record.add("push_id", pushId);
        record.add("received_at", Long.toString(receivedAtUs));
        record.add("receiver_node_id", broker.nodeId());
        record.add("cluster_id", broker.clusterId());
        record.add("listener", context.listenerName());
        record.add("client_instance_id", record.instanceId);
        record.add("client_id", context.clientId());
        record.add("client_software_name", RequestDetails.softwareName(context));
        record.add("client_software_version", RequestDetails.softwareVersion(context));
        record.add("client_source_address", address == null ? "" : address.getHostAddress());
        record.addIfKnown("client_source_port", RequestDetails.port(context));
        record.add("principal", context.principal() == null ? "" : context.principal().toString());
        record.addIfKnown(
                "push_interval_ms", pushIntervalMs.isPresent() ? String.valueOf(pushIntervalMs.getAsInt()) : null);
        record.add("terminating", Boolean.toString(payload.isTerminating()));
        record.add("schema_version", SCHEMA_VERSION);
        return record;
    }

    /** Size of the payload of a push [B], decompressed. */
    static int payloadBytes(ClientTelemetryPayload payload) {
        ByteBuffer data = payload.data();
        return data == null ? 0 : data.remaining();
    }

    /** What the push takes of the buffer [B]. */
    long bufferBytes() {
        return payload.remaining() + headerBytes + OBJECT_BYTES;
    }

    /**
     * The record. The payload is copied: the broker takes its memory back when the request is answered, and hands the
     * same buffer to other reporters.
     */
    ProducerRecord<byte[], byte[]> toProducerRecord(String topic) {
        byte[] value = new byte[payload.remaining()];
        payload.duplicate().get(value);
        return new ProducerRecord<>(topic, null, receivedAtUs / 1000, utf8(instanceId), value, headers);
    }

    private void add(String name, String value) {
        addIfKnown(name, value == null ? "" : value);
    }

    private void addIfKnown(String name, String value) {
        if (value != null) {
            byte[] bytes = utf8(value);
            headers.add(new RecordHeader(name, bytes));
            headerBytes += name.length() + bytes.length;
        }
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
