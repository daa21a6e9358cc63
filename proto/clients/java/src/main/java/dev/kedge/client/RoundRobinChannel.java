package dev.kedge.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ChannelCredentials;
import io.grpc.ClientCall;
import io.grpc.ConnectivityState;
import io.grpc.Grpc;
import io.grpc.ManagedChannel;
import io.grpc.MethodDescriptor;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** Takes replicas in turn, those first that are not known to be away; a DNS name may stand for several, too. */
final class RoundRobinChannel extends Channel {
    // The shortest ping interval that a gRPC server accepts by default.
    private static final Duration KEEPALIVE = Duration.ofMinutes(5);
    private static final Duration KEEPALIVE_TIMEOUT = Duration.ofSeconds(10);

    private final List<ManagedChannel> channels;
    private final AtomicInteger turn = new AtomicInteger();

    RoundRobinChannel(List<String> addresses, ChannelCredentials credentials) {
        if (addresses.isEmpty() || addresses.stream().anyMatch(String::isBlank)) {
            throw new IllegalArgumentException("an address is host:port or a gRPC target, got " + addresses);
        }
        channels = addresses.stream().map(address -> open(address, credentials)).toList();
    }

    @Override
    public <Q, A> ClientCall<Q, A> newCall(MethodDescriptor<Q, A> method, CallOptions options) {
        return next().newCall(method, options);
    }

    @Override
    public String authority() {
        return channels.get(0).authority();
    }

    /** Makes channels that lost their server try again now: gRPC's own pauses grow to two minutes. */
    void wake() {
        for (ManagedChannel channel : channels) {
            if (channel.getState(false) == ConnectivityState.TRANSIENT_FAILURE) {
                channel.resetConnectBackoff();
            }
        }
    }

    /** Connects, and says whether a replica was there in time. */
    boolean ready(Duration timeout) {
        long deadline = System.nanoTime() + timeout.toNanos();
        wake();
        while (true) {
            var change = new CountDownLatch(1);
            for (ManagedChannel channel : channels) {
                ConnectivityState seen = channel.getState(true);
                if (seen == ConnectivityState.READY) {
                    return true;
                }
                // From the state that was seen, so that no change is missed.
                channel.notifyWhenStateChanged(seen, change::countDown);
            }
            if (!passes(change, deadline - System.nanoTime())) {
                return false;
            }
        }
    }

    void shutdownNow() {
        channels.forEach(ManagedChannel::shutdownNow);
    }

    private static boolean passes(CountDownLatch change, long nanos) {
        try {
            return change.await(nanos, TimeUnit.NANOSECONDS);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    private ManagedChannel next() {
        int start = turn.getAndIncrement();
        for (int step = 0; step < channels.size(); step++) {
            ManagedChannel channel = channels.get(Math.floorMod(start + step, channels.size()));
            if (channel.getState(false) != ConnectivityState.TRANSIENT_FAILURE) {
                return channel;
            }
        }
        return channels.get(Math.floorMod(start, channels.size()));
    }

    private static ManagedChannel open(String address, ChannelCredentials credentials) {
        return Grpc.newChannelBuilder(address, credentials)
                .defaultLoadBalancingPolicy("round_robin")
                .keepAliveTime(KEEPALIVE.toSeconds(), TimeUnit.SECONDS)
                .keepAliveTimeout(KEEPALIVE_TIMEOUT.toSeconds(), TimeUnit.SECONDS)
                .userAgent("kedge-client-java")
                .build();
    }
}
