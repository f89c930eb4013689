import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Consumers that take their time between two polls, beside one that polls at once, until a line comes in.
 *
 * <p>Arguments: bootstrap servers, topic, milliseconds. "polling" polls without a pause; "sleeping" and
 * "sleeping-async" (group.protocol=consumer, whose network thread reads responses at any time) sleep for so long after
 * each poll. "producer" keeps the topic filled, so that no broker waits for records before it answers a fetch.
 */
public final class SleepingConsumers {
    private static final AtomicBoolean ENDED = new AtomicBoolean();

    private SleepingConsumers() {}

    public static void main(String[] arguments) throws Exception {
        long pauseMs = Long.parseLong(arguments[2]);
        List<Thread> threads = new ArrayList<>();
        threads.add(new Thread(() -> produce(arguments[0], arguments[1])));
        threads.add(new Thread(() -> consume(arguments[0], arguments[1], "polling", "classic", 0)));
        threads.add(new Thread(() -> consume(arguments[0], arguments[1], "sleeping", "classic", pauseMs)));
        threads.add(new Thread(() -> consume(arguments[0], arguments[1], "sleeping-async", "consumer", pauseMs)));
        threads.forEach(Thread::start);
        System.in.read();
        ENDED.set(true);
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println("closed");
    }

    private static void produce(String bootstrap, String topic) {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(
                named(bootstrap, "producer"), new StringSerializer(), new StringSerializer())) {
            while (!ENDED.get()) {
                producer.send(new ProducerRecord<>(topic, "value"));
                pause(5);
            }
        }
    }

    private static void consume(String bootstrap, String topic, String name, String protocol, long pauseMs) {
        Properties properties = named(bootstrap, name);
        properties.put("group.id", name + "-group");
        properties.put("group.protocol", protocol);
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (!ENDED.get()) {
                consumer.poll(Duration.ofMillis(100));
                pause(pauseMs);
            }
        }
    }

    private static void pause(long pauseMs) {
        try {
            Thread.sleep(pauseMs);
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    private static Properties named(String bootstrap, String clientId) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("client.id", clientId);
        return properties;
    }
}
