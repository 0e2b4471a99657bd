"""A receiver of webhooks that hangs, drips and fails until it recovers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Self

HANG_SECONDS = 12.0
"""Longer than a delivery may take."""


class Receiver:
    """An HTTP server that takes events; each fifth request or so goes wrong in one of three ways."""

    def __init__(self) -> None:
        self.events: set[int] = set()
        self._numbers: Iterator[int] = count()
        self._recovered = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                # `mail.sent-ID-TIME`: the same for each attempt.
                receiver._answer(self, int(self.headers["Webhook-Id"].split("-")[-2]))

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/events"

    def recover(self) -> None:
        """Answer everything from now on."""
        self._recovered.set()

    def _answer(self, handler: BaseHTTPRequestHandler, event: int) -> None:
        number = next(self._numbers)
        if not self._recovered.is_set() and number % 16 == 0:
            handler.send_error(500)
            return
        if not self._recovered.is_set() and number % 40 == 1:
            self._recovered.wait(HANG_SECONDS)
            return
        if not self._recovered.is_set() and number % 40 == 2:
            # The sender hangs up when its time is over, or dies.
            with suppress(OSError):
                for byte in b"HTTP/1.1 200 OK\r\n" * 4:
                    handler.wfile.write(bytes([byte]))
                    time.sleep(0.2)
            return
        self.events.add(event)
        handler.send_response(200)
        handler.end_headers()

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
