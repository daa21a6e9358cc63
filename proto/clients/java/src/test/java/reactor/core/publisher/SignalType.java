package reactor.core.publisher;

/** Signature stub of Reactor's enum: how a stream ended. */
public enum SignalType {
    CANCEL,
    ON_COMPLETE,
    ON_ERROR
}
