package org.springframework.ai.chat.prompt;

/** Signature stub of Spring AI's class; the real one holds messages. */
public final class Prompt {
    private final String system;
    private final String user;
    private final ChatOptions options;

    public Prompt(String user, ChatOptions options) {
        this("", user, options);
    }

    private Prompt(String system, String user, ChatOptions options) {
        this.system = system;
        this.user = user;
        this.options = options;
    }

    public String getContents() {
        return system + user;
    }

    public ChatOptions getOptions() {
        return options;
    }

    public Prompt augmentSystemMessage(String text) {
        return new Prompt(text, user, options);
    }

    public Builder mutate() {
        return new Builder();
    }

    /** Signature stub. */
    public final class Builder {
        private ChatOptions changed = options;

        public Builder chatOptions(ChatOptions with) {
            changed = with;
            return this;
        }

        public Prompt build() {
            return new Prompt(system, user, changed);
        }
    }
}
