package dev.kedge.client;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.CallOptions;
import io.grpc.MethodDescriptor;
import io.grpc.TlsChannelCredentials;
import io.grpc.stub.ClientCalls;
import java.io.ByteArrayInputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.Arrays;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** Measures a remote decision against the cheapest call of the same server, its health; figures only, no bar. */
@EnabledIfEnvironmentVariable(named = "KEDGE_TEST_ADDRESS", matches = ".+")
class LatencyTest {
    private static final int WARM_UP = Sidecar.sized(100, 3_000);
    private static final int CALLS = Sidecar.sized(300, 5_000);
    private static final MethodDescriptor<byte[], byte[]> HEALTH = MethodDescriptor.newBuilder(new Bytes(), new Bytes())
            .setType(MethodDescriptor.MethodType.UNARY)
            .setFullMethodName("grpc.health.v1.Health/Check")
            .build();

    @Test
    void aDecisionInTheClear() {
        try (Kedge kedge = Sidecar.client("support").decideDeadline(Sidecar.GENEROUS).build()) {
            measure("remote_plaintext", kedge);
        }
    }

    @Test
    void aDecisionUnderMutualTls() throws IOException {
        var credentials = TlsChannelCredentials.newBuilder()
                .trustManager(new File(Sidecar.env("CA")))
                .keyManager(new File(Sidecar.env("CERTIFICATE")), new File(Sidecar.env("CERTIFICATE_KEY")))
                .build();
        try (Kedge kedge = Kedge.to(Sidecar.env("TLS_ADDRESS"))
                .tenant(Sidecar.TENANT).tls(credentials).baseline("support", Sidecar.SMALL)
                .decideDeadline(Sidecar.GENEROUS).build()) {
            measure("remote_mtls", kedge);
        }
    }

    private static void measure(String name, Kedge kedge) {
        assertTrue(kedge.ready(Sidecar.GENEROUS));
        long[] decide = new long[CALLS];
        long[] health = new long[CALLS];
        for (int i = -WARM_UP; i < CALLS; i++) {
            // In turns, so that a passing disturbance meets both.
            long before = System.nanoTime();
            ClientCalls.blockingUnaryCall(kedge.channel(), HEALTH, CallOptions.DEFAULT, new byte[0]);
            long between = System.nanoTime();
            Choice choice = kedge.decide(Question.of("support", name + i).category("task", "math"));
            long after = System.nanoTime();
            assertFalse(choice.isFallback(), choice::failure);
            if (i >= 0) {
                health[i] = between - before;
                decide[i] = after - between;
            }
        }
        Arrays.sort(decide);
        Arrays.sort(health);
        Sidecar.measured(name, Map.of(
                "calls", CALLS,
                "decide_p50_ms", decide[CALLS / 2] / 1e6,
                "decide_p99_ms", decide[CALLS * 99 / 100] / 1e6,
                "p50_to_health", (double) decide[CALLS / 2] / health[CALLS / 2],
                "p99_to_health", (double) decide[CALLS * 99 / 100] / health[CALLS * 99 / 100]));
    }

    /** Carries bytes as they are. */
    private static final class Bytes implements MethodDescriptor.Marshaller<byte[]> {
        @Override
        public InputStream stream(byte[] value) {
            return new ByteArrayInputStream(value);
        }

        @Override
        public byte[] parse(InputStream stream) {
            try {
                return stream.readAllBytes();
            } catch (IOException broken) {
                throw new UncheckedIOException(broken);
            }
        }
    }
}
