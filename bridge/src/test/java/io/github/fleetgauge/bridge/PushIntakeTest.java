package io.github.fleetgauge.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.time.Clock;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.OptionalInt;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;
import org.junit.jupiter.api.Test;

class PushIntakeTest {

    private static final Clock CLOCK = Clock.fixed(Instant.parse("2025-06-15T12:00:00.000123Z"), ZoneOffset.UTC);
    private static final int MIB = 1024 * 1024;

    private final BridgeConfig config =
            Pushes.config(
                    BridgeConfig.BUFFER_BYTES, String.valueOf(MIB),
                    BridgeConfig.MAX_DECOMPRESSED_BYTES, String.valueOf(MIB / 2),
                    BridgeConfig.DELIVERY_TIMEOUT_MS, "5000");
    private final BridgeCounters counters = new BridgeCounters();
    private final PushBuffer buffer = new PushBuffer(config.bufferBytes());
    private final PushIntake intake =
            new PushIntake(
                    config, new BrokerIdentity("1", "c"), buffer, counters, CLOCK, () -> 70_000L, new PushIds(1));

    private void push(ClientTelemetryPayload payload) {
        intake.accept(Pushes.context("orders"), payload, OptionalInt.of(1000));
    }

    @Test
    void aPushWaitsInTheBufferWithTheTimeOfItsReceiptAndItsDeadline() {
        push(Pushes.payload(100));
        PendingPush push = buffer.poll();
        assertEquals("1749988800000123", Pushes.headers(push.record).get("received_at"));
        assertEquals(75_000L, push.deadlineMs);
        assertEquals(push.bytes, buffer.bytes());
        assertEquals(config.topic(), push.record.topic());
        assertEquals(1, counters.received());
        assertEquals(100, counters.receivedBytes());
    }

    @Test
    void whatDoesNotFitIsDroppedAndCountedAndTakesNoSpace() {
        push(Pushes.payload(MIB / 2));
        long bytes = buffer.bytes();
        push(Pushes.payload(MIB / 2));
        assertEquals(1, counters.dropped(DropCause.BUFFER_FULL));
        assertEquals(bytes, buffer.bytes());
        assertEquals(2, counters.received());
        assertEquals(1, buffer.pushes());
    }

    @Test
    void aPayloadThatIsTooLargeIsDroppedAndCountedAndOneAtTheLimitIsNot() {
        push(Pushes.payload(MIB / 2 + 1));
        assertEquals(1, counters.dropped(DropCause.TOO_LARGE));
        assertNull(buffer.poll());
        push(Pushes.payload(MIB / 2));
        assertEquals(MIB / 2, buffer.poll().record.value().length);
    }

    @Test
    void aReporterThatTheBrokerTookOutTakesNothing() {
        intake.close();
        push(Pushes.payload(1));
        assertEquals(1, counters.dropped(DropCause.CLOSED));
        assertNull(buffer.poll());
    }

    @Test
    void aFaultAfterTheSpaceWasTakenGivesItBack() {
        PushIntake broken =
                new PushIntake(
                        config,
                        new BrokerIdentity("1", "c"),
                        buffer,
                        counters,
                        CLOCK,
                        () -> {
                            throw new IllegalStateException("no time");
                        },
                        new PushIds(1));
        broken.accept(Pushes.context("orders"), Pushes.payload(100), OptionalInt.empty());
        assertEquals(1, counters.dropped(DropCause.ERROR));
        assertEquals(0, buffer.bytes());
        assertEquals(0, buffer.pushes());
    }

    @Test
    void aFaultIsCountedAndNeverReachesTheBroker() {
        push(new ClientTelemetryPayload() {
            @Override
            public Uuid clientInstanceId() {
                throw new NoClassDefFoundError("of another version");
            }

            @Override
            public boolean isTerminating() {
                return false;
            }

            @Override
            public String contentType() {
                return "";
            }

            @Override
            public ByteBuffer data() {
                return ByteBuffer.allocate(1);
            }
        });
        intake.accept(null, null, OptionalInt.empty());
        assertEquals(2, counters.dropped(DropCause.ERROR));
        assertEquals(0, buffer.bytes());
        assertTrue(counters.lastError().contains("NullPointerException"), counters.lastError());
    }
}
