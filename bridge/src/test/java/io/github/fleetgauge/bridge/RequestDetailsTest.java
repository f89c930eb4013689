package io.github.fleetgauge.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.util.Optional;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.junit.jupiter.api.Test;

class RequestDetailsTest {

    @Test
    void softwareAndPortAreThoseOfTheBrokersContext() {
        RequestContext context = Pushes.context("orders");
        assertEquals("apache-kafka-java", RequestDetails.softwareName(context));
        assertEquals("4.4.0", RequestDetails.softwareVersion(context));
        assertEquals("50123", RequestDetails.port(context));
    }

    @Test
    void aContextWithoutAPortGivesThatOfItsConnection() {
        RequestContext context =
                new RequestContext(
                        new RequestHeader(ApiKeys.PUSH_TELEMETRY, (short) 0, "orders", 1),
                        "127.0.0.1:9092-127.0.0.1:50124-17",
                        InetAddress.getLoopbackAddress(),
                        Optional.empty(),
                        KafkaPrincipal.ANONYMOUS,
                        new ListenerName("PLAINTEXT"),
                        SecurityProtocol.PLAINTEXT,
                        ClientInformation.EMPTY,
                        false);
        assertEquals("50124", RequestDetails.port(context));
    }

    @Test
    void aConnectionIdIsReadInTheFormsOfAllVersions() {
        assertEquals("50124", RequestDetails.portOf("10.0.0.1:9092-10.0.0.2:50124-3"));
        assertEquals("50124", RequestDetails.portOf("10.0.0.1:9092-10.0.0.2:50124-2-3"));
        assertEquals("50124", RequestDetails.portOf("0:0:0:0:0:0:0:1:9092-fe80:0:0:0:1:2:3:4%eth0:50124-0-3"));
        assertNull(RequestDetails.portOf("something else"));
        assertNull(RequestDetails.portOf(""));
    }

    @Test
    void anotherKindOfContextIsNoErrorButUnknown() {
        AuthorizableRequestContext other =
                (AuthorizableRequestContext)
                        Proxy.newProxyInstance(
                                getClass().getClassLoader(),
                                new Class<?>[] {AuthorizableRequestContext.class},
                                (proxy, method, arguments) -> {
                                    throw new UnsupportedOperationException(method.getName());
                                });
        assertEquals("", RequestDetails.softwareName(other));
        assertEquals("", RequestDetails.softwareVersion(other));
        assertNull(RequestDetails.port(other));
    }
}
