"""The HTTP server: one per data folder on SQLite, any number of replicas on PostgreSQL, or inside a host program."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import gc
import json
import logging
import os
import re
import signal
import socket
import threading
import types
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from shopfloor.app import Floor, build, issue_operator_token, prepare_data_folder
from shopfloor.errors import FloorTaken, ShopfloorError, StartRefused, Unauthenticated, UnsafeBind
from shopfloor.settings import Settings
from shopfloor.toolkit import Credential
from shopfloor.transports import http

DRAIN_SECONDS = 5
STOP_SECONDS = 3
HEAD_LIMIT = 64 * 1024
REQUEST_SECONDS = 30.0
"""How long a request may take to arrive; who sends slower keeps a place that others need."""

OPERATOR_TOKEN = "operator.token"  # nosec B105: the name of a file
LOCK = "serve.lock"

_log = logging.getLogger("shopfloor.server")


@asynccontextmanager
async def embedded(floor: Floor, host: str, port: int) -> AsyncIterator[str]:
    """Serve inside a host program; gives the URL once it is listening."""
    with listening(host, port) as bound:
        server = _Embedded(configured(http.application(floor)))
        serving = asyncio.create_task(server.serve(sockets=[bound]))
        try:
            while not server.started:
                if serving.done():
                    serving.result()
                    raise StartRefused("The server ended before it was ready")
                await asyncio.sleep(0.005)
            yield url_of(bound)
        finally:
            floor.interrupt()
            server.should_exit = True
            await serving


def serve(settings: Settings, ready: Callable[[Floor, str], None]) -> None:
    """Serve until a signal: lock, check, migrate, outbox, bind, listen, ready; and back."""
    prepare_data_folder(settings)
    with only_server(settings) as note:
        floor = build(settings)
        try:
            check_bind(floor)
            with listening(settings.host, settings.port) as bound:
                url = url_of(bound)
                note(url)
                operator_token(floor)
                floor.start("serve", url)
                server = _Announced(configured(http.application(floor)), floor, lambda: ready(floor, url))
                _collect_less()
                server.run(sockets=[bound])
        finally:
            _stop(floor)


def _stop(floor: Floor) -> None:
    """Stop the floor. A call that cannot be ended is left behind, and what others have written is kept."""

    def leave() -> None:
        _log.warning("calls that did not end within %s s were left behind", DRAIN_SECONDS + STOP_SECONDS)
        with contextlib.suppress(ShopfloorError):
            floor.works.store.flush()
        os._exit(0)

    watch = threading.Timer(STOP_SECONDS, leave)
    watch.daemon = True
    watch.start()
    floor.stop()
    watch.cancel()


def _collect_less() -> None:
    """Garbage is looked for less often, and not among what is there from the start: a busy server spent 8 % on it."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


def check_bind(floor: Floor) -> None:
    """A floor that other machines can reach needs credentials first."""
    if not floor.settings.loopback and not floor.identity.needs_credential():
        raise UnsafeBind(
            f"Refusing to listen on {floor.settings.host} without any credential: everybody there could act as the "
            "operator. Issue a token first: shopfloor agent add NAME --type SUPERVISOR"
        )


def operator_token(floor: Floor) -> str:
    """The operator's own token, from its file; made when there is none that works."""
    path = floor.settings.data / OPERATOR_TOKEN
    if path.exists():
        token = path.read_text().strip()
        with contextlib.suppress(Unauthenticated):
            floor.identity.authenticate(Credential(token=token))
            return token
    token = issue_operator_token(floor)
    write_private(path, token + "\n")
    return token


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    temporary.replace(path)


@contextmanager
def only_server(settings: Settings) -> Iterator[Callable[[str], None]]:
    """One server per SQLite data folder; the second one is told where the first one is."""
    if not settings.database_url.startswith("sqlite"):
        yield lambda url: None
        return
    with (settings.data / LOCK).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise FloorTaken(_taken(file, settings)) from None
        yield lambda url: _note(file, url)
        file.truncate(0)


