package io.github.fleetgauge.bridge;

import java.util.EnumMap;
import java.util.Map;
import java.util.concurrent.atomic.LongAdder;

/** The counts behind {@link BridgeMXBean}; any thread may add, none waits. */
final class BridgeCounters {

    private final LongAdder received = new LongAdder();
    private final LongAdder receivedBytes = new LongAdder();
    private final LongAdder delivered = new LongAdder();
    private final LongAdder retried = new LongAdder();
    private final Map<DropCause, LongAdder> dropped = new EnumMap<>(DropCause.class);
    private volatile String lastError = "";

    BridgeCounters() {
        for (DropCause cause : DropCause.values()) {
            dropped.put(cause, new LongAdder());
        }
    }

    void addReceived(long payloadBytes) {
        received.increment();
        receivedBytes.add(payloadBytes);
    }

    void addDelivered() {
        delivered.increment();
    }

    void addRetried() {
        retried.increment();
    }

    void addDropped(DropCause cause) {
        dropped.get(cause).increment();
    }

    void setLastError(Throwable error) {
        lastError = error.toString();
    }

    long received() {
        return received.sum();
    }

    long receivedBytes() {
        return receivedBytes.sum();
    }

    long delivered() {
        return delivered.sum();
    }

    long retried() {
        return retried.sum();
    }

    long dropped(DropCause cause) {
        return dropped.get(cause).sum();
    }

    String lastError() {
        return lastError;
    }
}
