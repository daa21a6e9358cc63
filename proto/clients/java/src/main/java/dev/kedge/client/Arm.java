package dev.kedge.client;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.List;
import java.util.regex.Pattern;

/**
 * One arm with its content: a model id, a depth setting, or the text of a prompt. Other content under the same name is
 * another arm.
 *
 * @param name 1 to 64 characters of {@code [A-Za-z0-9._:-]}
 * @param content what is served, at most 64 KiB of UTF-8
 * @param templateVariables names that a prompt's template expects
 */
public record Arm(String name, String content, List<String> templateVariables) {
    private static final Pattern NAME = Pattern.compile("[A-Za-z0-9._:-]{1,64}");
    private static final int MAX_CONTENT_BYTES = 64 * 1024;

    /** Refuses with an IllegalArgumentException what cannot be an arm. */
    public Arm {
        if (!NAME.matcher(name).matches()) {
            throw new IllegalArgumentException("arm name " + name + " must be 1 to 64 characters of [A-Za-z0-9._:-]");
        }
        if (content.getBytes(StandardCharsets.UTF_8).length > MAX_CONTENT_BYTES) {
            throw new IllegalArgumentException("content of arm " + name + " is over " + MAX_CONTENT_BYTES + " bytes");
        }
        templateVariables = List.copyOf(templateVariables);
    }

    /** An arm that is no template. */
    public Arm(String name, String content) {
        this(name, content, List.of());
    }

    /** What identifies this arm. */
    public ArmRef ref() {
        return new ArmRef(name, sha256Hex(content));
    }

    /** Hashes text the way the wire identifies content. */
    static String sha256Hex(String text) {
        return HexFormat.of().formatHex(sha256().digest(text.getBytes(StandardCharsets.UTF_8)));
    }

    static MessageDigest sha256() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException impossible) {
            throw new IllegalStateException("every Java platform has SHA-256", impossible);
        }
    }
}
