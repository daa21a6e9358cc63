package dev.kedge.client;

/** Whether questions pass to the server. */
public enum BreakerState {
    /** They do. */
    CLOSED,
    /** The baseline is served at once. */
    OPEN,
    /** One question is out to learn whether the server is back; the baseline is served meanwhile. */
    PROBING
}
