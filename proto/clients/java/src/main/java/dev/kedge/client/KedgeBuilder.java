package dev.kedge.client;

import com.google.protobuf.MessageLite;
import com.google.protobuf.Parser;
import io.grpc.ChannelCredentials;
import io.grpc.InsecureChannelCredentials;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;

/** Describes a client: {@code Kedge.to("10.0.0.1:50051").tenant("acme").key(key).baseline("support", ...).build()}. */
public final class KedgeBuilder {
    private static final long SPOOL_BYTES = 256L << 20;

    final Map<String, Baseline> baselines = new HashMap<>();
    private final List<String> addresses;
    private final Set<String> local = new HashSet<>();
    String tenant = "";
    Duration decideDeadline = Duration.ofMillis(250);
    Duration callDeadline = Duration.ofSeconds(5);
    Listener listener = new Listener() {};
    private String key = "";
    private ChannelCredentials credentials = InsecureChannelCredentials.create();
    private int queueCapacity = 10_000;
    private Path spool;

    KedgeBuilder(List<String> addresses) {
        this.addresses = addresses;
    }

    /** The tenant that is spoken for. */
    public KedgeBuilder tenant(String id) {
        tenant = Question.checkedId("tenant", id);
        return this;
    }

    /** The application's key or token, sent as a bearer token; not needed where a certificate says who calls. */
    public KedgeBuilder key(String bearer) {
        key = bearer;
        return this;
    }

    /** From {@code TlsChannelCredentials}; without it everything, the key too, travels in the clear. */
    public KedgeBuilder tls(ChannelCredentials ofTheTransport) {
        credentials = ofTheTransport;
        return this;
    }

    /** The known-good action of a policy that will be asked for. */
    public KedgeBuilder baseline(String policy, Baseline action) {
        if (action.arms().isEmpty()) {
            throw new IllegalArgumentException("the baseline of " + policy + " needs an arm in at least one dimension");
        }
        baselines.put(policy, action);
        return this;
    }

    /** Policies that are decided in this process, from vectors that the server streams. */
    public KedgeBuilder local(String... policies) {
        local.addAll(List.of(policies));
        return this;
    }

    /** After which the baseline is served; 250 ms. */
    public KedgeBuilder decideDeadline(Duration deadline) {
        decideDeadline = positive(deadline);
        return this;
    }

    /** Of one attempt of any other call; 5 s. */
    public KedgeBuilder callDeadline(Duration deadline) {
        callDeadline = positive(deadline);
        return this;
    }

    /** Most outcomes, and most log entries, that wait in memory; 10,000. */
    public KedgeBuilder queueCapacity(int facts) {
        queueCapacity = facts;
        return this;
    }

    /** A folder of this client's own in which both wait instead, so that they outlive the process; 256 MiB each. */
    public KedgeBuilder spool(Path folder) {
        spool = folder;
        return this;
    }

    /** Hears what happens, for metrics. */
    public KedgeBuilder listener(Listener hears) {
        listener = hears;
        return this;
    }

    /** Makes the client, which connects with its first call. */
    public Kedge build() {
        known();
        localNames();
        return new Kedge(this, new GrpcWire(addresses, credentials, key));
    }

    Map<String, Kedge.Known> known() {
        return baselines.entrySet().stream().collect(Collectors.toMap(
                Map.Entry::getKey,
                each -> new Kedge.Known(Question.policyName(tenant, each.getKey()), each.getValue())));
    }

    List<String> localNames() {
        return local.stream().map(policy -> Question.policyName(tenant, policy)).toList();
    }

    <T extends MessageLite> FactStore<T> store(String kind, Parser<T> parser) {
        if (spool == null) {
            return new FactStore.InMemory<>(queueCapacity);
        }
        return new Spool<>(spool.resolve(kind), parser, SPOOL_BYTES);
    }

    private static Duration positive(Duration deadline) {
        if (deadline.isNegative() || deadline.isZero()) {
            throw new IllegalArgumentException("a deadline must be above 0, got " + deadline);
        }
        return deadline;
    }
}
