import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;

/**
 * Kafka's own StandardAuthorizer behind lines of words with tabs between; each has one line as its answer.
 *
 * <p>"new SUPER_USERS ALLOW_EVERYONE": begins anew. "acl TYPE NAME PATTERN PRINCIPAL HOST OPERATION PERMISSION": adds an
 * ACL, all by their codes. "ask PRINCIPAL HOST OPERATION TYPE NAME": the verdict. "find" and seven words of a filter, "-"
 * for null: the number of ACLs that match.
 */
public final class AclOracle {
    private AclOracle() {}

    private record Context(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        @Override
        public String listenerName() {
            return "PLAINTEXT";
        }

        @Override
        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        @Override
        public int requestType() {
            return 0;
        }

        @Override
        public int requestVersion() {
            return 0;
        }

        @Override
        public String clientId() {
            return "";
        }

        @Override
        public int correlationId() {
            return 0;
        }
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err); // a log line is no answer
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StandardAuthorizer authorizer = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            switch (words[0]) {
                case "new" -> {
                    authorizer = new StandardAuthorizer();
                    Map<String, Object> configs = new HashMap<>();
                    configs.put("super.users", words[1]);
                    configs.put("allow.everyone.if.no.acl.found", words[2]);
                    configs.put("node.id", "1");
                    authorizer.configure(configs);
                    Plugin.wrapInstance(authorizer, new Metrics(), "authorizer.class.name");
                    authorizer.completeInitialLoad();
                    out.println("ok");
                }
                case "acl" -> {
                    authorizer.addAcl(
                            Uuid.randomUuid(),
                            new StandardAcl(
                                    ResourceType.fromCode(Byte.parseByte(words[1])),
                                    words[2],
                                    PatternType.fromCode(Byte.parseByte(words[3])),
                                    words[4],
                                    words[5],
                                    AclOperation.fromCode(Byte.parseByte(words[6])),
                                    AclPermissionType.fromCode(Byte.parseByte(words[7]))));
                    out.println("ok");
                }
                case "ask" -> {
                    Context context = new Context(
                            SecurityUtils.parseKafkaPrincipal(words[1]), InetAddress.getByName(words[2]));
                    Action action = new Action(
                            AclOperation.fromCode(Byte.parseByte(words[3])),
                            new ResourcePattern(
                                    ResourceType.fromCode(Byte.parseByte(words[4])), words[5], PatternType.LITERAL),
                            1,
                            false,
                            false);
                    out.println(authorizer.authorize(context, List.of(action)).get(0));
                }
                default -> {
                    AclBindingFilter filter = new AclBindingFilter(
                            new ResourcePatternFilter(
                                    ResourceType.fromCode(Byte.parseByte(words[1])),
                                    text(words[2]),
                                    PatternType.fromCode(Byte.parseByte(words[3]))),
                            new AccessControlEntryFilter(
                                    text(words[4]),
                                    text(words[5]),
                                    AclOperation.fromCode(Byte.parseByte(words[6])),
                                    AclPermissionType.fromCode(Byte.parseByte(words[7]))));
                    int count = 0;
                    for (AclBinding ignored : authorizer.acls(filter)) {
                        count++;
                    }
                    out.println(count);
                }
            }
            if (!in.ready()) {
                out.flush(); // what was asked so far is answered
            }
        }
        out.flush();
    }

    private static String text(String word) {
        return word.equals("-") ? null : word;
    }
}
