package io.github.fleetgauge.bridge;

import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;

/**
 * What the plugin says in the broker's log: a line when the topic is reachable and one when the first push is on it, at
 * most one warning a minute, whatever happens, and one line when it is over.
 */
final class MinuteLog {

    static final long INTERVAL_MS = 60_000;

    private final BridgeConfig config;
    private final BridgeCounters counters;
    private final Consumer<String> warn;
    private final Consumer<String> info;
    private final Map<DropCause, Long> reported = new EnumMap<>(DropCause.class);
    private long nextWarningMs = Long.MIN_VALUE;
    private boolean inTrouble;
    private boolean connectedBefore;

    MinuteLog(BridgeConfig config, BridgeCounters counters, Consumer<String> warn, Consumer<String> info) {
        this.config = config;
        this.counters = counters;
        this.warn = warn;
        this.info = info;
    }

    /** Warns of what was dropped since the last warning, and of {@code failure}, null when there is none now. */
    void report(String failure, long nowMs) {
        if (nowMs < nextWarningMs) {
            return;
        }
        List<String> sentences = new ArrayList<>();
        String drops = newDrops();
        if (!drops.isEmpty()) {
            sentences.add("Client telemetry pushes were dropped (" + drops + ").");
        }
        if (failure != null) {
            sentences.add(
                    "Client telemetry pushes wait, since the topic " + config.topic() + " cannot be written to: "
                            + failure);
        }
        if (!sentences.isEmpty()) {
            warn.accept(String.join(" ", sentences));
            nextWarningMs = nowMs + INTERVAL_MS;
            inTrouble = failure != null;
        }
    }

    /** Says once that the topic was found or made. */
    void connected() {
        if (!connectedBefore) {
            info.accept("Connected to the topic " + config.topic() + ", which client telemetry pushes are written to.");
        }
        connectedBefore = true;
    }

    /** Says once that records are acknowledged (again). */
    void delivering(boolean first) {
        if (first || inTrouble) {
            info.accept("Client telemetry pushes are written to the topic " + config.topic() + ".");
        }
        inTrouble = false;
    }

    /** The last line, with what is lost by the end if anything is. */
    void closed() {
        String drops = newDrops();
        String end = "Stopped: " + counters.delivered() + " pushes were written to the topic " + config.topic();
        if (drops.isEmpty()) {
            info.accept(end + ".");
        } else {
            warn.accept(end + ", dropped since the last warning: " + drops);
        }
    }

    private String newDrops() {
        List<String> parts = new ArrayList<>();
        for (DropCause cause : DropCause.values()) {
            long total = counters.dropped(cause);
            long before = reported.getOrDefault(cause, 0L);
            if (total > before) {
                parts.add(cause.text() + " " + (total - before));
            }
            reported.put(cause, total);
        }
        return String.join(", ", parts);
    }
}
