package org.springframework.context.annotation;

/** Signature stub of Spring's annotation. */
public @interface Bean {
    String destroyMethod() default "";
}
