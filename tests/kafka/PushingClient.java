import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A producer and a consumer of one kafka-clients version, busy until a line comes in; then both are closed.
 *
 * <p>Arguments: bootstrap servers, prefix of the client ids, topic. Prints "producer ID" and "consumer ID" with the
 * client instance ids once the broker has given them, as an application would log them.
 */
public final class PushingClient {
    private PushingClient() {}

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        String prefix = arguments[1];
        String topic = arguments[2];
        Properties common = new Properties();
        common.put("bootstrap.servers", bootstrap);
        Properties produces = with(common, "client.id", prefix + "-producer");
        produces.put("linger.ms", "300");
        Properties consumes = with(common, "client.id", prefix + "-consumer");
        consumes.put("group.id", prefix + "-group");
        consumes.put("auto.offset.reset", "earliest");
        // What is opened last is closed first: the producer, while its last record still lingers.
        try (KafkaConsumer<String, String> consumer =
                        new KafkaConsumer<>(consumes, new StringDeserializer(), new StringDeserializer());
                KafkaProducer<String, String> producer =
                        new KafkaProducer<>(produces, new StringSerializer(), new StringSerializer())) {
            consumer.subscribe(List.of(topic));
            boolean isKnown = false;
            while (!isAskedToEnd()) {
                producer.send(new ProducerRecord<>(topic, "value")).get();
                consumer.poll(Duration.ofMillis(50));
                // A consumer gets its id while it is polled, and answers null until then.
                Uuid consumerId = isKnown ? null : consumer.clientInstanceId(Duration.ofMillis(1));
                if (consumerId != null) {
                    System.out.println("producer " + producer.clientInstanceId(Duration.ofSeconds(30)));
                    System.out.println("consumer " + consumerId);
                    isKnown = true;
                }
            }
            // Producers send a last push only where records are unsent; linger.ms keeps this one for a moment.
            producer.send(new ProducerRecord<>(topic, "last"));
        }
        System.out.println("closed");
    }

    private static boolean isAskedToEnd() throws Exception {
        Thread.sleep(50);
        return System.in.available() > 0;
    }

    private static Properties with(Properties common, String key, String value) {
        Properties properties = new Properties();
        properties.putAll(common);
        properties.put(key, value);
        return properties;
    }
}
