package dev.kedge.bridges;

import java.util.Comparator;
import java.util.List;
import java.util.function.Function;
import org.springframework.ai.chat.client.ChatClientRequest;
import org.springframework.ai.chat.client.ChatClientResponse;
import org.springframework.ai.chat.client.advisor.api.CallAdvisor;
import org.springframework.ai.chat.client.advisor.api.CallAdvisorChain;
import org.springframework.ai.chat.model.ChatResponse;
import org.springframework.core.Ordered;

/** Stands in for Spring AI's chain: advisors by their order, then the model. */
final class Chain implements CallAdvisorChain {
    private final List<CallAdvisor> advisors;
    private final Function<ChatClientRequest, String> model;

    Chain(List<CallAdvisor> advisors, Function<ChatClientRequest, String> model) {
        this.advisors = advisors.stream().sorted(Comparator.comparing(Ordered::getOrder)).toList();
        this.model = model;
    }

    @Override
    public ChatClientResponse nextCall(ChatClientRequest request) {
        if (advisors.isEmpty()) {
            return new ChatClientResponse(new ChatResponse(model.apply(request)), request.context());
        }
        return advisors.get(0).adviseCall(request, new Chain(advisors.subList(1, advisors.size()), model));
    }

    /** Stands in for Spring AI's tool loop, at its order: calls the rest of the chain so many times. */
    record ToolLoop(int rounds) implements CallAdvisor {
        @Override
        public ChatClientResponse adviseCall(ChatClientRequest request, CallAdvisorChain chain) {
            ChatClientResponse response = null;
            for (int round = 0; round < rounds; round++) {
                response = chain.nextCall(request);
            }
            return response;
        }

        @Override
        public String getName() {
            return "tool loop";
        }

        @Override
        public int getOrder() {
            return Ordered.HIGHEST_PRECEDENCE + 300;
        }
    }
}
