package io.github.fleetgauge.bridge;

import org.apache.kafka.clients.producer.ProducerRecord;

/** A push on its way to the topic: its record, what it takes of the buffer [B], and when it is given up. */
final class PendingPush {

    final ProducerRecord<byte[], byte[]> record;
    final long bytes;

    /** On the monotonic clock [ms]. */
    final long deadlineMs;

    PendingPush(ProducerRecord<byte[], byte[]> record, long bytes, long deadlineMs) {
        this.record = record;
        this.bytes = bytes;
        this.deadlineMs = deadlineMs;
    }
}
