package io.github.fleetgauge.bridge;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.function.LongSupplier;

/**
 * The time from the load of the plugin until this broker's listener accepts connections.
 *
 * <p>A broker loads its reporters before it opens its ports, with the recovery of its logs in between. A client of
 * Kafka's that connects meanwhile warns that "node -1" is not available. So the port is tried with a bare connection,
 * which logs nothing on either side.
 */
class BrokerStartup {

    /** A listener that is not reachable after this time [ms] is a fault, and the clients' own warnings report it. */
    static final long MAX_WAIT_MS = 300_000;

    private static final int CONNECT_TIMEOUT_MS = 1_000;

    private final InetSocketAddress listener;
    private final LongSupplier nowMs;
    private final long deadlineMs;
    private boolean over;

    /** {@code listener} is null when the topic is on another cluster: there is nothing to wait for then. */
    BrokerStartup(InetSocketAddress listener, LongSupplier nowMs) {
        this.listener = listener;
        this.nowMs = nowMs;
        deadlineMs = nowMs.getAsLong() + MAX_WAIT_MS;
        over = listener == null;
    }

    /** For a plugin with this configuration. */
    static BrokerStartup of(BridgeConfig config, LongSupplier nowMs) {
        boolean isOwn = config.bootstrapServers().isEmpty();
        String listener = isOwn ? new BrokerListener(config.brokerConfigs()).bootstrapServer() : null;
        return new BrokerStartup(isOwn ? address(listener) : null, nowMs);
    }

    /**
     * True once clients may connect, and from then on; waits for one second at most.
     *
     * @param pushed whether a push arrived: the broker serves clients then
     */
    boolean isOver(boolean pushed) {
        over = over || pushed || nowMs.getAsLong() >= deadlineMs || accepts();
        return over;
    }

    private boolean accepts() {
        try (Socket socket = new Socket()) {
            // Resolved each time: the name of a host may come late.
            socket.connect(new InetSocketAddress(listener.getHostString(), listener.getPort()), CONNECT_TIMEOUT_MS);
            return true;
        } catch (IOException e) {
            return false;
        }
    }

    /** {@code host:port} or {@code [IPv6 address]:port}. */
    static InetSocketAddress address(String hostAndPort) {
        int colon = hostAndPort.lastIndexOf(':');
        String host = hostAndPort.substring(0, colon).replaceAll("[\\[\\]]", "");
        return InetSocketAddress.createUnresolved(host, Integer.parseInt(hostAndPort.substring(colon + 1)));
    }
}
