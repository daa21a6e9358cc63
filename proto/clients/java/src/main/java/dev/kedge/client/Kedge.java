package dev.kedge.client;

import com.google.protobuf.ByteString;
import com.google.protobuf.MessageLite;
import dev.kedge.bandit.v1.ActivateRequest;
import dev.kedge.bandit.v1.CancelRequest;
import dev.kedge.bandit.v1.DecisionServiceGrpc;
import dev.kedge.bandit.v1.EpisodeServiceGrpc;
import dev.kedge.bandit.v1.FeedbackServiceGrpc;
import dev.kedge.bandit.v1.LogEpisodeRequest;
import dev.kedge.bandit.v1.Outcome;
import dev.kedge.bandit.v1.OutcomeResult;
import dev.kedge.bandit.v1.RecordOutcomesRequest;
import dev.kedge.bandit.v1.SettleEpisodeRequest;
import dev.kedge.bandit.v1.StreamEpisodesRequest;
import dev.kedge.bandit.v1.StreamEpisodesResponse;
import dev.kedge.bandit.v1.Trajectory;
import io.grpc.Channel;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;

/**
 * What an application holds: asks which action to serve, and tells what came of it. Thread-safe; one for each tenant.
 *
 * <p>{@code decide} and {@code bestAction} throw nothing that the server or the network did: they answer the baseline of
 * the application's own configuration, marked {@code LOCAL_FALLBACK} and not randomised. Every other call throws {@link
 * CallFailed} after a few attempts; all of them may be repeated, because the same request has one effect.
 */
public class Kedge implements AutoCloseable {
    private static final Duration CLOSING = Duration.ofSeconds(5);

    /** A policy's resource name and its baseline. */
    record Known(String name, Baseline baseline) {}

    private final String tenant;
    private final String parent;
    private final Map<String, Known> baselines;
    private final Wire wire;
    private final Wire.Terms callTerms;
    private final LocalPolicies local;
    private final Asking asking;
    private final Retrier retrier;
    private final ArmCache arms;
    private final DeliveryQueue<Outcome> outcomes;
    private final DeliveryQueue<LogEpisodeRequest> episodes;

    Kedge(KedgeBuilder settings, Wire wire) {
        this.wire = wire;
        tenant = settings.tenant;
        parent = "tenants/" + tenant;
        baselines = settings.known();
        Listener listener = settings.listener;
        callTerms = new Wire.Terms(settings.callDeadline, false);
        retrier = new Retrier(wire, callTerms, new SplittableRandom());
        arms = new ArmCache(parent, settings.baselines.values(), retrier);
        local = new LocalPolicies(settings.localNames(), wire, listener, settings.callDeadline);
        asking = new Asking(wire, listener, local, settings.decideDeadline);
        var deliveries = new Deliveries(parent, wire, settings.callDeadline);
        outcomes = new DeliveryQueue<>(
                "kedge-outcomes", deliveries::outcomes, Deliveries::check,
                settings.store("outcomes", Outcome.parser()), listener);
        episodes = new DeliveryQueue<>(
                "kedge-episodes", deliveries::episodes, Deliveries::check,
                settings.store("episodes", LogEpisodeRequest.parser()), listener);
    }

    /** Begins to describe a client of one or more replicas, which are taken in turn. */
    public static KedgeBuilder to(String... addresses) {
        return new KedgeBuilder(List.of(addresses));
    }

    /** A client without a server, for tests: it serves this action for every policy, and keeps what it is told. */
    public static FixedKedge fixed(Baseline action) {
        return FixedKedge.serving(Map.of(), action);
    }

    /**
     * Chooses what to serve for an episode.
     *
     * @return the choice; on any failure the local baseline, even for an episode that has served another action
     * @throws IllegalArgumentException only where the policy has no baseline here
     */
    public Choice decide(Question question) {
        return asking.decide(question, known(question.policy));
    }

    /** The same without waiting; the future never ends in an exception. */
    public CompletableFuture<Choice> decideAsync(Question question) {
        return asking.decideAsync(question, known(question.policy));
    }

    /** Takes the eligible action of highest mean, not randomised; failures are those of {@code decide}. */
    public Choice bestAction(Question question) {
        return asking.best(question, known(question.policy));
    }

    /** Logs what happened in an episode, once it is committed; answers whether the same entry was there before. */
    public boolean logEpisode(EpisodeHandle handle, Trajectory trajectory) {
        return logEpisode(logRequest(handle, trajectory));
    }

    /** Logs an entry that {@link #logRequest} made and its caller added to. */
    public boolean logEpisode(LogEpisodeRequest entry) {
        return retrier.persist(EpisodeServiceGrpc.getLogEpisodeMethod(), entry).getDuplicate();
    }

    /** Makes a log entry; its request id is a hash of its content, so logging the same again is one entry. */
    public static LogEpisodeRequest logRequest(EpisodeHandle handle, Trajectory trajectory) {
        return Requests.log(handle, trajectory);
    }

    /** Logs many episodes over one stream; each answer acknowledges one commit by its request id. */
    public StreamObserver<StreamEpisodesRequest> streamEpisodes(StreamObserver<StreamEpisodesResponse> acknowledged) {
        return wire.converse(EpisodeServiceGrpc.getStreamEpisodesMethod(), acknowledged);
    }

