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
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from shopfloor.app import build, prepare_data_folder
from shopfloor.engine import Engine
from shopfloor.errors import AlreadyRunning, BadSettings, ShopfloorError, StartupError, Unauthenticated, UnsafeBind
from shopfloor.settings import Settings, is_loopback
from shopfloor.toolkit import DISCONNECTED_KEY, Credential
from shopfloor.transports import http
from shopfloor.transports.workers import run_workers

DRAIN_SECONDS = 5
STOP_SECONDS = 3
BACKLOG = 2048
FLUSH_SECONDS = 1
MAX_HEAD_BYTES = 64 * 1024
# How long a request may take to arrive; a slower client would occupy a connection that others need.
REQUEST_TIMEOUT_SECONDS = 30.0
LATE_TIMER_SECONDS = 1.0
"""A timer that is this late says nothing about the client. After 40 s of suspension, whole requests were answered with
408, as if their clients had been slow."""

WRITE_TIMEOUT_SECONDS = 30.0
MIN_WRITE_BYTES = 16 * 1024
"""Minimum that a client must read of a response within WRITE_TIMEOUT_SECONDS, unless it reads all of it."""

OPERATOR_TOKEN_FILE = "operator.token"  # nosec B105 # the name of a file
LOCK_FILE = "serve.lock"

_log = logging.getLogger("shopfloor.server")


@asynccontextmanager
async def serve_embedded(engine: Engine, host: str, port: int) -> AsyncIterator[str]:
    """Serve inside a host program; yield the URL once it accepts connections."""
    check_exposure(engine, host)
    with open_socket(host, port) as bound:
        server = _EmbeddedServer(uvicorn_config(http.build_app(engine), engine.settings.trusted_proxies))
        serving = asyncio.create_task(server.serve(sockets=[bound]))
        try:
            while not server.started:
                if serving.done():
                    serving.result()
                    raise StartupError("The server ended before it was ready")
                # uvicorn has no event for this, only a flag.
                await asyncio.sleep(0.005)
            yield socket_url(bound)
        finally:
            # uvicorn drains open requests before it stops, and a call may wait for 55 s.
            engine.cancel_waits()
            server.should_exit = True
            await _outlast(serving)


async def _outlast(task: asyncio.Task[None]) -> None:
    """Wait for a task to end, even if this wait is cancelled."""
    # A cancelled server's socket would be closed while the event loop still watches it. The next file with the same
    # descriptor is then never polled: a crew that ended while an agent's server stopped waited forever for git.
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()


def serve(settings: Settings, ready: Callable[[Engine, str], None]) -> None:
    """Serve until a signal: lock, check, migrate, bind and start, then undo each step in reverse order."""
    # The order matters: the lock before the store is migrated, the check before the socket is open, and the URL in the
    # lock file before the server announces it.
    prepare_data_folder(settings)
    with lock_data_folder(settings, to_serve=True) as record_url, _building(settings) as engine:
        check_exposure(engine, settings.host)
        with open_socket(settings.host, settings.port) as bound:
            record_url(socket_url(bound))
            _run_server(engine, bound, ready)


def serve_workers(settings: Settings, start: Callable[[], None], ready: Callable[[Engine, str], None]) -> None:
    """Serve with `settings.workers` processes until a signal. Each calls `start` first; the first also calls
    `ready`."""
    if settings.database_url.startswith("sqlite"):
        raise BadSettings("workers: more than one needs PostgreSQL, since a SQLite file has one writer")
    prepare_data_folder(settings)
    with bind_socket(settings.host, settings.port) as bound:

        def run(number: int, report_ready: Callable[[], None]) -> None:
            start()

            def announce(engine: Engine, url: str) -> None:
                if number == 0:
                    ready(engine, url)
                report_ready()

            with _building(settings) as engine:
                check_exposure(engine, settings.host)
                bound.listen(BACKLOG)
                _run_server(engine, bound, announce)

        run_workers(settings.workers, run)


