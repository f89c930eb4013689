package io.github.fleetgauge.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class PushBufferTest {

    private final PushBuffer buffer = new PushBuffer(1000);

    @Test
    void theLastByteCanBeTakenAndNotOneMore() {
        assertTrue(buffer.tryReserve(999));
        assertFalse(buffer.tryReserve(2));
        assertTrue(buffer.tryReserve(1));
        buffer.release(999);
        assertEquals(1, buffer.bytes());
        assertEquals(1, buffer.pushes());
    }

    @Test
    void threadsThatPushAtOnceDoNotCrossTheBound() {
        long taken = IntStream.range(0, 10_000).parallel().filter(each -> buffer.tryReserve(7)).count();
        assertEquals(142, taken);
        assertEquals(994, buffer.bytes());
    }

    @Test
    void pushesComeInOrderAndOneThatWasPutBackComesFirst() {
        PendingPush first = Pushes.buffered(buffer, 1, 0);
        PendingPush second = Pushes.buffered(buffer, 1, 0);
        assertSame(first, buffer.poll());
        buffer.addFirst(first);
        assertSame(first, buffer.poll());
        assertSame(second, buffer.poll());
        assertNull(buffer.poll());
    }
}
