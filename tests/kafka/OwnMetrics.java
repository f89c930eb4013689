import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A producer, a consumer and a share consumer, which say what metrics they have by Kafka's own names while they push them.
 *
 * <p>Argument: bootstrap servers. After every line that comes in, prints each numeric metric as "client id, group, name,
 * tags" with tabs between, then "end"; ends with its input. The node needs no topics: what the clients cannot do there
 * is passed over.
 */
public final class OwnMetrics {
    private OwnMetrics() {}

    public static void main(String[] arguments) throws Exception {
        try (KafkaProducer<String, String> producer =
                        new KafkaProducer<>(of(arguments[0], "producer"), new StringSerializer(), new StringSerializer());
                KafkaConsumer<String, String> consumer = new KafkaConsumer<>(
                        of(arguments[0], "consumer"), new StringDeserializer(), new StringDeserializer());
                KafkaShareConsumer<String, String> share = new KafkaShareConsumer<>(
                        of(arguments[0], "share-consumer"), new StringDeserializer(), new StringDeserializer())) {
            // Assigned and placed, it needs no coordinator, and looks for the topic's leader for ever.
            consumer.assign(List.of(new TopicPartition("topic", 0)));
            consumer.seek(new TopicPartition("topic", 0), 0);
            share.subscribe(List.of("topic"));
            while (true) {
                try {
                    consumer.poll(Duration.ofMillis(50));
                } catch (KafkaException unsupported) {
                    Thread.sleep(200);
                }
                int word = System.in.available() > 0 ? System.in.read() : 0;
                if (word == 'q') {
                    Runtime.getRuntime().halt(0);
                }
                if (word == 's') {
                    show("producer", producer.metrics());
                    show("consumer", consumer.metrics());
                    show("share-consumer", share.metrics());
                    System.out.println("end");
                }
            }
        }
    }

    private static void show(String clientId, Map<MetricName, ? extends Metric> metrics) {
        for (Map.Entry<MetricName, ? extends Metric> each : metrics.entrySet()) {
            if (each.getValue().metricValue() instanceof Number) {
                MetricName name = each.getKey();
                String tags = String.join(",", new TreeSet<>(name.tags().keySet()));
                System.out.println(String.join("\t", clientId, name.group(), name.name(), tags));
            }
        }
    }

    private static Properties of(String bootstrap, String clientId) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("client.id", clientId);
        if (clientId.equals("share-consumer")) {
            properties.put("group.id", clientId + "-group");
        }
        if (clientId.equals("producer")) {
            properties.put("enable.idempotence", "false");
        }
        return properties;
    }
}
