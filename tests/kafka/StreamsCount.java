import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Counts the values of a topic that are alike, exactly once, and writes every count to another topic. Between the two
 * are topics of its own: one that brings equal values together, and the changelog of the counts. Ends when its input
 * does.
 *
 * <p>Arguments: bootstrap servers, the topic, the topic of counts, the directory for state.
 */
public final class StreamsCount {
    private StreamsCount() {}

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("application.id", "count-" + arguments[1]);
        settings.put("state.dir", arguments[3]);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("dsl.store.suppliers.class", BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers.class);
        settings.put("default.key.serde", Serdes.StringSerde.class);
        settings.put("default.value.serde", Serdes.StringSerde.class);
        settings.put("statestore.cache.max.bytes", 0); // so that every count is written
        settings.put("replication.factor", 1);
        settings.put("auto.offset.reset", "earliest");
        settings.put("session.timeout.ms", 6000); // how long a member that was killed holds its partitions
        settings.put("heartbeat.interval.ms", 1000);
        settings.put("producer.transaction.timeout.ms", 5000);

        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(arguments[1])
                .groupBy((key, value) -> value)
                .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts")
                        .withKeySerde(Serdes.String())
                        .withValueSerde(Serdes.Long()))
                .toStream()
                .mapValues(String::valueOf)
                .to(arguments[2], Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.start();
        while (System.in.read() >= 0) {
            continue;
        }
        streams.close();
    }
}
