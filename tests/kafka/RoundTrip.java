import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Produces records to one partition, idempotently and in transactions (each second one is aborted), and reads them back
 * in a group of each protocol; prints what each consumer got.
 *
 * <p>Arguments: bootstrap servers, topic, number of records, group protocols. System properties client.KEY are settings
 * of every client.
 */
public final class RoundTrip {
    private RoundTrip() {}

    private static String bootstrap;
    private static String topic;
    private static int records;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        topic = arguments[1];
        records = Integer.parseInt(arguments[2]);
        produce();
        transact();
        for (int number = 3; number < arguments.length; number++) {
            System.out.println(arguments[number] + " " + consume(arguments[number]));
        }
    }

    private static void produce() throws Exception {
        Properties settings = settings("plain");
        settings.put("acks", "all");
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < records; number++) {
                producer.send(new ProducerRecord<>(topic, 0, null, "plain-" + number));
            }
            producer.flush();
        }
    }

    private static void transact() throws Exception {
        Properties settings = settings("transactional");
        settings.put("transactional.id", "round-trip-" + topic);
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            for (int transaction = 0; transaction < 4; transaction++) {
                producer.beginTransaction();
                for (int number = 0; number < records / 4; number++) {
                    producer.send(new ProducerRecord<>(topic, 0, null, "transaction-" + transaction + "-" + number));
                }
                if (transaction % 2 == 0) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
        }
    }

    private static String consume(String protocol) throws Exception {
        List<String> expected = new ArrayList<>();
        for (int number = 0; number < records; number++) {
            expected.add("plain-" + number);
        }
        for (int transaction = 0; transaction < 4; transaction += 2) {
            for (int number = 0; number < records / 4; number++) {
                expected.add("transaction-" + transaction + "-" + number);
            }
        }
        Properties settings = settings("consumer-" + protocol);
        settings.put("group.id", topic + "-" + protocol);
        settings.put("auto.offset.reset", "earliest");
        settings.put("isolation.level", "read_committed");
        if (!protocol.equals("classic")) {
            settings.put("group.protocol", protocol);
        }
        List<String> got = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            long until = System.nanoTime() + Duration.ofSeconds(90).toNanos();
            while (got.size() < expected.size() && System.nanoTime() < until) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    got.add(record.value());
                }
            }
            consumer.commitSync();
        }
        return got.equals(expected) ? "all " + got.size() : "got " + got.size() + " of " + expected.size();
    }

    private static Properties settings(String clientId) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("client.id", clientId);
        for (String name : System.getProperties().stringPropertyNames()) {
            if (name.startsWith("client.")) {
                settings.put(name.substring("client.".length()), System.getProperty(name));
            }
        }
        return settings;
    }
}
