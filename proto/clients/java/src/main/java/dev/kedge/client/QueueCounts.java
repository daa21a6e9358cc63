package dev.kedge.client;

/**
 * What became of every fact that was put; all but {@code retries} add up to their number, and to those that a spool
 * held from before.
 *
 * @param recorded the server stored it
 * @param duplicates the server had it already
 * @param late stored after the correction horizon, not learned from
 * @param conflicts its key was seen with another payload
 * @param rejected the server will not take it
 * @param dropped the queue was full or closed, or closing left it behind
 * @param waiting not answered for yet
 * @param retries attempts that failed
 */
public record QueueCounts(
        long recorded, long duplicates, long late, long conflicts, long rejected, long dropped, long waiting, long retries) {}
