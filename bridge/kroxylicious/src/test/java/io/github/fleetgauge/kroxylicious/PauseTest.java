package io.github.fleetgauge.kroxylicious;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class PauseTest {

    private static final long NOW = Long.MAX_VALUE - 1; // nanoTime() may overflow

    @Test
    void allMayTryUntilAFailure() {
        Pause pause = new Pause();
        assertTrue(pause.mayTry(NOW));
        assertTrue(pause.mayTry(NOW));
    }

    @Test
    void oneMayTryWhenThePauseIsOver() {
        Pause pause = new Pause();
        pause.begin(NOW);
        assertFalse(pause.mayTry(NOW + Pause.LENGTH_NS - 1));
        assertTrue(pause.mayTry(NOW + Pause.LENGTH_NS));
        assertFalse(pause.mayTry(NOW + Pause.LENGTH_NS));
        assertTrue(pause.mayTry(NOW + 2 * Pause.LENGTH_NS));
    }

    @Test
    void aSuccessEndsIt() {
        Pause pause = new Pause();
        pause.begin(NOW);
        pause.end();
        assertTrue(pause.mayTry(NOW));
    }
}
