package io.github.fleetgauge.kroxylicious;

import io.kroxylicious.proxy.filter.FilterContext;
import io.netty.channel.Channel;
import java.lang.reflect.Field;
import java.util.Arrays;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Predicate;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The client's connection, for its address and its end, of which the filter API of Kroxylicious (0.12) has neither.
 *
 * <p>A context is an inner object of the proxy's FilterHandler, whose one field of type Channel is the client's
 * connection. Where another version has it otherwise, the filter works without: the node then has the proxy's address
 * for all clients, and ends the connections of clients that are gone after its {@code connections.max.idle.ms}.
 */
final class ClientChannel {

    private static final Logger LOG = LoggerFactory.getLogger(ClientChannel.class);

    private static final AtomicBoolean IS_SAID = new AtomicBoolean();

    private ClientChannel() {}

    /** The channel, or none if this version of the proxy keeps it elsewhere. */
    static Optional<Channel> of(FilterContext context) {
        try {
            Object handler = value(context, Field::isSynthetic);
            return Optional.of((Channel) value(handler, field -> field.getType() == Channel.class));
        } catch (ReflectiveOperationException | RuntimeException e) {
            if (IS_SAID.compareAndSet(false, true)) {
                LOG.warn("The client's connection is not known in this version of Kroxylicious: "
                        + "the node takes the proxy's address for that of all clients", e);
            }
            return Optional.empty();
        }
    }

    private static Object value(Object owner, Predicate<Field> which) throws ReflectiveOperationException {
        Field found = Arrays.stream(owner.getClass().getDeclaredFields()).filter(which).findFirst().orElseThrow();
        found.setAccessible(true);
        return found.get(owner);
    }
}