@contextmanager
def _building(settings: Settings) -> Iterator[Engine]:
    """Build an engine, and stop it at the end."""
    engine = build(settings, migrate=True)
    try:
        yield engine
    finally:
        watchdog = _abandon_after(STOP_SECONDS, engine)
        engine.stop()
        watchdog.cancel()
    if engine.database.store.failure is not None:
        raise engine.database.store.failure


def _run_server(engine: Engine, bound: socket.socket, ready: Callable[[Engine, str], None]) -> None:
    """Serve on the socket until a signal."""
    url = socket_url(bound)
    ensure_operator_token(engine)
    engine.start("serve", engine.settings.public_url or url)
    config = uvicorn_config(http.build_app(engine), engine.settings.trusted_proxies)
    server = _StandaloneServer(config, engine, lambda: ready(engine, url))
    # Collect garbage less often, and never scan the objects of startup: a busy server spent 8 % of its time on it.
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    server.run(sockets=[bound])


def _abandon_after(seconds: float, engine: Engine) -> threading.Timer:
    """Exit after that time, even if calls are still running. Stuck calls are abandoned; completed writes are kept."""

    def flush() -> None:
        with contextlib.suppress(ShopfloorError):
            # Answered calls may have log rows that wait for the next commit.
            engine.database.store.flush()

    def abandon() -> None:
        _log.warning("abandoned calls that did not end within %s s", DRAIN_SECONDS + STOP_SECONDS)
        # On a separate thread: with a stuck store, the flush took 60 s.
        flushing = threading.Thread(target=flush, daemon=True)
        flushing.start()
        flushing.join(FLUSH_SECONDS)
        # os._exit runs no exit handlers. This call writes the queued log lines, and waits at most a second.
        logging.shutdown()
        os._exit(0)

    watchdog = threading.Timer(seconds, abandon)
    watchdog.daemon = True
    watchdog.start()
    return watchdog


def check_exposure(engine: Engine, host: str) -> None:
    """Refuse to serve other machines without credentials."""
    if engine.identity.needs_credential():
        return
    reason = "" if is_loopback(host) else f"listen on {host}"
    # A proxy on this machine can reach a server on loopback, and makes the requests of others look local.
    for name in ("public_url", "trusted_proxies", "allowed_hosts", "allowed_origins"):
        if getattr(engine.settings, name):
            reason = reason or f"serve others (setting {name})"
    if reason:
        raise UnsafeBind(
            f"Refusing to {reason} without credentials: anyone who can reach it could act as the operator. "
            "Issue a token first: shopfloor agent add NAME --type SUPERVISOR"
        )


def ensure_operator_token(engine: Engine) -> str:
    """Return the operator's token from its file, or issue one if that is missing or invalid."""
    path = engine.settings.data / OPERATOR_TOKEN_FILE
    # A token from a store that was deleted or replaced no longer works; a new one is issued.
    if path.exists():
        token = path.read_text().strip()
        with contextlib.suppress(Unauthenticated):
            engine.identity.authenticate(Credential(token=token))
            return token
    token = str(engine.call_desk("token_issue_operator", {}, "server")["token"])
    write_private(path, token + "\n")
    return token


