package io.github.fleetgauge.kroxylicious;

import java.net.InetSocketAddress;

/**
 * Configuration of the filter. A wrong value stops the start of the proxy with a sentence that names it.
 *
 * @param node HOST:PORT of a PLAINTEXT listener of {@code fleetgauge serve}
 * @param proxyProtocol whether each connection to the node begins with a PROXY header (version 2) that has the client's
 *     address; true by default
 * @param timeoutMs how long a telemetry request waits for the node [ms], 1500 by default. Meanwhile the requests that
 *     the client sent after it on the same connection wait, too. The default is longer than the second for which a
 *     node holds a connection above {@code connection_creation_rate} before it closes it.
 * @param retryMs when a client asks for its subscription again if the node did not answer [ms], 60000 by default
 */
public record TelemetryConfig(String node, Boolean proxyProtocol, Integer timeoutMs, Integer retryMs) {

    /** librdkafka computes with larger intervals in an int that overflows, and then asks in a loop [ms]. */
    private static final int RETRY_MAX_MS = 1_789_569;

    /** Sets defaults and checks the values. */
    public TelemetryConfig {
        proxyProtocol = proxyProtocol == null || proxyProtocol;
        timeoutMs = within("timeoutMs", timeoutMs, 1_500, 100, 10_000);
        retryMs = within("retryMs", retryMs, 60_000, 1_000, RETRY_MAX_MS);
        unresolved(node);
    }

    /** The node's address. Resolving it may block. */
    InetSocketAddress resolve() {
        InetSocketAddress named = unresolved(node);
        return new InetSocketAddress(named.getHostString(), named.getPort());
    }

    private static InetSocketAddress unresolved(String node) {
        int colon = node == null ? -1 : node.lastIndexOf(':');
        try {
            String host = node.substring(0, colon).replaceAll("^\\[|]$", "");
            if (!host.isEmpty()) {
                return InetSocketAddress.createUnresolved(host, Integer.parseInt(node.substring(colon + 1)));
            }
        } catch (RuntimeException e) {
            // The sentence below says what is missing.
        }
        throw new IllegalArgumentException("node must be HOST:PORT of a fleetgauge serve listener, not " + node);
    }

    private static int within(String key, Integer value, int byDefault, int least, int most) {
        int found = value == null ? byDefault : value;
        if (found < least || found > most) {
            throw new IllegalArgumentException(key + " must be " + least + " to " + most + ", not " + found);
        }
        return found;
    }
}
