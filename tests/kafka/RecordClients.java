import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A producer and a consumer of a group that are pointed at a listener without records; prints how each one fails.
 *
 * <p>Arguments: bootstrap servers, topic.
 */
public final class RecordClients {
    private RecordClients() {}

    public static void main(String[] arguments) {
        System.out.println("producer " + failure(() -> produce(arguments[0], arguments[1])));
        System.out.println("consumer " + failure(() -> consume(arguments[0], arguments[1])));
    }

    private interface Work {
        void run() throws Exception;
    }

    private static Throwable failure(Work work) {
        try {
            work.run();
            return null;
        } catch (Exception e) {
            return e.getCause() == null ? e : e.getCause();
        }
    }

    private static void produce(String bootstrap, String topic) throws Exception {
        Properties settings = settings(bootstrap, "java-producer");
        settings.put("max.block.ms", "10000");
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>(topic, "value")).get();
        }
    }

    private static void consume(String bootstrap, String topic) {
        Properties settings = settings(bootstrap, "java-consumer");
        settings.put("group.id", "group");
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            for (int poll = 0; poll < 20; poll++) {
                consumer.poll(Duration.ofMillis(500));
            }
        }
    }

    private static Properties settings(String bootstrap, String clientId) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("client.id", clientId);
        return settings;
    }
}