def write_private(path: Path, text: str) -> None:
    """Write a file atomically, readable by its owner only."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    # The mode is set when the file is created: with a later chmod it would be readable for a moment.
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    temporary.replace(path)


@contextmanager
def lock_data_folder(settings: Settings, *, to_serve: bool = False) -> Iterator[Callable[[str], None]]:
    """Allow one server per SQLite data folder, or a command that needs it alone; the error names the first."""
    if not settings.database_url.startswith("sqlite"):
        yield lambda url: None
        return
    # "w" would truncate the file of the server that holds the lock. The kernel releases the lock when the process ends,
    # so a crash leaves nothing to clean up.
    with (settings.data / LOCK_FILE).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            try:
                first = json.loads(file.read())
                where = f"at {first['url']} (process {first['pid']})"
            except (ValueError, KeyError):  # it has locked the file but not written to it yet
                where = "and is just starting"
            if not to_serve:
                raise AlreadyRunning(f"A server uses {settings.data}, {where}. Stop it first") from None
            raise AlreadyRunning(
                f"Another server already uses {settings.data}, {where}", rule="data_folder_taken"
            ) from None

        def record_url(url: str) -> None:
            file.truncate(0)
            file.write(json.dumps({"url": url, "pid": os.getpid()}))
            file.flush()

        yield record_url
        file.truncate(0)


@contextmanager
def open_socket(host: str, port: int) -> Iterator[socket.socket]:
    """Bind a socket that already accepts connections."""
    with bind_socket(host, port) as bound:
        # Connections are accepted from here on, before the routes are built: clients wait instead of being refused.
        bound.listen(BACKLOG)
        yield bound


@contextmanager
def bind_socket(host: str, port: int) -> Iterator[socket.socket]:
    """Bind a socket that does not accept connections yet."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.setblocking(False)
        yield bound
    except OverflowError as error:
        raise StartupError(f"Cannot listen on {host}:{port}: {error}") from error
    except OSError as error:
        # EADDRINUSE and EADDRNOTAVAIL, each on Linux and macOS, and EACCES: mistakes of the operator.
        if error.errno not in (98, 48, 13, 99, 49) and not isinstance(error, socket.gaierror):
            raise
        raise StartupError(
            f"Cannot listen on {host}:{port}: {error.strerror}",
            hint="Choose another port: shopfloor serve --port N (0 takes a free one)",
        ) from error
    finally:
        bound.close()


def socket_url(bound: socket.socket) -> str:
    """Return the URL at which this machine reaches the socket."""
    host, port = bound.getsockname()[:2]
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # nosec B104
    return f"http://{name}:{port}"


def uvicorn_config(app: ASGIApp, trusted_proxies: Sequence[str] = ()) -> uvicorn.Config:
    """Return the configuration of the HTTP server."""
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
        # By default uvicorn trusts what every process on this machine says about the client's address.
        proxy_headers=bool(trusted_proxies),
        forwarded_allow_ips=list(trusted_proxies),
        # uvicorn then cancels the remaining requests, and the gate answers them with 503.
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )


_REQUEST_TIMEOUT = (
    b"HTTP/1.1 408 Request Timeout\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 50\r\n"
    b"connection: close\r\n\r\nThe request took too long to arrive; please retry."
)


