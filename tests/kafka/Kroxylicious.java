import io.kroxylicious.proxy.KafkaProxy;
import io.kroxylicious.proxy.config.ConfigParser;
import io.kroxylicious.proxy.config.ServiceBasedPluginFactoryRegistry;
import io.kroxylicious.proxy.internal.config.Features;
import java.nio.file.Files;
import java.nio.file.Path;

/** Kroxylicious with the configuration file that is named, until it is stopped; its own application is not in Maven Central. */
public final class Kroxylicious {
    private Kroxylicious() {
    }

    public static void main(String[] arguments) throws Exception {
        var configuration = new ConfigParser().parseConfiguration(Files.readString(Path.of(arguments[0])));
        var plugins = new ServiceBasedPluginFactoryRegistry();
        try (var proxy = new KafkaProxy(plugins, configuration, Features.defaultFeatures())) {
            proxy.startup().block();
        }
    }
}
