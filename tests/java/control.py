"""Let a JVM do things to its sidecar: one HTTP POST per verb, `/freeze/support`, answered with a text."""

import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def controlled(verbs: Mapping[str, Callable[[str], str]]) -> Iterator[str]:
    """Serve the verbs on a free port of this machine; gives the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            """Do what the path says; a failure is answered with its traceback."""
            _, verb, *rest = self.path.split("/")
            try:
                status, text = HTTPStatus.OK, verbs[verb]("/".join(rest))
            except Exception:  # noqa: BLE001 - the JVM's test reports it
                status, text = HTTPStatus.INTERNAL_SERVER_ERROR, traceback.format_exc()
            body = text.encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.send_header("connection", "close")  # or a JVM's next POST may meet a connection that closes just then
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, name="control")
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
