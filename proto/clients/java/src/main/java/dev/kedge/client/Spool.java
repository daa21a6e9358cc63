package dev.kedge.client;

import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.MessageLite;
import com.google.protobuf.Parser;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.CRC32;

/**
 * Keeps facts in a folder until the server has answered for them: they outlive the process, not the machine.
 *
 * <p>Files hold frames: length, CRC-32, the message. A file is removed once all of it was answered; after a crash what
 * is left is sent again, and the idempotency keys keep it from counting twice.
 */
final class Spool<T extends MessageLite> implements FactStore<T> {
    private static final int HEADER_BYTES = 8;
    private static final long SEGMENT_BYTES = 1 << 20;
    private static final String SUFFIX = ".facts";

    /** One file: how much of it is written, and how much of it is done. */
    private static final class Segment {
        final Path path;
        final FileChannel file;
        long written;
        long done;

        Segment(Path path) throws IOException {
            this.path = path;
            file = FileChannel.open(
                    path, StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE);
        }
    }

    private final Path folder;
    private final Parser<T> parser;
    private final long maxBytes;
    private final FileChannel lockFile;
    private final ArrayDeque<Segment> segments = new ArrayDeque<>();
    private final List<Long> shown = new ArrayList<>();
    private long number;
    private long bytes;
    private int size;

    /**
     * Opens a folder, and finds what an earlier process left there.
     *
     * @param folder made where it is missing; one process at a time uses it
     * @param parser of what is kept
     * @param maxBytes most that it may hold; what comes on top is dropped
     */
    Spool(Path folder, Parser<T> parser, long maxBytes) {
        this.parser = parser;
        this.folder = folder;
        this.maxBytes = maxBytes;
        try {
            Files.createDirectories(folder);
            lockFile = FileChannel.open(
                    folder.resolve("lock"), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
            lock();
            try (var files = Files.list(folder)) {
                for (Path path : files.filter(p -> p.toString().endsWith(SUFFIX)).sorted().toList()) {
                    number = Long.parseLong(path.getFileName().toString().replace(SUFFIX, ""), 16) + 1;
                    recover(new Segment(path));
                }
            }
        } catch (IOException broken) {
            throw new UncheckedIOException("the spool " + folder + " cannot be used", broken);
        }
    }

    @Override
    public boolean add(T fact) {
        byte[] message = fact.toByteArray();
        if (bytes + HEADER_BYTES + message.length > maxBytes) {
            return false;
        }
        var frame = ByteBuffer.allocate(HEADER_BYTES + message.length);
        frame.putInt(message.length).putInt(checksum(message)).put(message).flip();
        try {
            Segment last = segments.peekLast();
            if (last == null || last.written >= SEGMENT_BYTES) {
                last = new Segment(folder.resolve(String.format("%016x%s", number++, SUFFIX)));
                segments.addLast(last);
            }
            long length = frame.remaining();
            for (long at = last.written; frame.hasRemaining(); ) {
                at += last.file.write(frame, at);
            }
            last.written += length;
            bytes += length;
        } catch (IOException full) {
            // Half a frame may be there; the next one overwrites it.
            return false;
        }
        size++;
        return true;
    }

    @Override
    public List<T> first(int most) {
        shown.clear();
        var found = new ArrayList<T>();
        Segment head = segments.peekFirst();
        long at = head == null ? 0 : head.done;
        while (head != null && found.size() < most && at < head.written) {
            byte[] message = frameAt(head, at);
            try {
                found.add(parser.parseFrom(message));
            } catch (InvalidProtocolBufferException impossible) {
                throw new IllegalStateException("a frame with a true checksum is no fact", impossible);
            }
            at += HEADER_BYTES + message.length;
            shown.add(at);
        }
        return found;
    }

    @Override
    public void remove(int count) {
        Segment head = segments.element();
        head.done = shown.get(count - 1);
        size -= count;
        if (head.done == head.written) {
            segments.remove();
            bytes -= head.written;
            try {
                head.file.close();
                Files.delete(head.path);
            } catch (IOException stays) {
                // It will be sent again after a restart, under the same keys.
                System.getLogger("dev.kedge.client").log(System.Logger.Level.WARNING, "spool.not_removed", stays);
            }
        }
    }

    @Override
    public int size() {
        return size;
    }

    @Override
    public boolean survives() {
        return true;
    }

    @Override
    public void close() {
        try {
            for (Segment segment : segments) {
                segment.file.close();
            }
            lockFile.close();
        } catch (IOException harmless) {
            // Everything is written already.
            return;
        }
    }

    private void lock() throws IOException {
        FileLock lock;
        try {
            lock = lockFile.tryLock();
        } catch (OverlappingFileLockException here) {
            lock = null;
        }
        if (lock == null) {
            lockFile.close();
            throw new IllegalStateException(folder + " is the spool of another client; give each its own folder");
        }
    }

    /** Counts the whole frames; what a crash cut off behind them is forgotten. */
    private void recover(Segment segment) throws IOException {
        long length = segment.file.size();
        while (segment.written < length) {
            byte[] message = frameAt(segment, segment.written);
            if (message == null) {
                break;
            }
            segment.written += HEADER_BYTES + message.length;
            size++;
        }
        if (segment.written == 0) {
            segment.file.close();
            Files.delete(segment.path);
            return;
        }
        bytes += segment.written;
        segments.addLast(segment);
    }

    /** Reads a frame; null where it is not whole. */
    private static byte[] frameAt(Segment segment, long at) {
        try {
            var header = ByteBuffer.allocate(HEADER_BYTES);
            fill(segment.file, header, at);
            int length = header.flip().remaining() < HEADER_BYTES ? -1 : header.getInt();
            if (length <= 0 || length > segment.file.size() - at - HEADER_BYTES) {
                return null;
            }
            int checksum = header.getInt();
            var message = ByteBuffer.allocate(length);
            fill(segment.file, message, at + HEADER_BYTES);
            return checksum(message.array()) == checksum ? message.array() : null;
        } catch (IOException broken) {
            throw new UncheckedIOException("the spool cannot be read: " + segment.path, broken);
        }
    }

    private static void fill(FileChannel file, ByteBuffer buffer, long from) throws IOException {
        long at = from;
        while (buffer.hasRemaining()) {
            int read = file.read(buffer, at);
            if (read < 0) {
                return;
            }
            at += read;
        }
    }

    private static int checksum(byte[] message) {
        var crc = new CRC32();
        crc.update(message);
        return (int) crc.getValue();
    }
}
