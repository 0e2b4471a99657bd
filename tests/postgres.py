"""Run a real PostgreSQL server for the duration of the tests."""

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
TIMEOUT_SECONDS = 120.0
ACCOUNTS = ("postgres", "daemon")


class PostgresServer:
    """A throw-away server on a free port of this machine. A failed start raises; no test is skipped.

    With `fsync` it is durable, and slower. With `replicated` it can have standbys, and with `primary` it is one.
    """

    def __init__(self, *, fsync: bool = False, replicated: bool = False, primary: PostgresServer | None = None) -> None:
        self._fsync = fsync
        self._replicated = replicated or primary is not None
        self._account = _choose_account()
        self._folder = _create_folder(self._account)
        self._numbers = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        try:
            if primary is None:
                self._run("initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
            else:
                source = ("-h", "127.0.0.1", "-p", str(primary.port), "-U", "postgres")
                self._run("pg_basebackup", *source, "-D", self._data, "-R", "-X", "stream", "-c", "fast", "-N")
            self.start()
        except BaseException:
            self.stop()
            raise

    def create_database(self, *, ordinary_role: bool = False) -> str:
        """Create an empty database and return its URL, by default for a superuser, whom row-level security spares."""
        name = f"floor_{next(self._numbers)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as conn:
            conn.execute(f"CREATE DATABASE {name}".encode())
            if ordinary_role:
                conn.execute(f"CREATE ROLE {name} LOGIN".encode())
                conn.execute(f"ALTER DATABASE {name} OWNER TO {name}".encode())
        url = self.url(name)
        return url.replace("postgres@", f"{name}@") if ordinary_role else url

    def require_standby(self) -> None:
        """Acknowledge a commit only once a standby has it, from now on."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as conn:
            conn.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            conn.execute("SELECT pg_reload_conf()")

    def promote(self) -> None:
        """Make a standby the primary, and wait until it takes writes."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as conn:
            assert conn.execute("SELECT pg_promote(true, %s)", (int(TIMEOUT_SECONDS),)).fetchone() == (True,)

    def set_read_only(self, read_only: bool) -> None:
        """Let new transactions write or not, as on a primary that was demoted."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as conn:
            conn.execute("SET default_transaction_read_only = off")
            conn.execute(f"ALTER SYSTEM SET default_transaction_read_only = {'on' if read_only else 'off'}".encode())
            conn.execute("SELECT pg_reload_conf()")

    def url(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start the server and wait until it answers. A restart keeps the port."""
        self.port = self.port or _find_free_port()
        self._process = self._popen("postgres", "-D", self._data, *self._options())
        until = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=5).close()
                return
            except psycopg.OperationalError as error:
                if self._process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"PostgreSQL did not start:\n{self.log()}") from error
                time.sleep(0.02)

    def halt(self) -> None:
        """Stop immediately, as in a crash. `start` recovers the databases."""
        self._end()

    def stop(self) -> None:
        """Stop the server and delete its files."""
        self._end()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

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
            "wal_level": "replica" if self._replicated else "minimal",
            "max_wal_senders": 4 if self._replicated else 0,
        }
        return [part for name, value in options.items() for part in ("-c", f"{name}={value}")]

    def _end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(TIMEOUT_SECONDS)
        self._process = None

    def _run(self, program: str, *arguments: str) -> None:
        if self._popen(program, *arguments).wait(TIMEOUT_SECONDS) != 0:
            raise RuntimeError(f"{program} failed:\n{self.log()}")

    def _popen(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(
                [_find_program(program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                user=self._account,
                group=None if self._account is None else pwd.getpwnam(self._account).pw_gid,
                extra_groups=None if self._account is None else [],
                env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"},
            )


def _choose_account() -> str | None:
    """Choose the account to run as, since PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    for name in ACCOUNTS:
        if name in known:
            return name
    raise RuntimeError(f"PostgreSQL does not run as root, and none of {ACCOUNTS} exists.")


def _create_folder(account: str | None) -> Path:
    """Create a folder that the account can write to."""
    for parent in (CHECKOUT / ".cache", Path(tempfile.gettempdir())):
        parent.mkdir(exist_ok=True)
        if account is None or all(above.stat().st_mode & 0o001 for above in (parent, *parent.parents)):
            folder = Path(tempfile.mkdtemp(prefix="postgres-", dir=parent))
            if account is not None:
                shutil.chown(folder, account)
            return folder
    raise RuntimeError("No folder is accessible to an unprivileged account.")


def _find_program(name: str) -> str:
    """Find a program of PostgreSQL, which Debian keeps off the PATH."""
    found = shutil.which("pg_config")
    bindir = subprocess.run([found, "--bindir"], check=True, capture_output=True, text=True).stdout if found else ""
    newest = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: -float(folder.parent.name))
    for folder in (bindir.strip(), *map(str, newest)):
        if folder and (found := shutil.which(name, path=folder)):
            return found
    if found := shutil.which(name):
        return found
    raise RuntimeError(f"'{name}' of PostgreSQL was not found; install the server package.")


def _find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
