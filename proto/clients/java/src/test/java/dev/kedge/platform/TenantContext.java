package dev.kedge.platform;

/** Stand-in for the platform's tenant of the present request. */
public interface TenantContext {
    String tenant();
}
