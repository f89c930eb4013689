package io.github.fleetgauge.kroxylicious;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.EOFException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletionException;
import org.apache.kafka.common.protocol.ApiKeys;
import org.junit.jupiter.api.Test;

class AnswersTest {

    @Test
    void logsOnceAMinuteHowManyThereWere() {
        List<String> lines = new ArrayList<>();
        Answers answers = new Answers("node:9092", lines::add);
        Throwable cause = new CompletionException(new EOFException("closed"));
        for (long second : new long[] {0, 1, 59, 60}) {
            answers.byFilter(ApiKeys.PUSH_TELEMETRY, cause, second * 1_000_000_000L);
        }
        assertEquals(2, lines.size());
        assertTrue(lines.get(0).startsWith("The Fleetgauge node node:9092 did not answer 1 telemetry requests"));
        assertTrue(lines.get(1).contains("did not answer 3 telemetry requests"));
        assertTrue(lines.get(1).endsWith("Latest: PushTelemetry, java.io.EOFException: closed."));
    }
}
