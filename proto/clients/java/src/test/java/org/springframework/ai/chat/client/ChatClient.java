package org.springframework.ai.chat.client;

import org.springframework.ai.chat.client.advisor.api.Advisor;

/** Signature stub of Spring AI's interface. */
public interface ChatClient {
    /** Signature stub. */
    interface Builder {
        Builder defaultAdvisors(Advisor... advisors);

        ChatClient build();
    }
}
