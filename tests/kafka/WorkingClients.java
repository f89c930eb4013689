import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Producers and consumers at work, as lines on standard input ask, until it ends; then all are closed.
 *
 * <p>tests/support/clients/rdkafka_workers.py takes the same lines:
 *
 * <ul>
 *   <li>"producer NAME TOPIC key=value ..." and "consumer NAME TOPIC key=value ..." start a client with these settings;
 *   <li>"send NAME COUNT BYTES" has a producer send so many records of this size per second from now on;
 *   <li>"work NAME MS" has a consumer's application take so long for what a poll returned, before it polls again;
 *   <li>"pause NAME" has a consumer pause the partitions that it is assigned from now on.
 * </ul>
 */
public final class WorkingClients {
    private record Pace(int perSecond, int bytes) {}

    private static final Map<String, Pace> PACES = new ConcurrentHashMap<>();
    private static final Map<String, Integer> WORK_MS = new ConcurrentHashMap<>();
    private static final Set<String> PAUSED = ConcurrentHashMap.newKeySet();
    private static volatile boolean isRunning = true;

    private WorkingClients() {}

    public static void main(String[] arguments) throws Exception {
        List<Thread> threads = new java.util.ArrayList<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "send" -> PACES.put(words[1], new Pace(Integer.parseInt(words[2]), Integer.parseInt(words[3])));
                case "work" -> WORK_MS.put(words[1], Integer.parseInt(words[2]));
                case "pause" -> PAUSED.add(words[1]);
                default -> threads.add(started(words));
            }
        }
        isRunning = false;
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println("closed");
    }

    private static Thread started(String[] words) {
        Properties settings = new Properties();
        for (String word : Arrays.copyOfRange(words, 3, words.length)) {
            String[] pair = word.split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        boolean isProducer = words[0].equals("producer");
        Thread thread = new Thread(
                () -> {
                    if (isProducer) {
                        produce(words[1], words[2], settings);
                    } else {
                        consume(words[1], words[2], settings);
                    }
                },
                words[1]);
        thread.start();
        return thread;
    }

    private static void produce(String name, String topic, Properties settings) {
        try (KafkaProducer<String, byte[]> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new ByteArraySerializer())) {
            long next = System.nanoTime();
            for (long count = 0; isRunning; count++) {
                Pace pace = PACES.getOrDefault(name, new Pace(1, 100));
                producer.send(new ProducerRecord<>(topic, Long.toString(count), new byte[pace.bytes()]));
                next = Math.max(next + 1_000_000_000L / pace.perSecond(), System.nanoTime() - 1_000_000_000L);
                pause(Math.max(0, (next - System.nanoTime()) / 1_000_000));
            }
        }
    }

    private static void consume(String name, String topic, Properties settings) {
        try (KafkaConsumer<String, byte[]> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (isRunning) {
                if (PAUSED.contains(name)) {
                    consumer.pause(consumer.assignment());
                }
                ConsumerRecords<String, byte[]> records = consumer.poll(Duration.ofMillis(100));
                if (!records.isEmpty()) {
                    pause(WORK_MS.getOrDefault(name, 0));
                }
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
}
