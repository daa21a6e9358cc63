package dev.kedge.platform;

import java.util.List;

/** Stand-in for the platform's guardrails: every verdict on a text, clean ones too. */
public interface GuardrailService {
    /** What a guardrail looks for. */
    enum Kind {
        PII,
        POLICY,
        INJECTION
    }

    /** One verdict. */
    record Verdict(Kind kind, boolean tripped) {}

    List<Verdict> check(String text);
}
