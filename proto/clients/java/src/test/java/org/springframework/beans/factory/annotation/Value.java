package org.springframework.beans.factory.annotation;

/** Signature stub of Spring's annotation. */
public @interface Value {
    String value();
}
