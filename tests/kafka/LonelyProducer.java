import java.io.FileInputStream;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A producer on a node without topics: it asks for one again and again, and pushes its metrics meanwhile.
 *
 * <p>Argument: a file with its properties. Prints its client instance id, or the words with which it is not let in, and
 * ends when a line comes in.
 */
public final class LonelyProducer {
    private LonelyProducer() {}

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (FileInputStream in = new FileInputStream(arguments[0])) {
            properties.load(in);
        }
        properties.put("max.block.ms", "1000");
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            boolean isKnown = false;
            while (System.in.available() == 0) {
                try {
                    producer.partitionsFor("none");
                } catch (TimeoutException e) {
                    // There is no topic here.
                }
                // Null while the node has given none.
                Uuid id = isKnown ? null : producer.clientInstanceId(Duration.ofSeconds(5));
                if (id != null) {
                    System.out.println(id);
                    isKnown = true;
                }
            }
        } catch (AuthenticationException e) {
            System.out.println(e.getMessage());
        }
    }
}
