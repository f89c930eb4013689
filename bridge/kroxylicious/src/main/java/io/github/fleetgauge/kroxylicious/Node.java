package io.github.fleetgauge.kroxylicious;

import java.io.Closeable;
import java.io.IOException;
import java.net.ConnectException;
import java.net.NoRouteToHostException;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousChannelGroup;
import java.nio.channels.UnresolvedAddressException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * The node that answers, shared by all client connections.
 *
 * <p>Connections to it are Java's own asynchronous channels with one thread for all: at one small request per client
 * and push interval they need no event loop, and the filter does not depend on the version of Netty in the proxy for
 * its work.
 */
final class Node implements Closeable {

    /** {@code telemetry.max.bytes} of Kafka and of a node, until the node has named its own [B]. */
    static final int TELEMETRY_MAX_BYTES = 1 << 20;

    final TelemetryConfig config;
    final Answers answers;
    private final Pause pause = new Pause();
    private final AsynchronousChannelGroup group;
    private volatile int telemetryMaxBytes = TELEMETRY_MAX_BYTES;

    Node(TelemetryConfig config) throws IOException {
        this.config = config;
        answers = new Answers(config.node());
        group = AsynchronousChannelGroup.withFixedThreadPool(1, work -> {
            Thread thread = new Thread(work, "fleetgauge-telemetry");
            thread.setDaemon(true);
            return thread;
        });
    }

    /**
     * A connection that {@link #open} opens.
     *
     * @throws IOException if there can be none now
     */
    NodeConnection connection() throws IOException {
        if (!pause.mayTry(System.nanoTime())) {
            throw new IOException("not tried, since the last connection failed less than 5 s ago");
        }
        return new NodeConnection(group);
    }

    /** Connects, and completes when the node has answered {@code first}, bytes that end with a request. */
    CompletableFuture<Void> open(NodeConnection connection, ByteBuffer first) {
        return CompletableFuture.supplyAsync(config::resolve) // may wait for DNS
                .thenCompose(connection::connect)
                .thenCompose(connected -> connection.exchange(first))
                .orTimeout(config.timeoutMs(), TimeUnit.MILLISECONDS)
                .handle((response, error) -> {
                    noteOpened(error);
                    return null;
                });
    }

    private void noteOpened(Throwable error) {
        if (error == null) {
            pause.end();
            return;
        }
        Throwable cause = error instanceof CompletionException ? error.getCause() : error;
        if (isUnreachable(cause)) {
            pause.begin(System.nanoTime());
        }
        throw new CompletionException(cause);
    }

    /** False if it was reached and closed the connection, which it does for one client and not for all. */
    private static boolean isUnreachable(Throwable cause) {
        return cause instanceof ConnectException
                || cause instanceof NoRouteToHostException
                || cause instanceof UnresolvedAddressException
                || cause instanceof TimeoutException;
    }

    /** The largest payload that the node takes [B]. */
    int telemetryMaxBytes() {
        return telemetryMaxBytes;
    }

    /** Takes {@code telemetry.max.bytes} over from the node's answer, which has 0 with an error code. */
    void noteTelemetryMaxBytes(int bytes) {
        if (bytes > 0) {
            telemetryMaxBytes = bytes;
        }
    }

    @Override
    public void close() {
        try {
            group.shutdownNow();
        } catch (IOException e) {
            // Its channels end with the proxy.
        }
    }
}
