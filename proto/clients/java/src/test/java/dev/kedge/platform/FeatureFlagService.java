package dev.kedge.platform;

/** Stand-in for the platform's flags. */
public interface FeatureFlagService {
    boolean isEnabled(String flag, boolean otherwise);
}
