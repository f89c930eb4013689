package io.github.fleetgauge.kroxylicious;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.ApiVersionsResponseData;
import org.apache.kafka.common.message.ApiVersionsResponseData.ApiVersion;
import org.apache.kafka.common.message.GetTelemetrySubscriptionsRequestData;
import org.apache.kafka.common.message.GetTelemetrySubscriptionsResponseData;
import org.apache.kafka.common.protocol.Errors;
import org.junit.jupiter.api.Test;

class TelemetryApisTest {

    @Test
    void bothApisAreAddedToThoseOfABrokerWithoutThem() {
        ApiVersionsResponseData response = response(version(18, 0, 4));
        TelemetryApis.offer(response);
        assertEquals(List.of(version(18, 0, 4), version(71, 0, 0), version(72, 0, 0)), List.copyOf(response.apiKeys()));
    }

    @Test
    void theVersionsOfABrokerThatHasThemAreReplaced() {
        ApiVersionsResponseData response = response(version(71, 0, 3), version(72, 1, 2), version(73, 0, 0));
        TelemetryApis.offer(response);
        assertEquals(List.of(version(71, 0, 0), version(72, 0, 0), version(73, 0, 0)), List.copyOf(response.apiKeys()));
    }

    @Test
    void anErrorStaysAsItIs() {
        ApiVersionsResponseData response = response(version(18, 0, 4)).setErrorCode(Errors.UNSUPPORTED_VERSION.code());
        TelemetryApis.offer(response);
        assertEquals(List.of(version(18, 0, 4)), List.copyOf(response.apiKeys()));
    }

    @Test
    void aSubscriptionToNothingKeepsTheClientsId() {
        Uuid id = Uuid.randomUuid();
        GetTelemetrySubscriptionsResponseData answer = nothing(id);
        assertEquals(id, answer.clientInstanceId());
        assertEquals(60_000, answer.pushIntervalMs());
        assertEquals(List.of(), answer.requestedMetrics());
        assertEquals(Errors.NONE.code(), answer.errorCode());
    }

    @Test
    void aClientWithoutAnIdGetsOne() {
        assertNotEquals(Uuid.ZERO_UUID, nothing(Uuid.ZERO_UUID).clientInstanceId());
    }

    private static GetTelemetrySubscriptionsResponseData nothing(Uuid id) {
        return TelemetryApis.nothing(new GetTelemetrySubscriptionsRequestData().setClientInstanceId(id), 60_000);
    }

    private static ApiVersionsResponseData response(ApiVersion... versions) {
        ApiVersionsResponseData response = new ApiVersionsResponseData();
        response.apiKeys().addAll(List.of(versions));
        return response;
    }

    private static ApiVersion version(int api, int least, int most) {
        return new ApiVersion().setApiKey((short) api).setMinVersion((short) least).setMaxVersion((short) most);
    }
}
