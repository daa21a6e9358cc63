package dev.kedge.client;

import java.util.ArrayDeque;
import java.util.List;

/** Where facts wait, in their order. Its queue calls it under one lock. */
interface FactStore<T> {
    /** Takes one in at the end; false where there is no room. */
    boolean add(T fact);

    /** Shows some of the first, at most so many, at least one where any waits. */
    List<T> first(int most);

    /** Lets go of so many of the first: the server is done with them. */
    void remove(int count);

    /** How many wait. */
    int size();

    /** Whether what waits outlives this process. */
    boolean survives();

    /** Lets go of files. */
    void close();

    /** Keeps them in memory, up to a capacity. */
    final class InMemory<T> implements FactStore<T> {
        private final ArrayDeque<T> waiting = new ArrayDeque<>();
        private final int capacity;

        InMemory(int capacity) {
            if (capacity < 1) {
                throw new IllegalArgumentException("capacity must be at least 1, got " + capacity);
            }
            this.capacity = capacity;
        }

        @Override
        public boolean add(T fact) {
            return waiting.size() < capacity && waiting.add(fact);
        }

        @Override
        public List<T> first(int most) {
            return waiting.stream().limit(most).toList();
        }

        @Override
        public void remove(int count) {
            for (int i = 0; i < count; i++) {
                waiting.remove();
            }
        }

        @Override
        public int size() {
            return waiting.size();
        }

        @Override
        public boolean survives() {
            return false;
        }

        @Override
        public void close() {
            waiting.clear();
        }
    }
}
