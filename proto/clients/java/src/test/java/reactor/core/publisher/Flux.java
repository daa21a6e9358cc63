package reactor.core.publisher;

import java.util.List;
import java.util.function.Consumer;
import java.util.function.Supplier;

/** Signature stub of Reactor's class: a stream that is read at once when somebody subscribes. */
public final class Flux<T> {
    private final Consumer<Consumer<T>> source;

    private Flux(Consumer<Consumer<T>> source) {
        this.source = source;
    }

    public static <T> Flux<T> fromIterable(List<T> items) {
        return new Flux<>(items::forEach);
    }

    public static <T> Flux<T> error(RuntimeException failure) {
        return new Flux<>(hears -> {
            throw failure;
        });
    }

    public static <T> Flux<T> defer(Supplier<Flux<T>> made) {
        return new Flux<>(hears -> made.get().source.accept(hears));
    }

    public Flux<T> doFinally(Consumer<SignalType> end) {
        return new Flux<>(hears -> {
            SignalType how = SignalType.ON_ERROR;
            try {
                source.accept(hears);
                how = SignalType.ON_COMPLETE;
            } finally {
                end.accept(how);
            }
        });
    }

    public void subscribe(Consumer<T> hears) {
        source.accept(hears);
    }
}
