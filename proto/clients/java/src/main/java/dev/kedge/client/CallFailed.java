package dev.kedge.client;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.UnknownFieldSet;
import com.google.rpc.RetryInfo;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** A call had no usable answer. */
public final class CallFailed extends RuntimeException {
    /** Reason of a call that was made, or was still waiting, when the client was closed. */
    public static final String CLIENT_CLOSED = "CLIENT_CLOSED";

    private static final long serialVersionUID = 1L;
    private static final Set<String> REQUEST_AT_FAULT = Set.of(
            "INVALID_ARGUMENT",
            "NOT_FOUND",
            "ALREADY_EXISTS",
            "PERMISSION_DENIED",
            "UNAUTHENTICATED",
            "FAILED_PRECONDITION",
            "ABORTED",
            "OUT_OF_RANGE",
            "UNIMPLEMENTED");
    private static final Metadata.Key<byte[]> DETAILS =
            Metadata.Key.of("grpc-status-details-bin", Metadata.BINARY_BYTE_MARSHALLER);
    private static final int REASON_FIELD = 1;

    private final String code;
    private final String reason;
    private final String detail;
    private final Duration retryAfter;

    /** A failure whose server asked for no delay. */
    public CallFailed(String code, String reason, String detail) {
        this(code, reason, detail, Duration.ZERO);
    }

    /**
     * Says what happened.
     *
     * @param code name of the gRPC status code, e.g. {@code UNAVAILABLE}
     * @param reason the server's ErrorReason without its prefix; empty where it gave none
     * @param detail the sentence that says what to do
     * @param retryAfter what the server asked to wait; zero where it did not
     */
    public CallFailed(String code, String reason, String detail, Duration retryAfter) {
        super(Stream.of(code, reason, detail).filter(part -> !part.isEmpty()).collect(Collectors.joining(": ")));
        this.code = code;
        this.reason = reason;
        this.detail = detail;
        this.retryAfter = retryAfter;
    }

    /** Name of the gRPC status code. */
    public String code() {
        return code;
    }

    /** The server's ErrorReason without its prefix, or empty: branch on it. */
    public String reason() {
        return reason;
    }

    /** The sentence for people. */
    public String detail() {
        return detail;
    }

    /** What the server asked to wait, or zero. */
    public Duration retryAfter() {
        return retryAfter;
    }

    /** The failure in one word for counters: the reason where there is one, else the code. */
    public String summary() {
        return reason.isEmpty() ? code : reason;
    }

    /** Whether the same request may pass later; false where the request itself was refused. */
    public boolean isTransient() {
        return !REQUEST_AT_FAULT.contains(code) && !reason.equals(CLIENT_CLOSED);
    }

    static CallFailed closed() {
        return new CallFailed("CANCELLED", CLIENT_CLOSED, "the client is closed");
    }

    /** Reads code, ErrorInfo and RetryInfo from what gRPC threw. */
    static CallFailed of(StatusRuntimeException thrown) {
        return of(thrown.getStatus(), thrown.getTrailers());
    }

    static CallFailed of(Throwable thrown) {
        if (thrown instanceof CallFailed failed) {
            return failed;
        }
        return of(Status.fromThrowable(thrown), Status.trailersFromThrowable(thrown));
    }

    private static CallFailed of(Status status, Metadata trailers) {
        String reason = "";
        Duration retryAfter = Duration.ZERO;
        try {
            byte[] details = trailers == null ? null : trailers.get(DETAILS);
            for (Any detail : com.google.rpc.Status.parseFrom(details == null ? new byte[0] : details).getDetailsList()) {
                // ErrorInfo is younger than the oldest generated classes that this client runs with.
                if (detail.getTypeUrl().endsWith("/google.rpc.ErrorInfo")) {
                    var fields = UnknownFieldSet.parseFrom(detail.getValue());
                    for (var value : fields.getField(REASON_FIELD).getLengthDelimitedList()) {
                        reason = value.toStringUtf8().replaceFirst("^ERROR_REASON_", "");
                    }
                } else if (detail.is(RetryInfo.class)) {
                    var delay = detail.unpack(RetryInfo.class).getRetryDelay();
                    Duration asked = Duration.ofSeconds(delay.getSeconds(), delay.getNanos());
                    retryAfter = asked.isNegative() ? Duration.ZERO : asked;
                }
            }
        } catch (InvalidProtocolBufferException unreadable) {
            // Details are a courtesy; without them the code still says what happened.
            reason = "";
        }
        String detail = status.getDescription() == null ? "" : status.getDescription();
        return new CallFailed(status.getCode().name(), reason, detail, retryAfter);
    }
}
