package io.github.fleetgauge.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class BrokerStartupTest {

    private long nowMs = 7_000;

    /** An address that nothing listens on: the port was the system's choice, and was given back. */
    private static InetSocketAddress closedPort() throws Exception {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return InetSocketAddress.createUnresolved("127.0.0.1", socket.getLocalPort());
        }
    }

    @Test
    void itIsOverWhenTheListenerAcceptsAndStaysOver() throws Exception {
        BrokerStartup startup;
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            startup =
                    new BrokerStartup(
                            InetSocketAddress.createUnresolved("127.0.0.1", socket.getLocalPort()), () -> nowMs);
            assertTrue(startup.isOver(false));
        }
        assertTrue(startup.isOver(false), "a broker that closes its port later is another matter");
    }

    @Test
    void itLastsWhileTheListenerIsClosedAndEndsWithTheFirstPush() throws Exception {
        BrokerStartup startup = new BrokerStartup(closedPort(), () -> nowMs);
        assertFalse(startup.isOver(false));
        assertTrue(startup.isOver(true), "clients are served, so its own clients may say what is wrong");
        assertTrue(startup.isOver(false));
    }

    @Test
    void aListenerThatNeverOpensIsWaitedForNoLongerThanFiveMinutes() throws Exception {
        BrokerStartup startup = new BrokerStartup(closedPort(), () -> nowMs);
        nowMs += BrokerStartup.MAX_WAIT_MS - 1;
        assertFalse(startup.isOver(false));
        nowMs += 1;
        assertTrue(startup.isOver(false));
    }

    @Test
    void aNameThatIsNotResolvedIsNoFault() {
        BrokerStartup startup =
                new BrokerStartup(InetSocketAddress.createUnresolved("no-such-host.invalid", 9092), () -> nowMs);
        assertFalse(startup.isOver(false));
    }

    @Test
    void anotherClusterIsNotWaitedFor() {
        BridgeConfig elsewhere = Pushes.config("fleetgauge.bootstrap.servers", "127.0.0.1:1");
        assertTrue(BrokerStartup.of(elsewhere, () -> nowMs).isOver(false));
    }

    @ParameterizedTest
    @CsvSource({"broker-1:9092, broker-1, 9092", "[::1]:19092, ::1, 19092", "10.0.0.1:1, 10.0.0.1, 1"})
    void anAddressIsReadAsTheBrokerAdvertisesIt(String text, String host, int port) {
        InetSocketAddress address = BrokerStartup.address(text);
        assertEquals(host, address.getHostString());
        assertEquals(port, address.getPort());
    }
}
