package dev.kedge.bridges;

import dev.kedge.bandit.v1.GovernanceServiceGrpc;
import dev.kedge.bandit.v1.WatchAuditRequest;
import dev.kedge.client.Kedge;
import dev.kedge.platform.AuditService;
import io.grpc.StatusRuntimeException;
import java.time.Instant;

/** Copies Kedge's audit events into the platform's log, each once and in order, over ends of the stream. */
public final class Audit {
    private final Kedge kedge;
    private final AuditService log;

    public Audit(Kedge kedge, AuditService log) {
        this.kedge = kedge;
        this.log = log;
    }

    /** Follows on a thread of its own until that is interrupted; answers the last sequence, to be stored. */
    public long follow(long after) {
        long last = after;
        while (!Thread.currentThread().isInterrupted()) {
            var request = WatchAuditRequest.newBuilder().setParent("tenants/" + kedge.tenant()).setAfterSequence(last);
            try {
                var events = GovernanceServiceGrpc.newBlockingStub(kedge.channel()).watchAudit(request.build());
                while (events.hasNext()) {
                    var event = events.next().getEvent();
                    var when = Instant.ofEpochSecond(event.getEventTime().getSeconds(), event.getEventTime().getNanos());
                    log.append(
                            event.getSequence(), when, event.getActor(), event.getVerb(), event.getSubject(),
                            event.getBecause());
                    last = event.getSequence();
                }
            } catch (StatusRuntimeException ended) {
                pause();
            }
        }
        return last;
    }

    private static void pause() {
        try {
            Thread.sleep(1_000);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
