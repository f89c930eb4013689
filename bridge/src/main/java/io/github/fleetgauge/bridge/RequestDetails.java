package io.github.fleetgauge.bridge;

import java.lang.reflect.Field;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;

/**
 * What the broker knows of a request and the plugin interface does not say: the client's software and its port.
 *
 * <p>They are public fields of the context's class, RequestContext, which is no public API and differs between Kafka's
 * versions ({@code clientPort} came later than the plugin interface). So each field is looked up by name, once, and one
 * that is not there is not known: never an error.
 */
final class RequestDetails {

    private static final String CONTEXT_CLASS = "org.apache.kafka.common.requests.RequestContext";
    private static final Field CLIENT_INFORMATION = field("clientInformation");
    private static final Field CLIENT_PORT = field("clientPort");
    private static final Field CONNECTION_ID = field("connectionId");

    /** {@code local:port-remote:port-index}, from 4.0 on {@code local:port-remote:port-processor-index}. */
    private static final Pattern CONNECTION = Pattern.compile("[^-]*-[^-]*:(\\d{1,5})-\\d+(?:-\\d+)?");

    private RequestDetails() {}

    /** The name that the client gave with ApiVersions; empty when it is not known. */
    static String softwareName(AuthorizableRequestContext context) {
        Object information = value(CLIENT_INFORMATION, context);
        return information instanceof ClientInformation ? ((ClientInformation) information).softwareName() : "";
    }

    /** The version that the client gave with ApiVersions; empty when it is not known. */
    static String softwareVersion(AuthorizableRequestContext context) {
        Object information = value(CLIENT_INFORMATION, context);
        return information instanceof ClientInformation ? ((ClientInformation) information).softwareVersion() : "";
    }

    /** The client's port in decimal digits; null when it is not known. */
    static String port(AuthorizableRequestContext context) {
        Object port = value(CLIENT_PORT, context);
        if (port instanceof Optional && ((Optional<?>) port).isPresent()) {
            return ((Optional<?>) port).get().toString();
        }
        Object connectionId = value(CONNECTION_ID, context);
        return connectionId == null ? null : portOf(connectionId.toString());
    }

    /** The remote port in a connection id; null when it has another form. */
    static String portOf(String connectionId) {
        Matcher connection = CONNECTION.matcher(connectionId);
        return connection.matches() ? connection.group(1) : null;
    }

    private static Object value(Field field, AuthorizableRequestContext context) {
        if (field == null || !field.getDeclaringClass().isInstance(context)) {
            return null;
        }
        try {
            return field.get(context);
        } catch (IllegalAccessException e) {
            return null;
        }
    }

    private static Field field(String name) {
        try {
            return Class.forName(CONTEXT_CLASS).getField(name);
        } catch (ReflectiveOperationException | LinkageError e) {
            return null;
        }
    }
}
