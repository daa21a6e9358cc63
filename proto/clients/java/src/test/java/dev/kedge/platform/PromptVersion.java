package dev.kedge.platform;

import java.util.Map;

/** Stand-in for the platform's prompt version: a template under a name and a hash. */
public record PromptVersion(String name, String hash, String template) {
    /** Fills the template's {@code {variable}} places in. */
    public String filled(Map<String, String> variables) {
        String text = template;
        for (var each : variables.entrySet()) {
            text = text.replace("{" + each.getKey() + "}", each.getValue());
        }
        return text;
    }
}
