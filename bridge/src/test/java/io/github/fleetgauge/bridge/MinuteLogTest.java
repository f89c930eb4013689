package io.github.fleetgauge.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class MinuteLogTest {

    private final BridgeCounters counters = new BridgeCounters();
    private final List<String> warnings = new ArrayList<>();
    private final List<String> infos = new ArrayList<>();
    private final MinuteLog log = new MinuteLog(Pushes.config(), counters, warnings::add, infos::add);

    @Test
    void dropsAreSaidAtMostOnceAMinuteAndNoneIsForgotten() {
        counters.addDropped(DropCause.BUFFER_FULL);
        log.report(null, 1000);
        counters.addDropped(DropCause.BUFFER_FULL);
        counters.addDropped(DropCause.EXPIRED);
        log.report("away", 60_999);
        assertEquals(List.of("Client telemetry pushes were dropped (buffer-full 1)."), warnings);
        log.report(null, 61_000);
        assertEquals("Client telemetry pushes were dropped (buffer-full 1, expired 1).", warnings.get(1));
        log.report(null, 200_000);
        assertEquals(2, warnings.size());
    }

    @Test
    void anOutageIsSaidWithItsReasonAndItsEndOnce() {
        log.report("away", 0);
        log.delivering(false);
        log.delivering(false);
        assertTrue(warnings.get(0).contains("fleetgauge-pushes") && warnings.get(0).endsWith("away"), warnings.get(0));
        assertEquals(1, infos.size());
    }

    @Test
    void nothingIsSaidWhileAllIsWell() {
        log.delivering(true);
        log.report(null, 0);
        log.delivering(false);
        assertEquals(1, infos.size());
        assertEquals(List.of(), warnings);
    }

    @Test
    void theTopicIsSaidToBeReachableOnce() {
        log.connected();
        log.connected();
        assertEquals(1, infos.size());
        assertTrue(infos.get(0).contains("fleetgauge-pushes"), infos.get(0));
    }

    @Test
    void theEndSaysWhatWasLostByIt() {
        counters.addDelivered();
        counters.addDropped(DropCause.CLOSED);
        log.closed();
        assertTrue(warnings.get(0).contains("Stopped: 1 pushes") && warnings.get(0).endsWith("closed 1"));
    }
}
