"""Run a real PgBouncer in transaction mode for the duration of a test."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from tests.postgres import TIMEOUT_SECONDS

ACCOUNT = "daemon"
"""PgBouncer refuses to run as root."""


class PgBouncer:
    """A pooler that lends a few server connections of one database, each for one transaction."""

    def __init__(self, database: str, pool_size: int = 4) -> None:
        target = urlsplit(database)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self._folder = Path(tempfile.mkdtemp(prefix="pgbouncer-"))
        self._folder.chmod(0o755)
        config = self._folder / "pgbouncer.ini"
        config.write_text(
            f"""
[databases]
* = host=127.0.0.1 port={target.port} user={target.username}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {pool_size}
max_client_conn = 200
logfile =
"""
        )
        as_root = os.geteuid() == 0
        self._process = subprocess.Popen(
            [shutil.which("pgbouncer") or "/usr/sbin/pgbouncer", "--quiet", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=ACCOUNT if as_root else None,
        )
        self.url = f"postgresql://postgres@127.0.0.1:{port}{target.path}"
        until = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > until:
                    self.stop()
                    raise
                time.sleep(0.02)

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(TIMEOUT_SECONDS)
        shutil.rmtree(self._folder, ignore_errors=True)
