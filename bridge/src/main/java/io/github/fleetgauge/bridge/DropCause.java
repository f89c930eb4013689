package io.github.fleetgauge.bridge;

import java.util.Locale;

/** Why a push that the broker accepted is not on the topic. Each is a counter of {@link BridgeMXBean}. */
enum DropCause {
    /** {@code fleetgauge.buffer.bytes} were waiting already: the topic is unavailable, or slower than the pushes. */
    BUFFER_FULL,
    /** Larger than {@code fleetgauge.telemetry.max.decompressed.bytes}, or than the topic's max.message.bytes. */
    TOO_LARGE,
    /** Tried for {@code fleetgauge.delivery.timeout.ms}. */
    EXPIRED,
    /** The broker stopped before the push was acknowledged, or the reporter has been taken out of metric.reporters. */
    CLOSED,
    /** A fault of the plugin; its text is the MBean's LastError. */
    ERROR;

    /** As it is written in log lines: {@code buffer-full}. */
    String text() {
        return name().toLowerCase(Locale.ROOT).replace('_', '-');
    }
}
