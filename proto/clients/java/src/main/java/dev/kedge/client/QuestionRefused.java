package dev.kedge.client;

/** The server would refuse to decide this, so the local answer is the same as to its refusal. */
final class QuestionRefused extends Exception {
    private static final long serialVersionUID = 1L;

    /** Takes the server's ErrorReason without its prefix. */
    QuestionRefused(String reason) {
        super(reason, null, false, false);
    }

    String reason() {
        return getMessage();
    }
}
