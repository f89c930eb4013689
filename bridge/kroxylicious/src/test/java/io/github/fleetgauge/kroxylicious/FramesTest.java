package io.github.fleetgauge.kroxylicious;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.GetTelemetrySubscriptionsRequestData;
import org.apache.kafka.common.message.PushTelemetryResponseData;
import org.apache.kafka.common.message.RequestHeaderData;
import org.junit.jupiter.api.Test;

class FramesTest {

    @Test
    void aRequestBeginsWithItsSize() {
        Uuid id = new Uuid(1, 2);
        ByteBuffer frame = Frames.request(header(71, 5), new GetTelemetrySubscriptionsRequestData().setClientInstanceId(id));
        byte[] expected = HexFormat.of().parseHex(
                "0000001f" + "0047" + "0000" + "00000005" + "0003" + "617070" + "00"
                        + "0000000000000001" + "0000000000000002" + "00");
        assertArrayEquals(expected, frame.array());
        assertEquals(expected.length, frame.remaining());
    }

    @Test
    void aResponseIsReadAfterItsHeader() throws IOException {
        PushTelemetryResponseData found = Frames.response(header(72, 5), response(), PushTelemetryResponseData::new);
        assertEquals(89, found.errorCode());
        assertEquals(250, found.throttleTimeMs());
    }

    @Test
    void aResponseToAnotherRequestIsRefused() {
        assertThrows(
                IOException.class,
                () -> Frames.response(header(72, 6), response(), PushTelemetryResponseData::new));
    }

    private static ByteBuffer response() {
        return ByteBuffer.wrap(HexFormat.of().parseHex("00000005" + "00" + "000000fa" + "0059" + "00"));
    }

    private static RequestHeaderData header(int api, int correlationId) {
        return new RequestHeaderData()
                .setRequestApiKey((short) api)
                .setCorrelationId(correlationId)
                .setClientId("app");
    }
}
