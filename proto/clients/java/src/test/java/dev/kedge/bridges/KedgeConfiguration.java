package dev.kedge.bridges;

import dev.kedge.client.Baseline;
import dev.kedge.client.Choice;
import dev.kedge.client.Kedge;
import dev.kedge.client.Question;
import dev.kedge.platform.GuardrailService;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import org.springframework.ai.chat.client.ChatClient;
import org.springframework.ai.chat.client.ChatClientRequest;
import org.springframework.ai.chat.prompt.ChatOptions;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** Wires Kedge into a Spring AI application. */
@Configuration
public class KedgeConfiguration {
    @Bean(destroyMethod = "close")
    Kedge kedge(@Value("${kedge.address}") String address, @Value("${kedge.key}") String key) {
        Kedge kedge = Kedge.to(address)
                .tenant("acme")
                .key(key)
                .baseline("support", new Baseline()
                        .modelRoute("small", "provider/small-2026-01")
                        .reasoningDepth("single", "samples=1")
                        .promptVariant("direct", "Answer the question: {question}"))
                .spool(Path.of("kedge-spool"))
                .build();
        kedge.ready(Duration.ofSeconds(5));
        return kedge;
    }

    @Bean
    ChatClient chatClient(ChatClient.Builder builder, Kedge kedge, GuardrailService guardrails) {
        var advisor = new KedgeAdvisor(
                kedge,
                request -> Question.of("support", kedge.newEpisodeId())
                        .category("task", "math")
                        .number("words", request.prompt().getContents().split("\\s+").length),
                (request, choice) -> served(kedge, request, choice));
        return builder.defaultAdvisors(advisor, new GuardrailAdvisor(guardrails)).build();
    }

    /** Puts the choice into the request. */
    private static ChatClientRequest served(Kedge kedge, ChatClientRequest request, Choice choice) {
        String model = kedge.arm(choice.action().modelRoute().contentHash()).content();
        String system = new Prompts(kedge).version(choice).filled(Map.of("question", ""));
        var prompt = request.prompt().augmentSystemMessage(system).mutate()
                .chatOptions(ChatOptions.builder().model(model).build())
                .build();
        return request.mutate().prompt(prompt).build();
    }
}
