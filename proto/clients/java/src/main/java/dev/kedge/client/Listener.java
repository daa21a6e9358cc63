package dev.kedge.client;

import com.google.protobuf.MessageLite;
import dev.kedge.bandit.v1.OutcomeResult;
import java.lang.System.Logger.Level;
import java.time.Duration;

/**
 * Hears what the client does, for the application's metrics. Called from its threads, so it must be quick and
 * thread-safe; what it throws is logged and goes no further.
 */
public interface Listener {
    /** A choice, how long it took, and where the breaker stands after it. */
    default void decided(Choice choice, Duration took, BreakerState breaker) {}

    /** A fact (an Outcome or a LogEpisodeRequest) that the server will not take: REJECTED or CONFLICT, and why. */
    default void refused(MessageLite fact, OutcomeResult result) {}

    /** A fact that a full or closed queue did not take, or that closing left behind. */
    default void dropped(MessageLite fact) {}

    /** A batch of facts failed and will be tried again. */
    default void delayed(CallFailed failure, int waiting, Duration retryIn) {}

    /** A decision made here that the server did not accept, by its name and one word. */
    default void decisionRefused(String decision, String why) {}

    /** A decision made here that was never reported: its episode will not be learned from. */
    default void decisionDropped(String decision) {}

    /** A report of decisions failed and will be tried again. */
    default void decisionsDelayed(CallFailed failure, int waiting, Duration retryIn) {}

    /** The stream of a policy's vectors ended, and begins again soon; the failure is null where the server drained. */
    default void watchEnded(String policy, CallFailed failure) {}

    /** Tells, and keeps what the listener throws away from the path that told it. */
    static void tell(Runnable event) {
        try {
            event.run();
        } catch (RuntimeException thrown) {
            System.getLogger("dev.kedge.client").log(Level.WARNING, "listener.failed", thrown);
        }
    }
}
