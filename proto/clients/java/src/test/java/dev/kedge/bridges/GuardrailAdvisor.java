package dev.kedge.bridges;

import dev.kedge.platform.GuardrailService;
import org.springframework.ai.chat.client.ChatClientRequest;
import org.springframework.ai.chat.client.ChatClientResponse;
import org.springframework.ai.chat.client.advisor.api.CallAdvisor;
import org.springframework.ai.chat.client.advisor.api.CallAdvisorChain;
import org.springframework.core.Ordered;

/** Checks every answer inside the tool loop, whichever arm gave it, and tells the turn. */
public final class GuardrailAdvisor implements CallAdvisor {
    private final GuardrailService guardrails;

    public GuardrailAdvisor(GuardrailService guardrails) {
        this.guardrails = guardrails;
    }

    @Override
    public ChatClientResponse adviseCall(ChatClientRequest request, CallAdvisorChain chain) {
        ChatClientResponse response = chain.nextCall(request);
        Turn turn = (Turn) request.context().get(Turn.KEY);
        for (GuardrailService.Verdict verdict : guardrails.check(response.chatResponse().text())) {
            turn.add(verdict);
            if (verdict.tripped()) {
                throw new Blocked(verdict.kind().name());
            }
        }
        return response;
    }

    @Override
    public String getName() {
        return "guardrails";
    }

    @Override
    public int getOrder() {
        return Ordered.HIGHEST_PRECEDENCE + 400;
    }
}
