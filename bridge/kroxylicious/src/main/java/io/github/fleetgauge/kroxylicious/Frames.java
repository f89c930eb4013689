package io.github.fleetgauge.kroxylicious;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.function.BiFunction;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;

/** Requests and responses as Kafka sends them. */
final class Frames {

    private Frames() {}

    /** The request with its size before it: a copy of the body. */
    static ByteBuffer request(RequestHeaderData header, ApiMessage body) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        int size = size(header, body, cache);
        ByteBufferAccessor frame = new ByteBufferAccessor(ByteBuffer.allocate(Integer.BYTES + size));
        frame.writeInt(size);
        header.write(frame, cache, headerVersion(header));
        body.write(frame, cache, header.requestApiVersion());
        frame.flip();
        return frame.buffer();
    }

    /** The size of a request without the field that says it [B]. */
    static int size(RequestHeaderData header, ApiMessage body) {
        return size(header, body, new ObjectSerializationCache());
    }

    /**
     * The body of the response to a request.
     *
     * @param frame the response without its size
     * @throws IOException if it is the response to another request
     */
    static <T> T response(RequestHeaderData request, ByteBuffer frame, BiFunction<Readable, Short, T> body)
            throws IOException {
        ByteBufferAccessor readable = new ByteBufferAccessor(frame);
        short headerVersion = api(request).responseHeaderVersion(request.requestApiVersion());
        if (new ResponseHeaderData(readable, headerVersion).correlationId() != request.correlationId()) {
            throw new IOException("the node answered another request");
        }
        return body.apply(readable, request.requestApiVersion());
    }

    private static int size(RequestHeaderData header, ApiMessage body, ObjectSerializationCache cache) {
        return header.size(cache, headerVersion(header)) + body.size(cache, header.requestApiVersion());
    }

    private static short headerVersion(RequestHeaderData header) {
        return api(header).requestHeaderVersion(header.requestApiVersion());
    }

    private static ApiKeys api(RequestHeaderData header) {
        return ApiKeys.forId(header.requestApiKey());
    }
}