    /** Records 1 to 500 outcomes now; one result each, in order, once they are committed. */
    public List<OutcomeResult> recordOutcomes(List<Outcome> some) {
        if (some.isEmpty() || some.size() > DeliveryQueue.MAX_BATCH) {
            throw new IllegalArgumentException("a batch has 1 to " + DeliveryQueue.MAX_BATCH + " outcomes");
        }
        var request = RecordOutcomesRequest.newBuilder().setParent(parent).addAllOutcomes(some).build();
        return retrier.persist(FeedbackServiceGrpc.getRecordOutcomesMethod(), request).getResultsList();
    }

    /** Computes the episode's reward now, without waiting for the windows. */
    public void settle(EpisodeHandle handle) {
        var request = SettleEpisodeRequest.newBuilder()
                .setPolicy(handle.policy())
                .setEpisodeId(handle.episodeId())
                .setRequestId(newId());
        retrier.persist(EpisodeServiceGrpc.getSettleEpisodeMethod(), request.build());
    }

    /** Says which action was served; empty: the decided one. Does nothing after a fallback, which left no decision. */
    public void activate(EpisodeHandle handle, String servedActionKey) {
        if (handle.decision().isEmpty()) {
            return;
        }
        local.flush(handle, callTerms.deadline());
        var request = ActivateRequest.newBuilder()
                .setDecision(handle.decision())
                .setServedActionKey(servedActionKey.isEmpty() ? handle.servedActionKey() : servedActionKey)
                .setDecisionToken(handle.token())
                .setRequestId(newId());
        retrier.persist(DecisionServiceGrpc.getActivateMethod(), request.build());
    }

    /** Says that nothing was served, so that the episode is not scored; does nothing after a fallback. */
    public void cancel(EpisodeHandle handle) {
        if (handle.decision().isEmpty()) {
            return;
        }
        local.flush(handle, callTerms.deadline());
        var request = CancelRequest.newBuilder()
                .setDecision(handle.decision())
                .setDecisionToken(handle.token())
                .setRequestId(newId());
        retrier.persist(DecisionServiceGrpc.getCancelMethod(), request.build());
    }

    /** Reads an arm's content by its full hash, once; afterwards, and for the baselines' arms, from memory. */
    public Arm arm(String contentHash) {
        return arms.get(contentHash);
    }

    /** Makes outcomes about an episode, e.g. {@code kedge.outcomes().put(kedge.about(choice.handle()).thumb(+1))}. */
    public OutcomeMaker about(EpisodeHandle handle) {
        return new OutcomeMaker(handle, Instant::now, Kedge::newId);
    }

    /** Speaks about an episode whose choice is no longer at hand; the token is empty where it is not known. */
    public EpisodeHandle episode(String policy, String episodeId, ByteString token) {
        String name = Question.policyName(tenant, policy);
        return new EpisodeHandle(name, Question.checkedId("episodeId", episodeId), token, "", "");
    }

    /** The queue that delivers outcomes in the background. */
    public DeliveryQueue<Outcome> outcomes() {
        return outcomes;
    }

    /** The queue that delivers log entries in the background, so that no turn waits for one: see logRequest. */
    public DeliveryQueue<LogEpisodeRequest> episodes() {
        return episodes;
    }

    /** Makes an episode's id, best before its context is known. */
    public String newEpisodeId() {
        return newId();
    }

    /** The tenant that this client speaks for. */
    public String tenant() {
        return tenant;
    }

    /** A channel for the generated stubs of everything that has no word here; its calls carry this client's key. */
    public Channel channel() {
        return wire.channel("");
    }

    /** The same with another key or token: a person's, who approves. */
    public Channel channel(String keyOrToken) {
        return wire.channel(keyOrToken);
    }

    /** Connects ahead of the first decision, whose short deadline would otherwise include it, and waits for vectors. */
    public boolean ready(Duration timeout) {
        long deadline = System.nanoTime() + timeout.toNanos();
        return wire.ready(timeout) && local.ready(until(deadline));
    }

    /** Decisions made in this process that are not reported yet; at most 20,000, what comes on top is dropped. */
    public int unreported() {
        return local.waiting();
    }

    /** Where the breaker stands. */
    public BreakerState breaker() {
        return asking.state();
    }

    /** Delivers what waits for up to 5 s, then disconnects. */
    @Override
    public void close() {
        close(CLOSING);
    }

    /**
     * Delivers what waits for so long, then disconnects; answers the outcomes and log entries that were neither
     * delivered nor kept in a spool.
     */
    public List<MessageLite> close(Duration timeout) {
        long deadline = System.nanoTime() + timeout.toNanos();
        try {
            local.close(timeout);
            var left = new ArrayList<MessageLite>(outcomes.close(until(deadline)));
            left.addAll(episodes.close(until(deadline)));
            return left;
        } finally {
            wire.close();
        }
    }

    /** Looks a policy up; the fake of tests knows every one. */
    Known known(String policy) {
        Known known = baselines.get(policy);
        if (known == null) {
            throw new IllegalArgumentException("policy " + policy + " has no baseline here; add it to the builder");
        }
        return known;
    }

    private static Duration until(long deadline) {
        return Duration.ofNanos(Math.max(0, deadline - System.nanoTime()));
    }

    /** Makes an id that nobody can guess. */
    static String newId() {
        return UUID.randomUUID().toString().replace("-", "");
    }
}
