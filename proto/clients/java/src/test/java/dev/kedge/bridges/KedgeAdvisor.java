package dev.kedge.bridges;

import dev.kedge.client.Choice;
import dev.kedge.client.Kedge;
import dev.kedge.client.Question;
import java.util.function.BiFunction;
import java.util.function.Function;
import org.springframework.ai.chat.client.ChatClientRequest;
import org.springframework.ai.chat.client.ChatClientResponse;
import org.springframework.ai.chat.client.advisor.api.CallAdvisor;
import org.springframework.ai.chat.client.advisor.api.CallAdvisorChain;
import org.springframework.ai.chat.client.advisor.api.StreamAdvisor;
import org.springframework.ai.chat.client.advisor.api.StreamAdvisorChain;
import org.springframework.core.Ordered;
import reactor.core.publisher.Flux;
import reactor.core.publisher.SignalType;

/** Decides once per turn, before the tool loop, and logs the turn when it has ended. */
public final class KedgeAdvisor implements CallAdvisor, StreamAdvisor {
    /** Below the tool loop's HIGHEST_PRECEDENCE + 300: one decision covers all its rounds. */
    public static final int ORDER = Ordered.HIGHEST_PRECEDENCE + 250;

    private final Kedge kedge;
    private final Function<ChatClientRequest, Question> ask;
    private final BiFunction<ChatClientRequest, Choice, ChatClientRequest> serve;

    /**
     * Bridges a ChatClient to Kedge.
     *
     * @param ask makes the question out of what is known before the choice
     * @param serve puts model, depth and prompt of the choice into the request
     */
    public KedgeAdvisor(
            Kedge kedge,
            Function<ChatClientRequest, Question> ask,
            BiFunction<ChatClientRequest, Choice, ChatClientRequest> serve) {
        this.kedge = kedge;
        this.ask = ask;
        this.serve = serve;
    }

    @Override
    public ChatClientResponse adviseCall(ChatClientRequest request, CallAdvisorChain chain) {
        Turn turn = new Turn(kedge.decide(ask.apply(request)));
        boolean wasCutOff = true;
        try {
            ChatClientResponse response = chain.nextCall(served(request, turn));
            wasCutOff = false;
            return response;
        } catch (Blocked byAGuardrail) {
            wasCutOff = false;
            throw byAGuardrail;
        } finally {
            log(turn, wasCutOff);
        }
    }

    @Override
    public Flux<ChatClientResponse> adviseStream(ChatClientRequest request, StreamAdvisorChain chain) {
        return Flux.defer(() -> {
            Turn turn = new Turn(kedge.decide(ask.apply(request)));
            return chain.nextStream(served(request, turn))
                    .doFinally(signal -> log(turn, signal != SignalType.ON_COMPLETE));
        });
    }

    @Override
    public String getName() {
        return "kedge";
    }

    @Override
    public int getOrder() {
        return ORDER;
    }

    private ChatClientRequest served(ChatClientRequest request, Turn turn) {
        return serve.apply(request, turn.choice()).mutate().context(Turn.KEY, turn).build();
    }

    /** Never waits: the entry goes through a queue, so an outage costs the user nothing. */
    private void log(Turn turn, boolean wasCutOff) {
        kedge.episodes().put(Kedge.logRequest(turn.choice().handle(), turn.ended(wasCutOff)));
    }
}
