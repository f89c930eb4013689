package io.github.fleetgauge.bridge;

/** Pauses between attempts [ms]: 500, 1000, ... 30,000, and from the beginning after a success. */
final class Backoff {

    static final long FIRST_MS = 500;
    static final long LAST_MS = 30_000;

    private long nextMs = FIRST_MS;

    long next() {
        long pauseMs = nextMs;
        nextMs = Math.min(LAST_MS, nextMs * 2);
        return pauseMs;
    }

    void reset() {
        nextMs = FIRST_MS;
    }
}
