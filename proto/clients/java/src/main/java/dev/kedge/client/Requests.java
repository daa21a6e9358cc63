package dev.kedge.client;

import com.google.protobuf.CodedOutputStream;
import dev.kedge.bandit.v1.BestActionRequest;
import dev.kedge.bandit.v1.Context;
import dev.kedge.bandit.v1.DecideRequest;
import dev.kedge.bandit.v1.LogEpisodeRequest;
import dev.kedge.bandit.v1.Trajectory;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.HexFormat;

/** Builds requests. */
final class Requests {
    private Requests() {}

    static DecideRequest decide(Question question, Kedge.Known known, String newId) {
        return DecideRequest.newBuilder()
                .setPolicy(known.name())
                .setRequestId(question.requestId.isEmpty() ? newId : question.requestId)
                .setEpisodeId(question.episodeId)
                .setContext(context(question))
                .addAllAvailableActionKeys(question.available)
                .setPinnedActionKey(question.pinned)
                .setContinuesEpisode(question.continuesEpisode)
                .setInToolLoop(question.inToolLoop)
                .setNoExploration(question.noExploration)
                .setDecisionToken(question.token)
                .setBaselineHash(known.baseline().hash())
                .build();
    }

    static BestActionRequest bestAction(Question question, Kedge.Known known, String newId) {
        return BestActionRequest.newBuilder()
                .setPolicy(known.name())
                .setRequestId(question.requestId.isEmpty() ? newId : question.requestId)
                .setEpisodeId(question.episodeId)
                .setContext(context(question))
                .addAllAvailableActionKeys(question.available)
                .build();
    }

    static LogEpisodeRequest log(EpisodeHandle handle, Trajectory trajectory) {
        var request = LogEpisodeRequest.newBuilder()
                .setPolicy(handle.policy())
                .setEpisodeId(handle.episodeId())
                .setDecisionToken(handle.token())
                .setServedActionKey(handle.servedActionKey())
                .setTrajectory(trajectory);
        return request.setRequestId(hash(request.build())).build();
    }

    private static Context context(Question question) {
        return Context.newBuilder()
                .putAllCategories(question.categories)
                .putAllNumbers(question.numbers)
                .build();
    }

    private static String hash(LogEpisodeRequest request) {
        var bytes = new ByteArrayOutputStream();
        var out = CodedOutputStream.newInstance(bytes);
        out.useDeterministicSerialization();
        try {
            request.writeTo(out);
            out.flush();
        } catch (IOException impossible) {
            throw new UncheckedIOException(impossible);
        }
        return HexFormat.of().formatHex(Arm.sha256().digest(bytes.toByteArray()));
    }
}
