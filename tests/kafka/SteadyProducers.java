import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.Random;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Producers that are given bytes at a constant rate for some seconds, whatever a broker does to them. One whose buffer
 * is full waits, and is not given what it had no room for.
 *
 * <p>Arguments: bootstrap servers, topic, seconds, buffer.memory, and for each producer its client id and bytes per
 * second. Prints for each: client id, milliseconds, the mean throttle time of all responses in ms, how many requests it
 * sent, and for how many milliseconds its thread went on later than it wanted to, for want of processor time or of room
 * in its buffer.
 */
public final class SteadyProducers {
    private static final int RECORD_BYTES = 1000;
    private static final int PAUSE_MS = 10;

    private SteadyProducers() {}

    public static void main(String[] arguments) throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (int at = 4; at < arguments.length; at += 2) {
            String clientId = arguments[at];
            long bytesPerSecond = Long.parseLong(arguments[at + 1]);
            long seconds = Long.parseLong(arguments[2]);
            Thread thread =
                    new Thread(() -> run(arguments[0], arguments[1], seconds, arguments[3], clientId, bytesPerSecond));
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private static void run(
            String bootstrap, String topic, long seconds, String bufferMemory, String clientId, long bytesPerSecond) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("client.id", clientId);
        properties.put("buffer.memory", bufferMemory);
        // One window for all of its life, so that the average is that of every response.
        properties.put("metrics.sample.window.ms", "3600000");
        byte[] value = new byte[RECORD_BYTES];
        new Random(1).nextBytes(value);
        KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
        producer.partitionsFor(topic);
        long began = System.nanoTime();
        long sent = 0;
        long lateNanos = 0;
        while (System.nanoTime() - began < seconds * 1_000_000_000L) {
            long round = System.nanoTime();
            long due = (System.nanoTime() - began) / 1_000 * bytesPerSecond / 1_000_000;
            sent = Math.max(sent, due - bytesPerSecond / 10); // what a busy machine held up is not made up for
            for (; sent < due; sent += RECORD_BYTES) {
                producer.send(new ProducerRecord<>(topic, value));
            }
            pause();
            lateNanos += Math.max(0, System.nanoTime() - round - PAUSE_MS * 1_000_000L);
        }
        double milliseconds = (System.nanoTime() - began) / 1e6;
        System.out.println(clientId + " " + milliseconds + " " + metric(producer, "produce-throttle-time-avg") + " "
                + metric(producer, "request-total") + " " + lateNanos / 1e6);
        producer.close(Duration.ZERO);
    }

    private static void pause() {
        try {
            Thread.sleep(PAUSE_MS);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    private static double metric(KafkaProducer<byte[], byte[]> producer, String name) {
        return producer.metrics().entrySet().stream()
                .filter(each -> each.getKey().group().equals("producer-metrics")
                        && each.getKey().name().equals(name))
                .mapToDouble(each -> ((Number) each.getValue().metricValue()).doubleValue())
                .findFirst()
                .orElseThrow();
    }
}
