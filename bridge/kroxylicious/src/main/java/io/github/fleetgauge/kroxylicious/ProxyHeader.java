package io.github.fleetgauge.kroxylicious;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.ByteBuffer;

/** The header of the PROXY protocol, version 2 (section 2.2 of its specification). */
final class ProxyHeader {

    private static final byte[] SIGNATURE = {13, 10, 13, 10, 0, 13, 10, 'Q', 'U', 'I', 'T', 10};
    private static final byte LOCAL = 0x20;
    private static final byte PROXY = 0x21;
    private static final byte TCP_OVER_IPV4 = 0x11;
    private static final byte TCP_OVER_IPV6 = 0x21;

    private ProxyHeader() {}

    /**
     * The header of a connection from {@code client} to {@code listener}; LOCAL, by which the receiver takes the
     * sender's own address, unless both are addresses of one family.
     */
    static byte[] of(SocketAddress client, SocketAddress listener) {
        if (!(client instanceof InetSocketAddress from) || !(listener instanceof InetSocketAddress to)) {
            return local();
        }
        byte[] source = bytes(from);
        byte[] target = bytes(to);
        if (source.length == 0 || source.length != target.length) {
            return local();
        }
        int length = 2 * source.length + 2 * Short.BYTES;
        return ByteBuffer.allocate(SIGNATURE.length + 4 + length)
                .put(SIGNATURE)
                .put(PROXY)
                .put(source.length == 4 ? TCP_OVER_IPV4 : TCP_OVER_IPV6)
                .putShort((short) length)
                .put(source)
                .put(target)
                .putShort((short) from.getPort())
                .putShort((short) to.getPort())
                .array();
    }

    static byte[] local() {
        return ByteBuffer.allocate(SIGNATURE.length + 4).put(SIGNATURE).put(LOCAL).array();
    }

    private static byte[] bytes(InetSocketAddress address) {
        InetAddress resolved = address.getAddress();
        return resolved == null ? new byte[0] : resolved.getAddress();
    }
}
