package io.github.fleetgauge.bridge;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigException;

/**
 * How this broker's own clients reach this cluster: the inter-broker listener, and the security settings with which
 * brokers talk to one another on it.
 *
 * <p>Source: "Security configuration for SASL inter-broker communication" of Kafka's documentation;
 * listener-prefixed keys go before plain ones (KIP-103).
 */
final class BrokerListener {

    private static final Pattern ENDPOINT = Pattern.compile("\\s*([^:/,]+)://\\[?([^,/]*?)]?:(\\d+)\\s*");

    private final Map<String, ?> configs;

    BrokerListener(Map<String, ?> brokerConfigs) {
        this.configs = brokerConfigs;
    }

    /**
     * {@code host:port} of the inter-broker listener, as the broker advertises it.
     *
     * @throws ConfigException the broker's listeners name no such address
     */
    String bootstrapServer() {
        String name = name();
        String endpoints = text("advertised.listeners", text("listeners", "PLAINTEXT://:9092"));
        for (String endpoint : endpoints.split(",")) {
            Matcher parts = ENDPOINT.matcher(endpoint);
            if (parts.matches() && parts.group(1).equalsIgnoreCase(name)) {
                return host(parts.group(2)) + ":" + parts.group(3);
            }
        }
        throw new ConfigException(
                "The inter-broker listener " + name + " is not in " + endpoints + "; set "
                        + BridgeConfig.BOOTSTRAP_SERVERS);
    }

    /** Client settings (security.protocol, ssl.*, sasl.*) with which brokers talk to one another. */
    Map<String, Object> securitySettings() {
        Map<String, Object> settings = new HashMap<>();
        String protocol = securityProtocol();
        settings.put("security.protocol", protocol);
        if (protocol.startsWith("SASL")) {
            settings.put("sasl.mechanism", text("sasl.mechanism.inter.broker.protocol", "GSSAPI"));
        }
        for (String key : ProducerConfig.configNames()) {
            boolean ofSsl = key.startsWith("ssl.") && protocol.endsWith("SSL");
            boolean ofSasl = key.startsWith("sasl.") && protocol.startsWith("SASL") && !key.equals("sasl.mechanism");
            Object value = ofSsl || ofSasl ? forListener(key, (String) settings.get("sasl.mechanism")) : null;
            if (value != null) {
                settings.put(key, value);
            }
        }
        return settings;
    }

    private String name() {
        return text("inter.broker.listener.name", text("security.inter.broker.protocol", "PLAINTEXT"))
                .toUpperCase(Locale.ROOT);
    }

    private String securityProtocol() {
        String name = name();
        for (String pair : text("listener.security.protocol.map", "").split(",")) {
            String[] parts = pair.trim().split(":");
            if (parts.length == 2 && parts[0].equalsIgnoreCase(name)) {
                return parts[1].toUpperCase(Locale.ROOT);
            }
        }
        return name;
    }

    /** The most specific of listener.name.L.M.key (M is the SASL mechanism), listener.name.L.key and key. */
    private Object forListener(String key, String mechanism) {
        String prefix = "listener.name." + name().toLowerCase(Locale.ROOT) + ".";
        Object value = null;
        if (mechanism != null) {
            value = configs.get(prefix + mechanism.toLowerCase(Locale.ROOT) + "." + key);
        }
        if (value == null) {
            value = configs.get(prefix + key);
        }
        return value == null ? configs.get(key) : value;
    }

    private String text(String key, String otherwise) {
        return text(configs, key, otherwise);
    }

    /** A broker's setting as text: raw at the start, and parsed (a list, say) when metric.reporters changes later. */
    static String text(Map<String, ?> configs, String key, String otherwise) {
        Object value = configs.get(key);
        String text = value instanceof List ? joined((List<?>) value) : String.valueOf(value).trim();
        return value == null || text.isEmpty() ? otherwise : text;
    }

    private static String joined(List<?> values) {
        return values.stream().map(String::valueOf).collect(Collectors.joining(","));
    }

    /** The host of an endpoint; one that is bound to every interface is reached by this machine's name, as in Kafka. */
    private static String host(String host) {
        if (!host.isEmpty() && !host.equals("0.0.0.0") && !host.equals("::")) {
            return host.contains(":") ? "[" + host + "]" : host;
        }
        try {
            return InetAddress.getLocalHost().getCanonicalHostName();
        } catch (UnknownHostException e) {
            return "localhost";
        }
    }
}
