package io.github.fleetgauge.bridge;

/** Pauses between attempts [ms], each twice as long as the one before, and from the beginning after a success. */
final class Backoff {

    private final long firstMs;
    private final long lastMs;
    private long nextMs;

    /** With 500 and 30,000: 500, 1,000, 2,000, ... 16,000, 30,000, 30,000. */
    Backoff(long firstMs, long lastMs) {
        this.firstMs = firstMs;
        this.lastMs = lastMs;
        this.nextMs = firstMs;
    }

    long next() {
        long pauseMs = nextMs;
        nextMs = Math.min(lastMs, nextMs * 2);
        return pauseMs;
    }

    void reset() {
        nextMs = firstMs;
    }
}
