package dev.kedge.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ChannelCredentials;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptors;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** Speaks to one or more replicas over gRPC. Its exceptions end here. */
final class GrpcWire implements Wire {
    private static final Metadata.Key<String> AUTHORIZATION =
            Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

    private final RoundRobinChannel replicas;
    private final Channel channel;
    private volatile boolean isClosed;

    /**
     * Prepares; connects with the first call.
     *
     * @param addresses gRPC targets of the replicas
     * @param credentials of the transport
     * @param key bearer key or token; empty where a certificate says who calls
     */
    GrpcWire(List<String> addresses, ChannelCredentials credentials, String key) {
        replicas = new RoundRobinChannel(addresses, credentials);
        channel = keyed(key);
    }

    @Override
    public <Q, A> A call(MethodDescriptor<Q, A> method, Q request, Terms terms) {
        try {
            return ClientCalls.blockingUnaryCall(channel, method, options(terms), request);
        } catch (StatusRuntimeException thrown) {
            throw failure(thrown);
        }
    }

    @Override
    public <Q, A> CompletableFuture<A> callAsync(MethodDescriptor<Q, A> method, Q request, Terms terms) {
        var answer = new CompletableFuture<A>();
        ClientCall<Q, A> call = channel.newCall(method, options(terms));
        ClientCalls.asyncUnaryCall(call, request, new StreamObserver<A>() {
            @Override
            public void onNext(A message) {
                answer.complete(message);
            }

            @Override
            public void onError(Throwable thrown) {
                answer.completeExceptionally(failure(thrown));
            }

            @Override
            public void onCompleted() {
                answer.completeExceptionally(new CallFailed("INTERNAL", "UNUSABLE_ANSWER", "the answer is empty"));
            }
        });
        answer.whenComplete((message, thrown) -> {
            if (answer.isCancelled()) {
                call.cancel("the caller gave up", null);
            }
        });
        return answer;
    }

    @Override
    public <Q, A> Runnable stream(MethodDescriptor<Q, A> method, Q request, StreamObserver<A> hearer) {
        replicas.wake();
        ClientCall<Q, A> call = channel.newCall(method, CallOptions.DEFAULT.withWaitForReady());
        ClientCalls.asyncServerStreamingCall(call, request, new Translated<>(hearer));
        return () -> call.cancel("no longer needed", null);
    }

    @Override
    public <Q, A> StreamObserver<Q> converse(MethodDescriptor<Q, A> method, StreamObserver<A> hearer) {
        replicas.wake();
        ClientCall<Q, A> call = channel.newCall(method, CallOptions.DEFAULT);
        return ClientCalls.asyncBidiStreamingCall(call, new Translated<>(hearer));
    }

    @Override
    public Channel channel(String key) {
        return key.isEmpty() ? channel : keyed(key);
    }

    @Override
    public boolean ready(Duration timeout) {
        return replicas.ready(timeout);
    }

    @Override
    public void close() {
        isClosed = true;
        replicas.shutdownNow();
    }

    private Channel keyed(String key) {
        if (key.isEmpty()) {
            return replicas;
        }
        var headers = new Metadata();
        headers.put(AUTHORIZATION, "Bearer " + key);
        return ClientInterceptors.intercept(replicas, MetadataUtils.newAttachHeadersInterceptor(headers));
    }

    private CallOptions options(Terms terms) {
        CallOptions options = CallOptions.DEFAULT.withDeadlineAfter(terms.deadline().toNanos(), TimeUnit.NANOSECONDS);
        replicas.wake();
        return terms.isPatient() ? options.withWaitForReady() : options;
    }

    private CallFailed failure(Throwable thrown) {
        return isClosed ? CallFailed.closed() : CallFailed.of(thrown);
    }

    /** Passes a stream on with its end translated. */
    private final class Translated<A> implements StreamObserver<A> {
        private final StreamObserver<A> hearer;

        Translated(StreamObserver<A> hearer) {
            this.hearer = hearer;
        }

        @Override
        public void onNext(A message) {
            hearer.onNext(message);
        }

        @Override
        public void onError(Throwable thrown) {
            hearer.onError(failure(thrown));
        }

        @Override
        public void onCompleted() {
            hearer.onCompleted();
        }
    }
}
