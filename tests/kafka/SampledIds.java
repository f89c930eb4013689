import java.util.regex.Pattern;
import org.apache.kafka.common.Uuid;

/** Ids as Kafka makes them, and whether a pattern matches each as Kafka's brokers match it: one line per id. */
public class SampledIds {
    public static void main(String[] args) {
        Pattern pattern = Pattern.compile(args[0]);
        StringBuilder lines = new StringBuilder();
        for (int i = 0; i < Integer.parseInt(args[1]); i++) {
            String id = Uuid.randomUuid().toString();
            lines.append(pattern.matcher(id).matches() ? '1' : '0').append(' ').append(id).append('\n');
        }
        System.out.print(lines);
    }
}
