package io.github.fleetgauge.kroxylicious;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.EOFException;
import java.io.IOException;
import java.net.ConnectException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousChannelGroup;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class NodeConnectionTest {

    private static final byte[] ANSWER = {0, 0, 0, 5, 0, 0, 0, 1, 9};

    private AsynchronousChannelGroup group;
    private ServerSocket server;
    private NodeConnection connection;

    @BeforeEach
    void listen() throws IOException {
        group = AsynchronousChannelGroup.withFixedThreadPool(1, Executors.defaultThreadFactory());
        server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        connection = new NodeConnection(group);
    }

    @AfterEach
    void close() throws IOException {
        group.shutdownNow();
        server.close();
    }

    @Test
    void responsesInPiecesAndTogether() throws Exception {
        try (Socket node = accepted()) {
            for (int round = 0; round < 2; round++) {
                CompletableFuture<ByteBuffer> answer = ask(node);
                for (byte each : ANSWER) {
                    node.getOutputStream().write(each);
                }
                assertEquals(ByteBuffer.wrap(ANSWER, 4, 5), got(answer));
            }
        }
    }

    @Test
    void oneRequestAtATime() throws Exception {
        try (Socket node = accepted()) {
            ask(node);
            CompletableFuture<ByteBuffer> second = connection.exchange(ByteBuffer.allocate(1));
            assertInstanceOf(IllegalStateException.class, failure(second));
        }
    }

    @Test
    void aNodeThatClosesEndsTheConnectionAndTheRequest() throws Exception {
        CompletableFuture<ByteBuffer> answer;
        try (Socket node = accepted()) {
            answer = ask(node);
        }
        assertInstanceOf(EOFException.class, failure(answer));
        assertFalse(connection.isOpen());
    }

    @Test
    void aNodeThatClosesAnIdleConnectionIsNoticed() throws Exception {
        accepted().close();
        awaitEnd();
    }

    @Test
    void whatIsNoResponseEndsTheConnection() throws Exception {
        try (Socket node = accepted()) {
            CompletableFuture<ByteBuffer> answer = ask(node);
            node.getOutputStream().write("HTTP/1.1 400".getBytes());
            assertEquals("the node sent a response of 1213486160 bytes", failure(answer).getMessage());
            assertFalse(connection.isOpen());
        }
    }

    @Test
    void aResponseThatNoRequestAskedForEndsTheConnection() throws Exception {
        try (Socket node = accepted()) {
            node.getOutputStream().write(ANSWER);
            awaitEnd();
        }
    }

    @Test
    void closingFailsTheRequest() throws Exception {
        try (Socket node = accepted()) {
            CompletableFuture<ByteBuffer> answer = ask(node);
            connection.close();
            assertInstanceOf(IOException.class, failure(answer));
            assertEquals(-1, node.getInputStream().read());
        }
    }

    @Test
    void aNodeThatIsNotThere() throws Exception {
        SocketAddress address = server.getLocalSocketAddress();
        server.close();
        assertInstanceOf(ConnectException.class, failure(connection.connect(address)));
        assertFalse(connection.isOpen());
    }

    private Socket accepted() throws Exception {
        CompletableFuture<Void> connected = connection.connect(server.getLocalSocketAddress());
        Socket node = server.accept();
        got(connected);
        return node;
    }

    private CompletableFuture<ByteBuffer> ask(Socket node) throws IOException {
        CompletableFuture<ByteBuffer> answer = connection.exchange(ByteBuffer.wrap(new byte[] {7}));
        assertEquals(7, node.getInputStream().read());
        return answer;
    }

    private void awaitEnd() throws InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        while (connection.isOpen()) {
            assertTrue(System.nanoTime() < deadline);
            Thread.sleep(10);
        }
    }

    private static <T> T got(CompletableFuture<T> future) throws Exception {
        return future.get(30, TimeUnit.SECONDS);
    }

    private static Throwable failure(CompletableFuture<?> future) {
        return assertThrows(ExecutionException.class, () -> got(future)).getCause();
    }
}
