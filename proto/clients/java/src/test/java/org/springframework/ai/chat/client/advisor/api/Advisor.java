package org.springframework.ai.chat.client.advisor.api;

import org.springframework.core.Ordered;

/** Signature stub of Spring AI's interface. */
public interface Advisor extends Ordered {
    String getName();
}
