package io.github.fleetgauge.kroxylicious;

import io.kroxylicious.proxy.filter.ApiVersionsRequestFilter;
import io.kroxylicious.proxy.filter.ApiVersionsResponseFilter;
import io.kroxylicious.proxy.filter.FilterContext;
import io.kroxylicious.proxy.filter.FilterDispatchExecutor;
import io.kroxylicious.proxy.filter.GetTelemetrySubscriptionsRequestFilter;
import io.kroxylicious.proxy.filter.PushTelemetryRequestFilter;
import io.kroxylicious.proxy.filter.RequestFilterResult;
import io.kroxylicious.proxy.filter.ResponseFilterResult;
import io.netty.channel.Channel;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import java.util.function.BiFunction;
import org.apache.kafka.common.message.ApiVersionsRequestData;
import org.apache.kafka.common.message.ApiVersionsResponseData;
import org.apache.kafka.common.message.GetTelemetrySubscriptionsRequestData;
import org.apache.kafka.common.message.GetTelemetrySubscriptionsResponseData;
import org.apache.kafka.common.message.PushTelemetryRequestData;
import org.apache.kafka.common.message.PushTelemetryResponseData;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Readable;

/**
 * The filter of one client connection: offers both telemetry APIs, and has the node answer their requests over a
 * connection of its own, from the client's first telemetry request until the client's connection ends.
 *
 * <p>All methods run on the thread of the client's connection, which they never block. While a request waits, the
 * proxy hands over no further one of this connection, so there is one in flight at most.
 */
