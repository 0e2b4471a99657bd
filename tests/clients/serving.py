"""Run the fixture server in a process of its own."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from tests.clients.node import CHECKOUT


@contextmanager
def serving(mount: str) -> Iterator[str]:
    """Serve the fixture server with a mount of endpoint.py and return its URL."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.clients.endpoint", mount, folder]
        environment = {**os.environ, "PYTHONPATH": f"{CHECKOUT / 'src'}:{CHECKOUT}"}
        with subprocess.Popen(command, cwd=CHECKOUT, env=environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                yield process.stdout.readline().strip()
            finally:
                process.terminate()
