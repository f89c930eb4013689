import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.utils.Exit;

/**
 * Kafka's own command line tools, one command after the other in one JVM.
 *
 * <p>A command is a line: the main class and its arguments, with tabs between. The answer is what the tool prints to
 * standard output and standard error, each line after "| ", then "exit" and the exit code.
 */
public final class AdminTools {
    private AdminTools() {}

    /** Thrown where a tool would end the JVM. Some tools catch it as a failure, and print that. */
    private static final class Ended extends Error {}

    /** What the tool first wanted to end with; null before. */
    private static Integer exitCode;

    private static final ByteArrayOutputStream PRINTED = new ByteArrayOutputStream();

    /** False once a tool has ended. */
    private static boolean takes;

    /** One stream for all commands: Scala's console keeps the first that it sees. */
    private static final OutputStream CAPTURE = new OutputStream() {
        @Override
        public void write(int each) {
            if (takes) {
                PRINTED.write(each);
            }
        }
    };

    public static void main(String[] arguments) throws Exception {
        Exit.setExitProcedure((code, message) -> {
            if (exitCode == null) {
                exitCode = code;
                takes = false;
            }
            throw new Ended();
        });
        PrintStream answers = System.out;
        PrintStream captured = new PrintStream(CAPTURE, true, StandardCharsets.UTF_8);
        System.setOut(captured);
        System.setErr(captured);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            PRINTED.reset();
            takes = true;
            int code = run(line.split("\t", -1));
            System.out.flush();
            for (String each : PRINTED.toString(StandardCharsets.UTF_8).split("\n")) {
                if (!each.isEmpty()) {
                    answers.println("| " + each);
                }
            }
            answers.println("exit " + code);
            answers.flush();
        }
    }

    private static int run(String[] words) throws Exception {
        exitCode = null;
        try {
            Class.forName(words[0])
                    .getMethod("main", String[].class)
                    .invoke(null, (Object) Arrays.copyOfRange(words, 1, words.length));
        } catch (InvocationTargetException thrown) {
            if (exitCode == null) {
                thrown.getCause().printStackTrace();
                return 1;
            }
        }
        return exitCode == null ? 0 : exitCode;
    }
}
