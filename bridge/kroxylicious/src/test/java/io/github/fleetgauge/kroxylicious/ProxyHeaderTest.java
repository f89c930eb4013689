package io.github.fleetgauge.kroxylicious;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.net.InetSocketAddress;
import java.util.HexFormat;
import org.junit.jupiter.api.Test;

class ProxyHeaderTest {

    private static final String SIGNATURE = "0d0a0d0a000d0a515549540a";

    @Test
    void ofAnIpv4Client() {
        assertEquals(
                SIGNATURE + "2111000c" + "c0000207" + "0a000001" + "c823" + "2384",
                hex(new InetSocketAddress("192.0.2.7", 51235), new InetSocketAddress("10.0.0.1", 9092)));
    }

    @Test
    void ofAnIpv6Client() {
        assertEquals(
                SIGNATURE + "21210024" + "20010db8000000000000000000000007" + "00000000000000000000000000000001"
                        + "c823" + "2384",
                hex(new InetSocketAddress("2001:db8::7", 51235), new InetSocketAddress("::1", 9092)));
    }

    @Test
    void ofAddressesThatDoNotFitIsLocal() {
        InetSocketAddress ipv4 = new InetSocketAddress("10.0.0.1", 9092);
        assertEquals(SIGNATURE + "20000000", hex(new InetSocketAddress("::1", 1), ipv4));
        assertEquals(SIGNATURE + "20000000", hex(InetSocketAddress.createUnresolved("client", 1), ipv4));
        assertArrayEquals(ProxyHeader.local(), ProxyHeader.of(null, ipv4));
    }

    private static String hex(InetSocketAddress client, InetSocketAddress listener) {
        return HexFormat.of().formatHex(ProxyHeader.of(client, listener));
    }
}
