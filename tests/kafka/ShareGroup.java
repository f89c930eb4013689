import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Reads a topic in a share group from its beginning, until it has had so many different values; prints "joined" with the
 * first records, and how many it has had at the end.
 *
 * <p>Arguments: bootstrap servers, topic, number of values.
 */
public final class ShareGroup {
    private ShareGroup() {}

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        int wanted = Integer.parseInt(arguments[2]);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("client.id", "share");
        settings.put("group.id", "share-" + topic);
        try (Admin admin = Admin.create(settings)) {
            ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, "share-" + topic);
            ConfigEntry earliest = new ConfigEntry("share.auto.offset.reset", "earliest");
            AlterConfigOp set = new AlterConfigOp(earliest, AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(group, List.of(set))).all().get();
        }
        TreeSet<String> values = new TreeSet<>();
        try (KafkaShareConsumer<String, String> consumer =
                new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            long until = System.nanoTime() + Duration.ofSeconds(120).toNanos();
            while (values.size() < wanted && System.nanoTime() < until) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    if (values.isEmpty()) {
                        System.out.println("joined");
                    }
                    values.add(record.value());
                }
            }
            consumer.commitSync();
        }
        System.out.println("share " + values.size());
    }
}
