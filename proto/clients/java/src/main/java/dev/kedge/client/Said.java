package dev.kedge.client;

import dev.kedge.bandit.v1.ActivateRequest;
import dev.kedge.bandit.v1.CancelRequest;
import dev.kedge.bandit.v1.DecideRequest;
import dev.kedge.bandit.v1.LogEpisodeRequest;
import dev.kedge.bandit.v1.Outcome;
import dev.kedge.bandit.v1.SettleEpisodeRequest;
import java.util.List;

/** What a {@link FixedKedge} was told, and its switch to take the server down. */
public interface Said {
    /** Takes the server down: every call fails so; null brings it back. */
    void fail(CallFailed with);

    /** Every question, in order. */
    List<DecideRequest> decisions();

    /** Each logged episode once. */
    List<LogEpisodeRequest> episodes();

    /** Each recorded outcome once. */
    List<Outcome> outcomes();

    /** Every word that an episode settles now. */
    List<SettleEpisodeRequest> settled();

    /** Every word that an action was served. */
    List<ActivateRequest> activated();

    /** Every word that nothing was served. */
    List<CancelRequest> cancelled();
}
