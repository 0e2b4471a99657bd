"""An HTTP server that records requests, for tests of outgoing requests."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver(ThreadingHTTPServer):
    """A server that records requests and answers each with the same response."""

    def __init__(self, status: int = 200, body: bytes = b"{}", **headers: str) -> None:
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                content = self.rfile.read(int(self.headers.get("content-length", 0)))
                sent = {name.lower(): value for name, value in self.headers.items()}
                receiver.requests.append((self.command, self.path, sent, content))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with suppress(OSError):  # the client has read enough
                    self.wfile.write(body)

            do_GET = do_POST = answer  # noqa: N815 - the standard library's names

            def log_message(self, *_: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def start_receiver(status: int = 200, body: bytes = b"{}", **headers: str) -> Iterator[Receiver]:
    receiver = Receiver(status, body, **headers)
    thread = threading.Thread(target=receiver.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.shutdown()
        receiver.server_close()
        thread.join()
