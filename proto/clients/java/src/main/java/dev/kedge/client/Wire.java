package dev.kedge.client;

import io.grpc.Channel;
import io.grpc.MethodDescriptor;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;

/** Carries each call once; what does not end in an answer ends in CallFailed. */
interface Wire {
    /**
     * How a call is made.
     *
     * @param deadline after which it has failed
     * @param isPatient it waits for a connection until the deadline instead of failing where there is none
     */
    record Terms(Duration deadline, boolean isPatient) {}

    /** Asks and waits. */
    <Q, A> A call(MethodDescriptor<Q, A> method, Q request, Terms terms);

    /** Asks; the future ends in the answer or in CallFailed. */
    <Q, A> CompletableFuture<A> callAsync(MethodDescriptor<Q, A> method, Q request, Terms terms);

    /** Opens a stream of answers, which ends where the returned action runs. */
    <Q, A> Runnable stream(MethodDescriptor<Q, A> method, Q request, StreamObserver<A> hearer);

    /** Opens a stream both ways; answers where requests go. */
    <Q, A> StreamObserver<Q> converse(MethodDescriptor<Q, A> method, StreamObserver<A> hearer);

    /** Gives a channel whose calls carry the bearer key; empty: this client's own. */
    Channel channel(String key);

    /** Connects, and says whether that worked in time. */
    boolean ready(Duration timeout);

    /** Lets go of the connections; calls in flight fail with CLIENT_CLOSED. */
    void close();
}
