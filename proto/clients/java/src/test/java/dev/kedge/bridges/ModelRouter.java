package dev.kedge.bridges;

import dev.kedge.client.Choice;
import java.util.Map;
import org.springframework.ai.chat.client.ChatClient;

/** Picks the ChatClient of a model route: an advisor cannot change the provider, so decide before the client is picked. */
public final class ModelRouter {
    private final Map<String, ChatClient> byRoute;
    private final ChatClient baseline;

    public ModelRouter(Map<String, ChatClient> byRoute, ChatClient baseline) {
        this.byRoute = byRoute;
        this.baseline = baseline;
    }

    public ChatClient client(Choice choice) {
        return byRoute.getOrDefault(choice.modelRoute(), baseline);
    }
}
