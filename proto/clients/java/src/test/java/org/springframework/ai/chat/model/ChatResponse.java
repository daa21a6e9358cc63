package org.springframework.ai.chat.model;

/** Signature stub of Spring AI's class; the real one holds generations. */
public record ChatResponse(String text) {}
