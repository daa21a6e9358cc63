package dev.kedge.bridges;

import dev.kedge.client.Kedge;
import dev.kedge.platform.TenantContext;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;

/** Gives each tenant the client that carries its own credential: a key is bound to one tenant, so none can be mixed up. */
public final class TenantKedges implements AutoCloseable {
    private final TenantContext context;
    private final Function<String, Kedge> connect;
    private final Map<String, Kedge> clients = new ConcurrentHashMap<>();

    /**
     * Connects a tenant when it is first seen.
     *
     * @param context the tenant of the present request
     * @param connect makes a tenant's client with the key out of the platform's secret store
     */
    public TenantKedges(TenantContext context, Function<String, Kedge> connect) {
        this.context = context;
        this.connect = connect;
    }

    public Kedge current() {
        return clients.computeIfAbsent(context.tenant(), connect);
    }

    @Override
    public void close() {
        clients.values().forEach(Kedge::close);
    }
}
