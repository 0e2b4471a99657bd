"""A real PostgreSQL server that lives as long as the tests."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg

CHECKOUT = Path(__file__).resolve().parent.parent
PATIENCE = 120.0
ACCOUNTS = ("postgres", "nobody")


class PostgresServer:
    """A throw-away server on a free port of this machine. It starts or raises; it is never skipped.

    With `fsync` it survives what a server should survive, and is slower.
    """

    def __init__(self, *, fsync: bool = False) -> None:
        self._fsync = fsync
        self._account = _account()
        self._folder = _folder(self._account)
        self._numbers = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        try:
            self._run("initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
            self.start()
        except BaseException:
            self.stop()
            raise

    def create_database(self) -> str:
        """The address of a new, empty database."""
        name = f"floor_{next(self._numbers)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as conn:
            conn.execute(f"CREATE DATABASE {name}".encode())
        return self.url(name)

    def url(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Return once the server answers; started again it keeps its port."""
        self.port = self.port or _free_port()
        self._process = self._popen("postgres", "-D", self._data, *self._options())
        until = time.monotonic() + PATIENCE
        while True:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=5).close()
                return
            except psycopg.OperationalError as error:
                if self._process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"PostgreSQL did not start:\n{self.log()}") from error
                time.sleep(0.02)

    def halt(self) -> None:
        """Stop at once, as in a crash; `start` brings the server back with its databases."""
        self._end()

    def stop(self) -> None:
        """Stop, and leave nothing behind."""
        self._end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def log(self) -> str:
        return (self._folder / "log").read_text(errors="replace")

    @property
    def _data(self) -> str:
        return str(self._folder / "data")

    def _options(self) -> list[str]:
        options = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "on" if self._fsync else "off",
            "max_connections": 200,
            "shared_buffers": "32MB",
            "dynamic_shared_memory_type": "mmap",
            "log_min_messages": "warning",
            "autovacuum": "off",
            "wal_level": "minimal",
            "max_wal_senders": 0,
        }
        return [part for name, value in options.items() for part in ("-c", f"{name}={value}")]

    def _end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(PATIENCE)
        self._process = None

    def _run(self, program: str, *arguments: str) -> None:
        if self._popen(program, *arguments).wait(PATIENCE) != 0:
            raise RuntimeError(f"{program} failed:\n{self.log()}")

    def _popen(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(
                [_program(program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                user=self._account,
                group=None if self._account is None else pwd.getpwnam(self._account).pw_gid,
                extra_groups=None if self._account is None else [],
                env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"},
            )


def _account() -> str | None:
    """Whom to run as: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    for name in ACCOUNTS:
        if name in known:
            return name
    raise RuntimeError(f"PostgreSQL does not run as root, and none of {ACCOUNTS} exists.")


def _folder(account: str | None) -> Path:
    """A new folder that the account can reach and write to."""
    for parent in (CHECKOUT / ".cache", Path(tempfile.gettempdir())):
        parent.mkdir(exist_ok=True)
        if account is None or all(above.stat().st_mode & 0o001 for above in (parent, *parent.parents)):
            folder = Path(tempfile.mkdtemp(prefix="postgres-", dir=parent))
            if account is not None:
                shutil.chown(folder, account)
            return folder
    raise RuntimeError("There is no folder that an unprivileged account could reach.")


def _program(name: str) -> str:
    """Where a program of PostgreSQL is: Debian keeps them off the PATH."""
    found = shutil.which("pg_config")
    bindir = subprocess.run([found, "--bindir"], check=True, capture_output=True, text=True).stdout if found else ""
    newest = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: -float(folder.parent.name))
    for folder in (bindir.strip(), *map(str, newest)):
        if folder and (found := shutil.which(name, path=folder)):
            return found
    if found := shutil.which(name):
        return found
    raise RuntimeError(f"'{name}' of PostgreSQL was not found; install the server package.")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
