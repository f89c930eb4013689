import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A producer, a consumer and an admin client of one kafka-clients version at a node that has telemetry and no topic.
 *
 * <p>Arguments: bootstrap servers, prefix of the client ids, request.timeout.ms. Prints "producer ID" and so on with
 * the client instance ids as the clients tell them, and "requests N" whenever the producer has sent more by its own
 * count; polls until its standard input ends or a line comes, closes all, and prints "closed". Each client has threads
 * of its own, by whose names its lines in the log can be told: the consumer is polled by the thread "consumer". A
 * producer needs no record to push, and a consumer only to be polled.
 */
public final class TelemetryClients {
    private static volatile boolean isRunning = true;

    private TelemetryClients() {}

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> common = Map.of(
                "bootstrap.servers", arguments[0],
                "enable.metrics.push", "true", // an admin client does not by itself
                "request.timeout.ms", arguments[2],
                "default.api.timeout.ms", "60000",
                "reconnect.backoff.max.ms", "200");
        KafkaProducer<String, String> producer = new KafkaProducer<>(
                with(common, arguments[1] + "-producer"), new StringSerializer(), new StringSerializer());
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(
                with(common, arguments[1] + "-consumer"), new StringDeserializer(), new StringDeserializer());
        Admin admin = Admin.create(with(common, arguments[1] + "-admin"));
        Thread polls = new Thread(() -> poll(consumer), "consumer");
        polls.start();
        Thread counts = new Thread(() -> count(producer), "counts");
        counts.start();
        say("producer", producer.clientInstanceId(Duration.ofSeconds(60)));
        say("admin", admin.clientInstanceId(Duration.ofSeconds(60)));
        System.in.read();
        isRunning = false;
        polls.join(TimeUnit.SECONDS.toMillis(60));
        counts.join(TimeUnit.SECONDS.toMillis(60));
        producer.close(Duration.ofSeconds(10));
        admin.close(Duration.ofSeconds(10));
        System.out.println("closed");
    }

    private static void poll(KafkaConsumer<String, String> consumer) {
        consumer.assign(List.of(new TopicPartition("no-such-topic", 0)));
        boolean isKnown = false;
        while (isRunning) {
            consumer.poll(Duration.ofMillis(100));
            // A consumer gets its id while it is polled, and answers null until then.
            Uuid id = isKnown ? null : consumer.clientInstanceId(Duration.ofMillis(1));
            if (id != null) {
                say("consumer", id);
                isKnown = true;
            }
        }
        consumer.close(Duration.ofSeconds(10));
    }

    private static void count(KafkaProducer<String, String> producer) {
        Metric requests = producer.metrics().values().stream()
                .filter(metric -> metric.metricName().name().equals("request-total")
                        && metric.metricName().group().equals("producer-metrics"))
                .findFirst()
                .orElseThrow();
        long said = 0;
        while (isRunning) {
            long sent = ((Double) requests.metricValue()).longValue();
            if (sent > said) {
                System.out.println("requests " + sent);
                said = sent;
            }
            try {
                Thread.sleep(50);
            } catch (InterruptedException interrupted) {
                return;
            }
        }
    }

    private static void say(String role, Uuid id) {
        System.out.println(role + " " + id);
    }

    private static Properties with(Map<String, Object> common, String clientId) {
        Properties properties = new Properties();
        properties.putAll(common);
        properties.put("client.id", clientId);
        return properties;
    }
}
