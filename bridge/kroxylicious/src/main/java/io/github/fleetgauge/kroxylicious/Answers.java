package io.github.fleetgauge.kroxylicious;

import io.micrometer.core.instrument.Metrics;
import java.util.concurrent.CompletionException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import org.apache.kafka.common.protocol.ApiKeys;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Counts telemetry requests by who answered them, for the proxy's metrics, and logs at most once a minute how many the
 * node did not answer. Thread-safe.
 */
final class Answers {

    static final String COUNTER = "fleetgauge_telemetry_requests";
    private static final long LOG_INTERVAL_NS = 60_000_000_000L;
    private static final Logger LOG = LoggerFactory.getLogger(Answers.class);

    private final String node;
    private final Consumer<String> warn;
    private final AtomicLong sinceLogged = new AtomicLong();
    private Long lastLoggedNs;

    Answers(String node) {
        this(node, LOG::warn);
    }

    Answers(String node, Consumer<String> warn) {
        this.node = node;
        this.warn = warn;
    }

    void byNode(ApiKeys api) {
        count(api, "node");
    }

    void byFilter(ApiKeys api, Throwable cause, long nowNs) {
        count(api, "filter");
        sinceLogged.incrementAndGet();
        log(api, cause, nowNs);
    }

    private synchronized void log(ApiKeys api, Throwable cause, long nowNs) {
        if (lastLoggedNs != null && nowNs - lastLoggedNs < LOG_INTERVAL_NS) {
            return;
        }
        lastLoggedNs = nowNs;
        Throwable reason = cause instanceof CompletionException ? cause.getCause() : cause;
        warn.accept("The Fleetgauge node " + node + " did not answer " + sinceLogged.getAndSet(0)
                + " telemetry requests of clients since the last such line; clients are not affected, what they pushed"
                + " is lost. Latest: " + api.name + ", " + reason + ".");
    }

    private void count(ApiKeys api, String answeredBy) {
        Metrics.counter(COUNTER, "api", api.name, "answered_by", answeredBy).increment();
    }
}
