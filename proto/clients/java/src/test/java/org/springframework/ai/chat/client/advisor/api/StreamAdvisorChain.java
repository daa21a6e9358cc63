package org.springframework.ai.chat.client.advisor.api;

import org.springframework.ai.chat.client.ChatClientRequest;
import org.springframework.ai.chat.client.ChatClientResponse;
import reactor.core.publisher.Flux;

/** Signature stub of Spring AI's interface. */
public interface StreamAdvisorChain {
    Flux<ChatClientResponse> nextStream(ChatClientRequest request);
}
