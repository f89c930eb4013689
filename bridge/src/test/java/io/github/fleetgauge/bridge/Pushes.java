package io.github.fleetgauge.bridge;

import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;

/** Pushes as a broker hands them over, and what a test reads of a record. */
final class Pushes {

    static final Uuid INSTANCE_ID = Uuid.fromString("Tm-1TLjmRReIm-FbmcCcIA");

    private Pushes() {}

    /** The settings of a broker on PLAINTEXT://127.0.0.1:9092, and more, as key and value in turn. */
    static Map<String, String> brokerConfigs(String... more) {
        Map<String, String> configs = new HashMap<>();
        configs.put("process.roles", "broker,controller");
        configs.put("node.id", "1");
        configs.put("listeners", "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093");
        for (int at = 0; at < more.length; at += 2) {
            configs.put(more[at], more[at + 1]);
        }
        return configs;
    }

    static BridgeConfig config(String... more) {
        return new BridgeConfig(brokerConfigs(more));
    }

    static RequestContext context(String clientId) {
        return new RequestContext(
                new RequestHeader(ApiKeys.PUSH_TELEMETRY, (short) 0, clientId, 7),
                "127.0.0.1:9092-127.0.0.1:50123-0-0",
                InetAddress.getLoopbackAddress(),
                Optional.of(50123),
                new KafkaPrincipal(KafkaPrincipal.USER_TYPE, "alice"),
                new ListenerName("CLIENTS"),
                SecurityProtocol.PLAINTEXT,
                new ClientInformation("apache-kafka-java", "4.4.0"),
                false);
    }

    static ClientTelemetryPayload payload(ByteBuffer data, boolean terminating) {
        return new ClientTelemetryPayload() {
            @Override
            public Uuid clientInstanceId() {
                return INSTANCE_ID;
            }

            @Override
            public boolean isTerminating() {
                return terminating;
            }

            @Override
            public String contentType() {
                return "OTLP";
            }

            @Override
            public ByteBuffer data() {
                return data;
            }
        };
    }

    static ClientTelemetryPayload payload(int bytes) {
        return payload(ByteBuffer.allocate(bytes), false);
    }

    /** A push of {@code bytes} in the buffer, its space taken, given up at {@code deadlineMs}. */
    static PendingPush buffered(PushBuffer buffer, int bytes, long deadlineMs) {
        if (!buffer.tryReserve(bytes)) {
            throw new AssertionError("no space for " + bytes);
        }
        PendingPush push = new PendingPush(new ProducerRecord<>("pushes", new byte[bytes]), bytes, deadlineMs);
        buffer.addLast(push);
        return push;
    }

    static Map<String, String> headers(ProducerRecord<byte[], byte[]> record) {
        Map<String, String> headers = new LinkedHashMap<>();
        for (Header header : record.headers()) {
            headers.put(header.key(), new String(header.value(), StandardCharsets.UTF_8));
        }
        return headers;
    }
}
