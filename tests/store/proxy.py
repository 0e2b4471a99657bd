"""A TCP proxy that can cut connections."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from urllib.parse import urlsplit

from shopfloor.store import Connection
from shopfloor.store.postgres_connection import PostgresConnection


class Proxy:
    """Forwards bytes until a test cuts a connection, before or after its next request reaches the server."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._server = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = url.replace(f":{parts.port}/", f":{self._listener.getsockname()[1]}/")
        self._cuts: dict[int, str] = {}
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_before_the_next_request(self, conn: Connection) -> None:
        self._cuts[_local_port(conn)] = "request"

    def cut_after_the_next_request(self, conn: Connection) -> None:
        self._cuts[_local_port(conn)] = "answer"

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, (_, port) = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._server)
            except OSError:
                client.close()
                continue
            for what, source, target in (("request", client, server), ("answer", server, client)):
                threading.Thread(target=self._forward, args=(what, port, source, target), daemon=True).start()

    def _forward(self, what: str, port: int, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while (data := source.recv(65536)) and self._cuts.get(port) != what:
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def _local_port(conn: Connection) -> int:
    """Return the local port of a connection, by which the proxy knows it."""
    assert isinstance(conn, PostgresConnection)
    with socket.socket(fileno=os.dup(conn.raw.pgconn.socket)) as line:
        port: int = line.getsockname()[1]
        return port
