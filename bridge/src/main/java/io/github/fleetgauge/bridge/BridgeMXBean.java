package io.github.fleetgauge.bridge;

/**
 * What the plugin did since it was started, as {@code fleetgauge:type=bridge,node-id=N} in JMX.
 *
 * <p>{@code ReceivedTotal = DeliveredTotal + all Dropped...Total + BufferedPushes} at rest. A push may be delivered
 * twice (a retry after a lost acknowledgement); readers drop repeats by push_id.
 */
public interface BridgeMXBean {

    /** Pushes that the broker handed over. */
    long getReceivedTotal();

    /** Their payloads [B], decompressed. */
    long getReceivedBytesTotal();

    /** Pushes whose record is acknowledged by the topic. */
    long getDeliveredTotal();

    /** Attempts that failed and were tried again. */
    long getRetriedTotal();

    /** Dropped: the buffer was full. */
    long getDroppedBufferFullTotal();

    /** Dropped: larger than the plugin or the topic takes. */
    long getDroppedTooLargeTotal();

    /** Dropped: not acknowledged within fleetgauge.delivery.timeout.ms. */
    long getDroppedExpiredTotal();

    /** Dropped: not acknowledged when the broker stopped. */
    long getDroppedClosedTotal();

    /** Dropped: a fault of the plugin. */
    long getDroppedErrorTotal();

    /** Pushes that wait for their acknowledgement now. */
    long getBufferedPushes();

    /** What these take of the buffer [B]: payload, headers and 1024 for the objects around them. */
    long getBufferedBytes();

    /** fleetgauge.buffer.bytes. */
    long getBufferMaxBytes();

    /** {@code CONNECTING} before the first connection and after a failure, {@code DELIVERING}, {@code CLOSED}. */
    String getState();

    /** Topic that the pushes are written to. */
    String getTopic();

    /** The latest failure, empty when there was none. */
    String getLastError();
}
