package io.github.fleetgauge.bridge;

import java.time.Clock;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.OptionalInt;
import java.util.function.LongSupplier;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;

/**
 * Where the broker's request threads hand a push over: copied into the buffer, or dropped and counted.
 *
 * <p>It waits for nothing and throws nothing: an exception would be answered INVALID_RECORD by the broker, which
 * switches a Java client's telemetry off for good.
 */
final class PushIntake {

    private final BridgeConfig config;
    private final BrokerIdentity broker;
    private final PushBuffer buffer;
    private final BridgeCounters counters;
    private final Clock clock;
    private final LongSupplier nowMs;
    private final PushIds ids;
    private volatile boolean closed;

    /** {@code clock} gives the time of receipt, {@code nowMs} the monotonic time of the deadlines. */
    PushIntake(
            BridgeConfig config,
            BrokerIdentity broker,
            PushBuffer buffer,
            BridgeCounters counters,
            Clock clock,
            LongSupplier nowMs,
            PushIds ids) {
        this.config = config;
        this.broker = broker;
        this.buffer = buffer;
        this.counters = counters;
        this.clock = clock;
        this.nowMs = nowMs;
        this.ids = ids;
    }

    /** Takes one push. {@code pushIntervalMs} is empty where the broker does not say it. */
    void accept(AuthorizableRequestContext context, ClientTelemetryPayload payload, OptionalInt pushIntervalMs) {
        try {
            int payloadBytes = PushRecord.payloadBytes(payload);
            counters.addReceived(payloadBytes);
            if (closed) {
                counters.addDropped(DropCause.CLOSED);
            } else if (payloadBytes > config.maxDecompressedBytes()) {
                counters.addDropped(DropCause.TOO_LARGE);
            } else {
                buffer(context, payload, pushIntervalMs);
            }
        } catch (Throwable fault) { // whatever it is, the client must not be muted for it
            counters.setLastError(fault);
            counters.addDropped(DropCause.ERROR);
        }
    }

    private void buffer(
            AuthorizableRequestContext context, ClientTelemetryPayload payload, OptionalInt pushIntervalMs) {
        long receivedAtUs = ChronoUnit.MICROS.between(Instant.EPOCH, clock.instant());
        PushRecord push =
                PushRecord.of(context, payload, pushIntervalMs, broker, ids.next(receivedAtUs), receivedAtUs);
        long bytes = push.bufferBytes();
        if (!buffer.tryReserve(bytes)) {
            counters.addDropped(DropCause.BUFFER_FULL);
            return;
        }
        try {
            long deadlineMs = nowMs.getAsLong() + config.deliveryTimeoutMs();
            buffer.addLast(new PendingPush(push.toProducerRecord(config.topic()), bytes, deadlineMs));
        } catch (Throwable fault) {
            buffer.release(bytes);
            throw fault;
        }
    }

    /** From here on every push is dropped: brokers go on calling a reporter that has been taken out. */
    void close() {
        closed = true;
    }
}
