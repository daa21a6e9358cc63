package dev.kedge.platform;

import java.time.Instant;

/** Stand-in for the platform's audit log. */
public interface AuditService {
    void append(long sequence, Instant when, String actor, String verb, String subject, String because);
}
