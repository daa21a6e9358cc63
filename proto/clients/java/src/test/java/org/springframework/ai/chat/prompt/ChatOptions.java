package org.springframework.ai.chat.prompt;

/** Signature stub of Spring AI's interface. */
public interface ChatOptions {
    String getModel();

    static Builder builder() {
        return new Builder();
    }

    /** Signature stub. */
    final class Builder {
        private String model;

        public Builder model(String id) {
            model = id;
            return this;
        }

        public ChatOptions build() {
            String chosen = model;
            return () -> chosen;
        }
    }
}
