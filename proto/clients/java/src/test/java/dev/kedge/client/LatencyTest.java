package dev.kedge.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.kedge.bandit.v1.Context;
import dev.kedge.bandit.v1.DecideRequest;
import dev.kedge.bandit.v1.DecisionServiceGrpc;
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
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** Measures a remote decision against an echo of the same bytes on the same server and port; figures only, no bar. */
@EnabledIfEnvironmentVariable(named = "KEDGE_TEST_ADDRESS", matches = ".+")
class LatencyTest {
    private static final int WARM_UP = Sidecar.sized(100, 3_000);
    private static final int CALLS = Sidecar.sized(300, 10_000);
    private static final MethodDescriptor<byte[], byte[]> ECHO = echo("Echo");
    private static final MethodDescriptor<byte[], byte[]> SET_ANSWER = echo("SetAnswer");

    @Test
    void aDecisionInTheClearAndUnderMutualTls() throws IOException {
        var credentials = TlsChannelCredentials.newBuilder()
                .trustManager(new File(Sidecar.env("CA")))
                .keyManager(new File(Sidecar.env("CERTIFICATE")), new File(Sidecar.env("CERTIFICATE_KEY")))
                .build();
        try (Kedge clear = Kedge.to(Sidecar.env("ECHO_ADDRESS"))
                        .tenant(Sidecar.TENANT).key(Sidecar.env("KEY")).baseline("support", Sidecar.SMALL)
                        .decideDeadline(Sidecar.GENEROUS).build();
                Kedge sealed = Kedge.to(Sidecar.env("TLS_ADDRESS"))
                        .tenant(Sidecar.TENANT).tls(credentials).baseline("support", Sidecar.SMALL)
                        .decideDeadline(Sidecar.GENEROUS).build()) {
            var doors = List.of(new Door("remote_plaintext", clear), new Door("remote_mtls", sealed));
            for (int i = -WARM_UP; i < CALLS; i++) {
                // In turns, so that a passing disturbance meets all of them.
                for (Door door : doors) {
                    door.ask(i);
                }
            }
            doors.forEach(Door::tell);
        }
    }

    private static MethodDescriptor<byte[], byte[]> echo(String name) {
        return MethodDescriptor.newBuilder(new Bytes(), new Bytes())
                .setType(MethodDescriptor.MethodType.UNARY)
                .setFullMethodName("kedge.bench.Echo/" + name)
                .build();
    }

    /** One way in: the same client decides and has the bytes of a decision echoed. */
    private static final class Door {
        private final String name;
        private final Kedge kedge;
        private final byte[] asked;
        private final byte[] answer;
        private final long[] decide = new long[CALLS];
        private final long[] echo = new long[CALLS];

        Door(String name, Kedge kedge) {
            this.name = name;
            this.kedge = kedge;
            assertTrue(kedge.ready(Sidecar.GENEROUS));
            var request = DecideRequest.newBuilder()
                    .setPolicy("tenants/" + Sidecar.TENANT + "/policies/support")
                    .setRequestId(kedge.newEpisodeId())
                    .setEpisodeId(name)
                    .setContext(Context.newBuilder().putCategories("task", "math"))
                    .setBaselineHash(Sidecar.SMALL.hash())
                    .build();
            var decided = DecisionServiceGrpc.newBlockingStub(kedge.channel()).decide(request);
            asked = request.toByteArray();
            answer = decided.toByteArray();
            call(SET_ANSWER, answer);
            assertArrayEquals(answer, call(ECHO, asked));
        }

        void ask(int number) {
            long before = System.nanoTime();
            call(ECHO, asked);
            long between = System.nanoTime();
            Choice choice = kedge.decide(question(number));
            long after = System.nanoTime();
            assertFalse(choice.isFallback(), choice::failure);
            if (number >= 0) {
                echo[number] = between - before;
                decide[number] = after - between;
            }
        }

        void tell() {
            Arrays.sort(decide);
            Arrays.sort(echo);
            Sidecar.measured(name, Map.of(
                    "calls", CALLS,
                    "asked_bytes", asked.length,
                    "answer_bytes", answer.length,
                    "echo_p50_ms", echo[CALLS / 2] / 1e6,
                    "echo_p99_ms", echo[CALLS * 99 / 100] / 1e6,
                    "decide_p50_ms", decide[CALLS / 2] / 1e6,
                    "decide_p99_ms", decide[CALLS * 99 / 100] / 1e6,
                    "p50_to_echo", (double) decide[CALLS / 2] / echo[CALLS / 2],
                    "p99_to_echo", (double) decide[CALLS * 99 / 100] / echo[CALLS * 99 / 100]));
        }

        private Question question(int number) {
            return Question.of("support", name + number).category("task", "math");
        }

        private byte[] call(MethodDescriptor<byte[], byte[]> method, byte[] body) {
            return ClientCalls.blockingUnaryCall(kedge.channel(), method, CallOptions.DEFAULT, body);
        }
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
