package dev.kedge.client;

import dev.kedge.bandit.v1.Outcome;
import java.util.ArrayDeque;
import java.util.List;

/** Where outcomes wait, in their order. Its queue calls it under one lock. */
interface OutcomeStore {
    /** Takes one in at the end; false where there is no room. */
    boolean add(Outcome outcome);

    /** Shows some of the first, at most so many, at least one where any waits. */
    List<Outcome> first(int most);

    /** Lets go of so many of the first: the server is done with them. */
    void remove(int count);

    /** How many wait. */
    int size();

    /** Whether what waits outlives this process. */
    boolean survives();

    /** Lets go of files. */
    void close();

    /** Keeps them in memory, up to a capacity. */
    final class InMemory implements OutcomeStore {
        private final ArrayDeque<Outcome> waiting = new ArrayDeque<>();
        private final int capacity;

        InMemory(int capacity) {
            if (capacity < 1) {
                throw new IllegalArgumentException("capacity must be at least 1, got " + capacity);
            }
            this.capacity = capacity;
        }

        @Override
        public boolean add(Outcome outcome) {
            return waiting.size() < capacity && waiting.add(outcome);
        }

        @Override
        public List<Outcome> first(int most) {
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