class _Protocol(HttpToolsProtocol):
    """HTTP with limits on the size and duration of a request head and body; the parser alone has none."""

    _pending = 0
    _in_head = False
    _in_body = False
    _arriving = True
    _timer: asyncio.TimerHandle | None = None
    _timer_due = 0.0
    _write_timer: asyncio.TimerHandle | None = None
    _unread = 0
    """Bytes that the client had not read at the last check; 0 if it has read some since, or had nothing to read."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._update_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._arriving = False
        self._update_timer()
        if self._write_timer is not None:
            self._write_timer.cancel()
        if self.cycle is not None:
            # A call that fails for a transient reason is not retried for a caller that disconnected.
            cast("dict[str, Any]", self.cycle.scope)[DISCONNECTED_KEY] = True
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_writing()

    def resume_writing(self) -> None:
        self._unread = 0
        super().resume_writing()

    def on_response_complete(self) -> None:
        self._unread = 0
        super().on_response_complete()
        self._watch_writing()

    def _watch_writing(self) -> None:
        """Check periodically whether the client reads: while writing is paused, and after each response."""
        # One timer spans many responses: starting one for each response, and pausing it until the last byte is read,
        # cost 5 % of a call.
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(WRITE_TIMEOUT_SECONDS / 2, self._check_writing)

    def _check_writing(self) -> None:
        """Close a connection whose client reads too slowly; closing it cleanly would wait for the client again."""
        self._write_timer = None
        waiting = self.transport.get_write_buffer_size()
        if waiting == 0:
            return
        # While a response is still being written, the waiting bytes may be new. Writing pauses above 64 kB.
        is_whole = self.flow.write_paused or self.cycle.response_complete
        if is_whole and self._unread and self._unread - waiting < MIN_WRITE_BYTES:
            self.transport.abort()
            return
        self._unread = waiting if is_whole else 0
        self._watch_writing()

    def data_received(self, data: bytes) -> None:
        # Bytes since the parser's last event. Limited inside a head; the gate limits bodies.
        self._pending += len(data)
        super().data_received(data)
        self._update_timer()
        if self._pending > MAX_HEAD_BYTES and not self.transport.is_closing():
            if self._in_head:
                self.send_400_response("The request head is too long.")
            else:
                self.transport.close()

    def _update_timer(self) -> None:
        """Run the timer while a request is arriving; a request that arrives in one piece never starts it."""
        if self._arriving and self._timer is None:
            self._timer_due = self.loop.time() + REQUEST_TIMEOUT_SECONDS
            self._timer = self.loop.call_at(self._timer_due, self._on_timeout)
        elif not self._arriving and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timeout(self) -> None:
        # This process was suspended, or too busy to read. The client may have sent everything long ago.
        if self.loop.time() - self._timer_due > LATE_TIMER_SECONDS:
            self._timer = None
            self._update_timer()
            return
        # After a response has started, nothing but closing the connection can report the timeout.
        if self._in_head or (self._in_body and not self.cycle.response_started):
            self.transport.write(_REQUEST_TIMEOUT)
        self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._pending, self._in_head, self._in_body, self._arriving = 0, True, False, True

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers follow the body. RFC 9110 forbids merging them into the headers: a proxy that checks or removes a
        # header, such as Authorization or Forwarded, does not look there.
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._pending, self._in_head, self._in_body = 0, False, True
        _, scheme, rest = self.url.partition(b"://")
        # RFC 9112: the host of an absolute-form target overrides the Host header. The gate checks only the header.
        if scheme and not self.url.startswith(b"/"):
            host = re.split(rb"[/?#]", rest, maxsplit=1)[0]
            self.headers[:] = [header for header in self.headers if header[0] != b"host"] + [(b"host", host)]
        super().on_headers_complete()

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: no upgrade is supported, and the request is answered over HTTP."""

    def on_body(self, body: bytes) -> None:
        self._pending = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._pending, self._arriving = 0, False
        super().on_message_complete()


class _EmbeddedServer(uvicorn.Server):
    """A server inside a host program, which keeps its own signal handlers."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _StandaloneServer(uvicorn.Server):
    """A standalone server: announces that it is ready; the first signal stops it, the second ends it at once."""

    def __init__(self, config: uvicorn.Config, engine: Engine, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._engine = engine
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            # On a thread: it reads from the store, which would block the event loop.
            await asyncio.to_thread(self._ready)

    def handle_exit(self, sig: int, frame: types.FrameType | None) -> None:
        # The second signal: the operator does not want to wait for the drain.
        if self.should_exit:
            os._exit(128 + sig)
        self.should_exit = True
        # Started here, since asyncio itself waits for threads that are stuck in the store.
        _abandon_after(DRAIN_SECONDS + STOP_SECONDS, self._engine)
        self._engine.cancel_waits()

    async def on_tick(self, counter: int) -> bool:
        # From here the store rejects every call. Only a person can repair it, so the server stops.
        return await super().on_tick(counter) or self._engine.database.store.failure is not None

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # SIGHUP: the terminal was closed. Its default action would end the process without a drain.
        signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {sig: signal.signal(sig, self.handle_exit) for sig in signals}
        try:
            yield
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)
