import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A producer that sends no record, so that its network thread has telemetry alone to do; lives until it is ended. */
public final class IdleProducer {
    private IdleProducer() {}

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("client.id", "idle");
        properties.put("enable.idempotence", "false");
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            Thread.sleep(Long.MAX_VALUE);
        }
    }
}
