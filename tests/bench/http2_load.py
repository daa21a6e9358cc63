"""Send gRPC requests over plain HTTP/2 cheaply enough that one Python process saturates a server on another core.

A client library costs about as much per call as the server under test. Here the header block is the same for all
requests of a connection (after the first it is one table index per header), bodies are made beforehand, and of an
answer only frame heads and the status are looked at. h2load is no replacement: it sends one body over and over, and a
decision is new only for a new episode.
"""

import math
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _ACK, _END_HEADERS, _PADDED = 0x1, 0x1, 0x4, 0x8
_HEADER_TABLE_SIZE, _INITIAL_WINDOW, _MAX_FRAME = 0x1, 0x4, 0x5
_LARGE = 2**31 - 1
_FIRST_TABLE_INDEX = 62
_OK = b"\x0bgrpc-status\x010"
_FRAME = struct.Struct(">HBBBI")  # length (16 + 8 bits), type, flags, stream
_MESSAGE = struct.Struct(">BI")  # not compressed, length
_SILENCE_SECONDS = 20.0


class LoadError(Exception):
    """The server broke the connection or fell silent."""


@dataclass(slots=True)
class Measured:
    """What a load found.

    Attributes:
        latencies: seconds, of answers that came with status OK.
        answers: their messages, in order of arrival.
        failures: trailers of the others.
        seconds: wall clock from the first request to the last answer.
        cpu_seconds: this process's CPU in that time.
    """

    latencies: list[float] = field(default_factory=list)
    answers: list[bytes] = field(default_factory=list)
    failures: list[bytes] = field(default_factory=list)
    seconds: float = 0.0
    cpu_seconds: float = 0.0


def percentile(values: Sequence[float], share: float) -> float:
    """Give the smallest value that at least `share` of the values do not exceed.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 0.5)
    2.0
    """
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def closed_loop(
    address: tuple[str, int], headers: "Headers", bodies: Sequence[bytes], *, shape: tuple[int, int]
) -> Measured:
    """Keep `shape` = (connections, requests in flight on each) until every body was answered."""
    connections = [Connection(address, headers) for _ in range(shape[0])]
    measured, waiting = Measured(), iter(bodies)
    try:
        began, cpu_began = time.perf_counter(), time.process_time()
        for connection in connections:
            for _, body in zip(range(shape[1]), waiting, strict=False):
                connection.put(body, time.perf_counter())
            connection.flush()
        while len(measured.latencies) + len(measured.failures) < len(bodies):
            for connection in _readable(connections, _SILENCE_SECONDS):
                for done in connection.receive():
                    _record(measured, done)
                    if (following := next(waiting, None)) is not None:
                        connection.put(following, time.perf_counter())
                connection.flush()
        measured.seconds, measured.cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
    finally:
        for connection in connections:
            connection.close()
    return measured


def fixed_rate(
    address: tuple[str, int], headers: "Headers", bodies: Sequence[bytes], *, rate: float, connections: int
) -> Measured:
    """Send `rate` requests a second whatever comes back; latency counts from the time a request was due."""
    opened = [Connection(address, headers) for _ in range(connections)]
    measured, sent = Measured(), 0
    try:
        began, cpu_began = time.perf_counter(), time.process_time()
        while len(measured.latencies) + len(measured.failures) < len(bodies):
            due = began + sent / rate
            if sent < len(bodies) and time.perf_counter() >= due:
                connection = opened[sent % connections]
                connection.put(bodies[sent], due)
                connection.flush()
                sent += 1
                continue
            pause = max(0.0, due - time.perf_counter()) if sent < len(bodies) else _SILENCE_SECONDS
            for connection in _readable(opened, pause, is_silence_wrong=sent == len(bodies)):
                for done in connection.receive():
                    _record(measured, done)
                connection.flush()
        measured.seconds, measured.cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
    finally:
        for connection in opened:
            connection.close()
    return measured


def _record(measured: Measured, done: "Answer") -> None:
    if _OK in done.trailers:
        measured.latencies.append(done.seconds)
        measured.answers.append(bytes(done.data[_MESSAGE.size :]))
    else:
        measured.failures.append(done.trailers)


def _readable(connections: list["Connection"], timeout: float, *, is_silence_wrong: bool = True) -> list["Connection"]:
    ready: list[Connection] = select.select(connections, (), (), timeout)[0]
    if not ready and is_silence_wrong:
        raise LoadError(f"no answer for {timeout:g} s")
    return ready


class Headers:
    """The header block of a call, as the first request of a connection sends it and as all later ones do.

    >>> Headers("/a.B/C", {}).later[0] == 0x80 | 62 + 6
    True
    """

    def __init__(self, path: str, metadata: dict[str, str]) -> None:
        fields = {
            ":method": "POST",
            ":scheme": "http",
            ":path": path,
            ":authority": "bench",
            "te": "trailers",
            "content-type": "application/grpc",
            "user-agent": "kedge-bench",
            **metadata,
        }
        # Literals with incremental indexing, so that each becomes an entry of the server's table; newest entry first.
        self.first = b"".join(b"\x40" + _text(name) + _text(value) for name, value in fields.items())
        self.later = bytes(0x80 | _FIRST_TABLE_INDEX + len(fields) - 1 - place for place in range(len(fields)))