def _taken(file: IO[str], settings: Settings) -> str:
    file.seek(0)
    try:
        first = json.loads(file.read())
        where = f"at {first['url']} (process {first['pid']})"
    except (ValueError, KeyError):
        where = "and is just starting"
    return (
        f"Another server serves {settings.data} already, {where}. Use that one, stop it, or give this one a data "
        "folder of its own with --data"
    )


def _note(file: IO[str], url: str) -> None:
    file.truncate(0)
    file.write(json.dumps({"url": url, "pid": os.getpid()}))
    file.flush()


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A socket that accepts connections already."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(2048)
        bound.setblocking(False)
        yield bound
    except OverflowError as error:
        raise StartRefused(f"Cannot listen on {host}:{port}: {error}") from error
    except OSError as error:
        if error.errno not in (98, 48, 13, 99, 49) and not isinstance(error, socket.gaierror):
            raise
        raise StartRefused(
            f"Cannot listen on {host}:{port}: {error.strerror}. Choose another port with --port N (0 takes a free one)"
        ) from error
    finally:
        bound.close()


def url_of(bound: socket.socket) -> str:
    """The URL by which this machine reaches the socket."""
    host, port = bound.getsockname()[:2]
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # nosec B104
    return f"http://{name}:{port}"


def configured(app: ASGIApp) -> uvicorn.Config:
    """How an application is served."""
    return uvicorn.Config(
        app,
        http=_Protocol,
        ws="none",
        loop="uvloop",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )


_TOO_LATE = (
    b"HTTP/1.1 408 Request Timeout\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 50\r\n"
    b"connection: close\r\n\r\nThe request took too long to arrive; send it anew."
)


class _Protocol(HttpToolsProtocol):
    """HTTP whose requests have an end, in size and in time; the parser alone would wait for any amount of them."""

    _pending = 0
    _in_head = False
    _in_body = False
    _arriving = True
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._arriving = False
        self._watch()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._pending += len(data)
        super().data_received(data)
        self._watch()
        if self._pending > HEAD_LIMIT and not self.transport.is_closing():
            if self._in_head:
                self.send_400_response("The head of the request is too long.")
            else:
                self.transport.close()

    def _watch(self) -> None:
        """Keep the time while a request is arriving; one that comes in one piece needs no clock."""
        if self._arriving and self._late is None:
            self._late = self.loop.call_later(REQUEST_SECONDS, self._too_late)
        elif not self._arriving and self._late is not None:
            self._late.cancel()
            self._late = None

    def _too_late(self) -> None:
        if self._in_head or (self._in_body and not self.cycle.response_started):
            self.transport.write(_TOO_LATE)
        self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._pending, self._in_head, self._in_body, self._arriving = 0, True, False, True

    def on_headers_complete(self) -> None:
        self._pending, self._in_head, self._in_body = 0, False, True
        if not self.url.startswith(b"/"):
            self._believe_the_target()
        super().on_headers_complete()

    def _believe_the_target(self) -> None:
        """A target with a host goes before the header of that name, as the protocol has it."""
        _, scheme, rest = self.url.partition(b"://")
        if scheme:
            host = re.split(rb"[/?#]", rest, maxsplit=1)[0]
            self.headers[:] = [header for header in self.headers if header[0] != b"host"] + [(b"host", host)]

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing is upgraded here, and nothing is missing for it; whoever asks is answered over HTTP."""

    def on_body(self, body: bytes) -> None:
        self._pending = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._pending, self._arriving = 0, False
        super().on_message_complete()


class _Embedded(uvicorn.Server):
    """A server inside a host program: the signals stay the host's."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Announced(uvicorn.Server):
    """A server of its own: says when it is ready; a first signal stops it, a second one ends it at once."""

    def __init__(self, config: uvicorn.Config, floor: Floor, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._floor = floor
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            await asyncio.to_thread(self._ready)  # it may look into the store

    def handle_exit(self, sig: int, frame: types.FrameType | None) -> None:
        if self.should_exit:
            os._exit(128 + sig)
        self.should_exit = True
        self._floor.interrupt()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {sig: signal.signal(sig, self.handle_exit) for sig in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)
