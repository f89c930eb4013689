package io.github.fleetgauge.kroxylicious;

import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.ApiVersionsResponseData;
import org.apache.kafka.common.message.ApiVersionsResponseData.ApiVersion;
import org.apache.kafka.common.message.GetTelemetrySubscriptionsRequestData;
import org.apache.kafka.common.message.GetTelemetrySubscriptionsResponseData;
import org.apache.kafka.common.message.PushTelemetryResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.CompressionType;

/** What the filter says of KIP-714 by itself: which versions there are, and answers without a node. */
final class TelemetryApis {

    private static final List<Byte> COMPRESSION_TYPES = List.of(
            CompressionType.ZSTD.id, CompressionType.LZ4.id, CompressionType.GZIP.id, CompressionType.SNAPPY.id);

    private TelemetryApis() {}

    /** Offers version 0 of both APIs, whatever the broker does, unless the response is an error. */
    static void offer(ApiVersionsResponseData response) {
        if (response.errorCode() == Errors.NONE.code()) {
            offer(response, ApiKeys.GET_TELEMETRY_SUBSCRIPTIONS);
            offer(response, ApiKeys.PUSH_TELEMETRY);
        }
    }

    private static void offer(ApiVersionsResponseData response, ApiKeys api) {
        ApiVersion offered = response.apiKeys().find(api.id);
        if (offered == null) {
            offered = new ApiVersion().setApiKey(api.id);
            response.apiKeys().add(offered);
        }
        offered.setMinVersion((short) 0).setMaxVersion((short) 0);
    }

    /**
     * A subscription to nothing, as a broker answers without one: the client asks again after {@code retryMs}.
     *
     * <p>An error would do the same, but Java's clients then ask after five minutes, and librdkafka after 30 s.
     */
    static GetTelemetrySubscriptionsResponseData nothing(GetTelemetrySubscriptionsRequestData request, int retryMs) {
        // Java's clients throw on a zero id.
        Uuid id = request.clientInstanceId();
        return new GetTelemetrySubscriptionsResponseData()
                .setClientInstanceId(Uuid.ZERO_UUID.equals(id) ? Uuid.randomUuid() : id)
                .setAcceptedCompressionTypes(COMPRESSION_TYPES)
                .setPushIntervalMs(retryMs)
                .setTelemetryMaxBytes(Node.TELEMETRY_MAX_BYTES)
                .setDeltaTemporality(true);
    }

    /** THROTTLING_QUOTA_EXCEEDED: the client asks for its subscription after its push interval. */
    static PushTelemetryResponseData later() {
        return new PushTelemetryResponseData().setErrorCode(Errors.THROTTLING_QUOTA_EXCEEDED.code());
    }

    static PushTelemetryResponseData tooLarge() {
        return new PushTelemetryResponseData().setErrorCode(Errors.TELEMETRY_TOO_LARGE.code());
    }
}
