package dev.kedge.client;

import com.google.protobuf.ByteString;

/**
 * Which episode later facts belong to. Small and plain: store it with a job that ends the episode elsewhere.
 *
 * @param policy {@code tenants/{tenant}/policies/{policy}}
 * @param episodeId the application's own id
 * @param token of the decision; empty after a fallback, and for a decision made in this process
 * @param decision {@code tenants/{tenant}/decisions/{decision}}; empty after a fallback
 * @param servedActionKey what was really served where the server cannot know it; empty: what it decided
 */
public record EpisodeHandle(
        String policy, String episodeId, ByteString token, String decision, String servedActionKey) {}