final class TelemetryFilter implements ApiVersionsRequestFilter, ApiVersionsResponseFilter,
        GetTelemetrySubscriptionsRequestFilter, PushTelemetryRequestFilter {

    /** Of ApiVersions to the node: the first that has the client's software. */
    private static final short API_VERSIONS_VERSION = 3;

    /** Of a request beside its payload: the header with its client id, and further fields [B]. */
    private static final int REQUEST_OVERHEAD_BYTES = 1 << 16;

    /** Of name and version together, which are kept while the client is connected; longer ones stay unknown. */
    private static final int SOFTWARE_MAX_CHARACTERS = 1 << 10;

    private final Node node;
    private final FilterDispatchExecutor executor;
    private ApiVersionsRequestData software = software("unknown", "unknown");
    private Optional<Channel> client;
    private NodeConnection connection;

    TelemetryFilter(Node node, FilterDispatchExecutor executor) {
        this.node = node;
        this.executor = executor;
    }

    @Override
    public CompletionStage<RequestFilterResult> onApiVersionsRequest(
            short version, RequestHeaderData header, ApiVersionsRequestData request, FilterContext context) {
        String name = request.clientSoftwareName();
        String softwareVersion = request.clientSoftwareVersion();
        if (version >= API_VERSIONS_VERSION && name.length() + softwareVersion.length() <= SOFTWARE_MAX_CHARACTERS) {
            software = software(name, softwareVersion);
        }
        return context.forwardRequest(header, request);
    }

    private static ApiVersionsRequestData software(String name, String version) {
        return new ApiVersionsRequestData().setClientSoftwareName(name).setClientSoftwareVersion(version);
    }

    @Override
    public CompletionStage<ResponseFilterResult> onApiVersionsResponse(
            short version, ResponseHeaderData header, ApiVersionsResponseData response, FilterContext context) {
        TelemetryApis.offer(response);
        return context.forwardResponse(header, response);
    }

    @Override
    public CompletionStage<RequestFilterResult> onGetTelemetrySubscriptionsRequest(
            short version, RequestHeaderData header, GetTelemetrySubscriptionsRequestData request, FilterContext context) {
        CompletableFuture<GetTelemetrySubscriptionsResponseData> answer =
                ask(header, request, GetTelemetrySubscriptionsResponseData::new, context);
        answer.thenAccept(response -> node.noteTelemetryMaxBytes(response.telemetryMaxBytes()));
        return respond(answer, header, TelemetryApis.nothing(request, node.config.retryMs()), context);
    }

    @Override
    public CompletionStage<RequestFilterResult> onPushTelemetryRequest(
            short version, RequestHeaderData header, PushTelemetryRequestData request, FilterContext context) {
        PushTelemetryResponseData otherwise =
                isTooLarge(header, request) ? TelemetryApis.tooLarge() : TelemetryApis.later();
        return respond(ask(header, request, PushTelemetryResponseData::new, context), header, otherwise, context);
    }

    /** True for what the node would not take, so that memory is bounded by what it takes. */
    private boolean isTooLarge(RequestHeaderData header, ApiMessage request) {
        return Frames.size(header, request) > (long) node.telemetryMaxBytes() + REQUEST_OVERHEAD_BYTES;
    }

    /** Sends the node's answer to the client, or {@code otherwise} if there is none. */
    private CompletionStage<RequestFilterResult> respond(
            CompletableFuture<? extends ApiMessage> answer,
            RequestHeaderData header,
            ApiMessage otherwise,
            FilterContext context) {
        ApiKeys api = ApiKeys.forId(header.requestApiKey());
        CompletableFuture<ApiMessage> response = answer.handle((found, error) -> {
            if (error == null) {
                node.answers.byNode(api);
                return found;
            }
            node.answers.byFilter(api, error, System.nanoTime());
            return otherwise;
        });
        return executor.completeOnFilterDispatchThread(response)
                .thenCompose(
                        body -> context.requestFilterResultBuilder().shortCircuitResponse(body).completed());
    }

    /** The node's response within the time limit; after a failure the connection to the node is closed. */
    private <T> CompletableFuture<T> ask(
            RequestHeaderData header, ApiMessage request, BiFunction<Readable, Short, T> parse, FilterContext context) {
        if (isTooLarge(header, request)) {
            return CompletableFuture.failedFuture(new IOException("a request that is larger than the node takes"));
        }
        CompletableFuture<T> answer;
        try {
            answer = exchange(header, Frames.request(header, request), context)
                    .orTimeout(node.config.timeoutMs(), TimeUnit.MILLISECONDS)
                    .thenApply(frame -> parsed(header, frame, parse));
        } catch (IOException | RuntimeException e) {
            answer = CompletableFuture.failedFuture(e);
        }
        NodeConnection used = connection;
        return answer.whenComplete((found, error) -> {
            if (error != null && used != null) {
                used.close();
            }
        });
    }

    private static <T> T parsed(RequestHeaderData header, ByteBuffer frame, BiFunction<Readable, Short, T> parse) {
        try {
            return Frames.response(header, frame, parse);
        } catch (IOException e) {
            throw new CompletionException(e);
        }
    }

    private CompletableFuture<ByteBuffer> exchange(RequestHeaderData header, ByteBuffer request, FilterContext context)
            throws IOException {
        if (connection != null && connection.isOpen()) {
            return connection.exchange(request);
        }
        NodeConnection opened = node.connection();
        connection = opened;
        return node.open(opened, first(header.clientId(), clientOf(context)))
                .thenCompose(ready -> opened.exchange(request));
    }

    /** The client's connection; the one to the node ends with it. */
    private Optional<Channel> clientOf(FilterContext context) {
        if (client == null) {
            client = ClientChannel.of(context);
            client.ifPresent(channel -> channel.closeFuture().addListener(closed -> connection.close()));
        }
        return client;
    }

    /** What a connection to the node begins with: the client's address, then its software. */
    private ByteBuffer first(String clientId, Optional<Channel> channel) {
        RequestHeaderData header = new RequestHeaderData()
                .setRequestApiKey(ApiKeys.API_VERSIONS.id)
                .setRequestApiVersion(API_VERSIONS_VERSION)
                .setClientId(clientId);
        ByteBuffer request = Frames.request(header, software);
        if (!node.config.proxyProtocol()) {
            return request;
        }
        byte[] proxyHeader = channel.map(from -> ProxyHeader.of(from.remoteAddress(), from.localAddress()))
                .orElseGet(ProxyHeader::local);
        return ByteBuffer.allocate(proxyHeader.length + request.remaining()).put(proxyHeader).put(request).flip();
    }
}
