package org.springframework.ai.chat.client;

import java.util.HashMap;
import java.util.Map;
import org.springframework.ai.chat.prompt.Prompt;

/** Signature stub of Spring AI's record, with as much behaviour as the tests of the bridges need. */
public record ChatClientRequest(Prompt prompt, Map<String, Object> context) {

    public Builder mutate() {
        return new Builder(prompt, new HashMap<>(context));
    }

    /** Signature stub. */
    public static final class Builder {
        private final Map<String, Object> context;
        private Prompt prompt;

        private Builder(Prompt prompt, Map<String, Object> context) {
            this.prompt = prompt;
            this.context = context;
        }

        public Builder prompt(Prompt changed) {
            prompt = changed;
            return this;
        }

        public Builder context(String key, Object value) {
            context.put(key, value);
            return this;
        }

        public ChatClientRequest build() {
            return new ChatClientRequest(prompt, context);
        }
    }
}
