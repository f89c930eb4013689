package io.github.fleetgauge.kroxylicious;

import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousChannelGroup;
import java.nio.channels.AsynchronousSocketChannel;
import java.nio.channels.CompletionHandler;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;

/**
 * One connection to the node, with one request at a time. It is always read, so that it ends when the node closes it.
 *
 * <p>Its futures are completed by the thread of the channel group.
 */
final class NodeConnection implements Closeable {

    private static final int RESPONSE_MAX_BYTES = 1 << 20;

    private final AsynchronousSocketChannel channel;
    private final AtomicReference<CompletableFuture<ByteBuffer>> unanswered = new AtomicReference<>();

    NodeConnection(AsynchronousChannelGroup group) throws IOException {
        channel = AsynchronousSocketChannel.open(group);
    }

    CompletableFuture<Void> connect(SocketAddress address) {
        CompletableFuture<Void> connected = new CompletableFuture<>();
        channel.connect(address, ignored -> {
            readFrame();
            connected.complete(null);
        }, new Handler<Void>(connected));
        return connected;
    }

    /** Sends bytes that end with a request; the future has the response without its size. */
    CompletableFuture<ByteBuffer> exchange(ByteBuffer request) {
        CompletableFuture<ByteBuffer> response = new CompletableFuture<>();
        if (!unanswered.compareAndSet(null, response)) {
            return CompletableFuture.failedFuture(new IllegalStateException("a request is in flight"));
        }
        write(request);
        return response;
    }

    boolean isOpen() {
        return channel.isOpen();
    }

    /** Ends the connection; a request in flight fails. */
    @Override
    public void close() {
        try {
            channel.close();
        } catch (IOException e) {
            // Nothing is left to release.
        }
    }

    private void write(ByteBuffer bytes) {
        channel.write(bytes, ignored -> {
            if (bytes.hasRemaining()) {
                write(bytes);
            }
        }, new Handler<Integer>(null));
    }

    private void readFrame() {
        read(ByteBuffer.allocate(Integer.BYTES), size -> {
            int length = size.getInt();
            if (length < Integer.BYTES || length > RESPONSE_MAX_BYTES) {
                end(new IOException("the node sent a response of " + length + " bytes"));
            } else {
                read(ByteBuffer.allocate(length), this::answered);
            }
        });
    }

    private void read(ByteBuffer into, Consumer<ByteBuffer> whenFull) {
        channel.read(into, count -> {
            if (count < 0) {
                end(new EOFException("the node closed the connection"));
            } else if (into.hasRemaining()) {
                read(into, whenFull);
            } else {
                whenFull.accept(into.flip());
            }
        }, new Handler<Integer>(null));
    }

    private void answered(ByteBuffer frame) {
        CompletableFuture<ByteBuffer> response = unanswered.getAndSet(null);
        if (response == null) {
            end(new IOException("the node sent a response to no request"));
            return;
        }
        readFrame();
        response.complete(frame);
    }

    private void end(Throwable cause) {
        close();
        CompletableFuture<ByteBuffer> response = unanswered.getAndSet(null);
        if (response != null) {
            response.completeExceptionally(cause);
        }
    }

    /** Goes on with what an operation has as its attachment; ends the connection, and {@code started}, if it fails. */
    private final class Handler<V> implements CompletionHandler<V, Consumer<V>> {

        private final CompletableFuture<?> started;

        private Handler(CompletableFuture<?> started) {
            this.started = started;
        }

        @Override
        public void completed(V result, Consumer<V> next) {
            next.accept(result);
        }

        @Override
        public void failed(Throwable cause, Consumer<V> next) {
            end(cause);
            if (started != null) {
                started.completeExceptionally(cause);
            }
        }
    }
}
