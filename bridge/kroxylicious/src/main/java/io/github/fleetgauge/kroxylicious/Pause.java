package io.github.fleetgauge.kroxylicious;

import java.util.concurrent.atomic.AtomicReference;

/**
 * Keeps clients from waiting for a node that cannot be reached: after a failure one connection in {@link #LENGTH_NS}
 * tries, and the others do not wait. Thread-safe; times are those of {@link System#nanoTime()}.
 */
final class Pause {

    static final long LENGTH_NS = 5_000_000_000L;

    /** Null while the node can be reached. */
    private final AtomicReference<Long> until = new AtomicReference<>();

    /** True if the caller may try to connect now; during a failure, true for one caller in {@link #LENGTH_NS}. */
    boolean mayTry(long nowNs) {
        Long end = until.get();
        return end == null || (nowNs - end >= 0 && until.compareAndSet(end, nowNs + LENGTH_NS));
    }

    void begin(long nowNs) {
        until.set(nowNs + LENGTH_NS);
    }

    void end() {
        until.set(null);
    }
}