def _text(text: str) -> bytes:
    """Encode an HPACK string of less than 127 + 128 bytes, without Huffman."""
    raw = text.encode("ascii")
    head = bytes((len(raw),)) if len(raw) < 127 else bytes((127, len(raw) - 127))
    return head + raw


@dataclass(slots=True)
class Answer:
    sent: float
    data: bytearray = field(default_factory=bytearray)
    trailers: bytes = b""
    seconds: float = 0.0


class Connection:
    """One HTTP/2 connection with many streams. Reads what a gRPC server sends and refuses the rest."""

    def __init__(self, address: tuple[str, int], headers: Headers) -> None:
        self._socket = socket.create_connection(address)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._headers, self._block = headers.first, headers.later
        self._open: dict[int, Answer] = {}
        self._next_stream = 1
        self._window = 65_535
        self._held: deque[tuple[bytes, float]] = deque()
        self._unread = b""
        settings = struct.pack(
            ">HIHIHI", _HEADER_TABLE_SIZE, 0, _INITIAL_WINDOW, _LARGE, _MAX_FRAME, 2**24 - 1
        )  # no table: then trailers are literals
        self._out = [_PREFACE, _frame(_SETTINGS, 0, 0, settings)]
        self._credit = 0
        self._allow(_LARGE - 65_535)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def put(self, body: bytes, sent: float) -> None:
        """Queue one request; `flush` sends it, as soon as the server's flow-control window admits it."""
        self._held.append((body, sent))
        self._release()

    def _release(self) -> None:
        while self._held and len(self._held[0][0]) + _MESSAGE.size <= self._window:
            self._send(*self._held.popleft())

    def _send(self, body: bytes, sent: float) -> None:
        stream = self._next_stream
        self._next_stream += 2
        self._window -= len(body) + _MESSAGE.size
        self._open[stream] = Answer(sent)
        self._out.append(_frame(_HEADERS, _END_HEADERS, stream, self._headers))
        self._out.append(_frame(_DATA, _END_STREAM, stream, _MESSAGE.pack(0, len(body)) + body))
        self._headers = self._block

    def flush(self) -> None:
        if self._out:
            self._socket.sendall(b"".join(self._out))
            self._out.clear()

    def receive(self) -> list[Answer]:
        """Read what is there; give the answers that are complete."""
        chunk = self._socket.recv(1 << 18)
        if not chunk:
            raise LoadError("the server closed the connection")
        now = time.perf_counter()
        buffer = self._unread + chunk
        done: list[Answer] = []
        at, end = 0, len(buffer)
        while end - at >= 9:
            high, low, kind, flags, stream = _FRAME.unpack_from(buffer, at)
            length = high << 8 | low
            if end - at < 9 + length:
                break
            self._take(kind, flags, stream, buffer[at + 9 : at + 9 + length], done)
            at += 9 + length
        self._unread = buffer[at:]
        for answer in done:
            answer.seconds = now - answer.sent
        return done

    def _take(self, kind: int, flags: int, stream: int, payload: bytes, done: list[Answer]) -> None:
        if kind in (_DATA, _HEADERS):
            if flags & _PADDED:
                raise LoadError("a padded frame, which a gRPC server does not send")
            answer = self._open[stream]
            if kind == _DATA:
                answer.data += payload
                self._allow(len(payload))
            if flags & _END_STREAM:
                answer.trailers = payload if kind == _HEADERS else b""
                done.append(self._open.pop(stream))
        elif kind == _SETTINGS and not flags & _ACK:
            self._out.append(_frame(_SETTINGS, _ACK, 0, b""))
        elif kind == _PING and not flags & _ACK:
            self._out.append(_frame(_PING, _ACK, 0, payload))
        elif kind == _WINDOW_UPDATE and stream == 0:
            self._window += int.from_bytes(payload)
            self._release()
        elif kind == _RST_STREAM and stream in self._open:  # else the answer came before the request had been read
            answer = self._open.pop(stream)
            answer.trailers = b"RST_STREAM " + payload
            done.append(answer)
        elif kind == _GOAWAY:
            raise LoadError(f"the server says good-bye: {payload!r}")

    def _allow(self, size: int) -> None:
        """Give the server back what it has used of the connection's window, in large pieces."""
        self._credit += size
        if self._credit >= 1 << 20:
            self._out.append(_frame(_WINDOW_UPDATE, 0, 0, struct.pack(">I", self._credit)))
            self._credit = 0


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    length = len(payload)
    return _FRAME.pack(length >> 8, length & 0xFF, kind, flags, stream) + payload
