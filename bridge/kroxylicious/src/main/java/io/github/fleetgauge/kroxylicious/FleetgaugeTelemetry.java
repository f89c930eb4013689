package io.github.fleetgauge.kroxylicious;

import io.kroxylicious.proxy.filter.Filter;
import io.kroxylicious.proxy.filter.FilterFactory;
import io.kroxylicious.proxy.filter.FilterFactoryContext;
import io.kroxylicious.proxy.plugin.Plugin;
import io.kroxylicious.proxy.plugin.PluginConfigurationException;
import java.io.IOException;

/**
 * Answers GetTelemetrySubscriptions and PushTelemetry (KIP-714) through a Fleetgauge node: the filter's type in the
 * configuration of Kroxylicious. {@link TelemetryConfig} has its keys.
 */
@Plugin(configType = TelemetryConfig.class)
public final class FleetgaugeTelemetry implements FilterFactory<TelemetryConfig, Node> {

    @Override
    public Node initialize(FilterFactoryContext context, TelemetryConfig config) {
        if (config == null) {
            throw new PluginConfigurationException("FleetgaugeTelemetry needs a config with node: HOST:PORT");
        }
        try {
            return new Node(config);
        } catch (IOException e) {
            throw new PluginConfigurationException("FleetgaugeTelemetry cannot start its thread: " + e.getMessage(), e);
        }
    }

    /** One filter for each client connection. */
    @Override
    public Filter createFilter(FilterFactoryContext context, Node node) {
        return new TelemetryFilter(node, context.filterDispatchExecutor());
    }

    @Override
    public void close(Node node) {
        node.close();
    }
}
