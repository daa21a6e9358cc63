package org.springframework.core;

/** Signature stub of Spring's interface: as much of it as the bridges use. */
public interface Ordered {
    int HIGHEST_PRECEDENCE = Integer.MIN_VALUE;

    int getOrder();
}
