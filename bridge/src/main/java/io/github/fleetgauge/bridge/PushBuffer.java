package io.github.fleetgauge.bridge;

import java.util.concurrent.BlockingDeque;
import java.util.concurrent.LinkedBlockingDeque;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Pushes that are not acknowledged yet, bounded by bytes.
 *
 * <p>Space is taken before a payload is copied and given back when the push is acknowledged or dropped, so the bound
 * holds for those that wait here and those that the producer has.
 */
final class PushBuffer {

    private final long maxBytes;
    private final AtomicLong bytes = new AtomicLong();
    private final AtomicLong pushes = new AtomicLong();
    private final BlockingDeque<PendingPush> waiting = new LinkedBlockingDeque<>();

    PushBuffer(long maxBytes) {
        this.maxBytes = maxBytes;
    }

    /** Takes space for one push of {@code size} bytes; false, and nothing taken, when there is not enough. */
    boolean tryReserve(long size) {
        long before;
        do {
            before = bytes.get();
            if (before + size > maxBytes) {
                return false;
            }
        } while (!bytes.compareAndSet(before, before + size));
        pushes.incrementAndGet();
        return true;
    }

    /** Gives back the space of one push. */
    void release(long size) {
        bytes.addAndGet(-size);
        pushes.decrementAndGet();
    }

    /** Puts a push, whose space is taken, behind the others. */
    void addLast(PendingPush push) {
        waiting.addLast(push);
    }

    /** Puts a push back to where it was taken from. */
    void addFirst(PendingPush push) {
        waiting.addFirst(push);
    }

    /** The next push, or null when none comes within {@code waitMs}. */
    PendingPush poll(long waitMs) throws InterruptedException {
        return waiting.pollFirst(waitMs, TimeUnit.MILLISECONDS);
    }

    /** The next push, or null when there is none. */
    PendingPush poll() {
        return waiting.pollFirst();
    }

    long bytes() {
        return bytes.get();
    }

    long pushes() {
        return pushes.get();
    }

    long maxBytes() {
        return maxBytes;
    }
}
