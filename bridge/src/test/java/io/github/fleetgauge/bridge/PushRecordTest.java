package io.github.fleetgauge.bridge;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.OptionalInt;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.junit.jupiter.api.Test;

class PushRecordTest {

    private static final BrokerIdentity BROKER = new BrokerIdentity("3", "4L6g3nShT-eMCtK--X86sw");
    private static final long RECEIVED_AT_US = 1_750_000_000_123_456L;

    private static ProducerRecord<byte[], byte[]> record(ByteBuffer data, OptionalInt pushIntervalMs) {
        return PushRecord.of(
                        Pushes.context("orders"),
                        Pushes.payload(data, true),
                        pushIntervalMs,
                        BROKER,
                        "id",
                        RECEIVED_AT_US)
                .toProducerRecord("pushes");
    }

    @Test
    void theRecordHasEveryFieldThatAPluginKnows() {
        ProducerRecord<byte[], byte[]> record = record(ByteBuffer.wrap(new byte[] {1, 2, 3}), OptionalInt.of(60_000));
        Map<String, String> expected = new LinkedHashMap<>();
        expected.put("push_id", "id");
        expected.put("received_at", "1750000000123456");
        expected.put("receiver_node_id", "3");
        expected.put("cluster_id", "4L6g3nShT-eMCtK--X86sw");
        expected.put("listener", "CLIENTS");
        expected.put("client_instance_id", "Tm-1TLjmRReIm-FbmcCcIA");
        expected.put("client_id", "orders");
        expected.put("client_software_name", "apache-kafka-java");
        expected.put("client_software_version", "4.4.0");
        expected.put("client_source_address", "127.0.0.1");
        expected.put("client_source_port", "50123");
        expected.put("principal", "User:alice");
        expected.put("push_interval_ms", "60000");
        expected.put("terminating", "true");
        expected.put("schema_version", "1");
        assertEquals(expected, Pushes.headers(record));
        assertEquals("Tm-1TLjmRReIm-FbmcCcIA", new String(record.key(), StandardCharsets.UTF_8));
        assertArrayEquals(new byte[] {1, 2, 3}, record.value());
        assertEquals(1_750_000_000_123L, record.timestamp());
    }

    @Test
    void anIntervalThatTheBrokerDoesNotSayHasNoHeader() {
        ProducerRecord<byte[], byte[]> record = record(ByteBuffer.allocate(1), OptionalInt.empty());
        assertFalse(Pushes.headers(record).containsKey("push_interval_ms"));
    }

    @Test
    void aHeartbeatHasAnEmptyValueNotNone() {
        assertArrayEquals(new byte[0], record(null, OptionalInt.empty()).value());
        assertArrayEquals(new byte[0], record(ByteBuffer.allocate(0), OptionalInt.empty()).value());
    }

    @Test
    void thePayloadIsCopiedAndTheBrokersBufferLeftAsItWas() {
        ByteBuffer data = ByteBuffer.wrap(new byte[] {9, 1, 2, 9}, 1, 2);
        ProducerRecord<byte[], byte[]> record = record(data, OptionalInt.empty());
        assertEquals(1, data.position());
        data.put(1, (byte) 7);
        assertArrayEquals(new byte[] {1, 2}, record.value());
    }

    @Test
    void aDirectBufferIsReadToo() {
        ByteBuffer data = ByteBuffer.allocateDirect(2).put((byte) 5).put((byte) 6).flip();
        assertArrayEquals(new byte[] {5, 6}, record(data, OptionalInt.empty()).value());
    }

    @Test
    void aClientWithoutAnIdHasAnEmptyOne() {
        PushRecord record =
                PushRecord.of(
                        Pushes.context(null), Pushes.payload(0), OptionalInt.empty(), BROKER, "id", RECEIVED_AT_US);
        assertEquals("", Pushes.headers(record.toProducerRecord("pushes")).get("client_id"));
    }

    @Test
    void theSpaceThatAPushTakesGrowsWithPayloadAndHeaders() {
        PushRecord small =
                PushRecord.of(Pushes.context("a"), Pushes.payload(10), OptionalInt.empty(), BROKER, "id", 0);
        PushRecord large =
                PushRecord.of(
                        Pushes.context("a".repeat(1001)), Pushes.payload(5010), OptionalInt.empty(), BROKER, "id", 0);
        assertEquals(6000, large.bufferBytes() - small.bufferBytes());
    }
}
