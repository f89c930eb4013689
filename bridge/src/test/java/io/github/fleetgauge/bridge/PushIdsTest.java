package io.github.fleetgauge.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class PushIdsTest {

    @Test
    void anIdIsTheTimeTheWriterAndTheSequence() {
        PushIds ids = new PushIds(0xABCD1234);
        assertEquals("00060a24181e4000abcd123400000000", ids.next(1_700_000_000_000_000L));
        assertEquals("00060a24181e4000abcd123400000001", ids.next(1_700_000_000_000_000L));
    }

    @Test
    void idsMadeByManyThreadsAtOnceAreAllDifferent() {
        PushIds ids = new PushIds(1);
        Set<String> made = ConcurrentHashMap.newKeySet();
        IntStream.range(0, 20_000).parallel().forEach(each -> made.add(ids.next(1)));
        assertEquals(20_000, made.size());
    }

    @Test
    void laterPushesSortBehindEarlierOnes() {
        PushIds ids = new PushIds(-1);
        assertTrue(ids.next(255).compareTo(ids.next(256)) < 0);
    }

    @Test
    void everyStartHasAWriterOfItsOwn() {
        assertNotEquals(new PushIds().next(0).substring(16, 24), new PushIds().next(0).substring(16, 24));
    }
}
