package dev.kedge.bridges;

/** A guardrail stopped the turn. */
public final class Blocked extends RuntimeException {
    private static final long serialVersionUID = 1L;

    public Blocked(String why) {
        super(why);
    }
}
