import java.io.FileInputStream;
import java.nio.charset.StandardCharsets;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;

/** Prints the subject of each certificate as Kafka takes it: X500Principal.getName(), a line each, UTF-8. */
public final class Subjects {
    private Subjects() {}

    public static void main(String[] files) throws Exception {
        CertificateFactory factory = CertificateFactory.getInstance("X.509");
        for (String file : files) {
            try (FileInputStream in = new FileInputStream(file)) {
                X509Certificate certificate = (X509Certificate) factory.generateCertificate(in);
                System.out.write(certificate.getSubjectX500Principal().getName().getBytes(StandardCharsets.UTF_8));
                System.out.write('\n');
            }
        }
        System.out.flush();
    }
}
