"""The fixture server in a process of its own."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from tests.clients.node import CHECKOUT


@contextmanager
def serving(mount: str) -> Iterator[str]:
    """The address of the fixture server, put on HTTP by one of the ways in endpoint.py."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.clients.endpoint", mount, folder]
        ours = {**os.environ, "PYTHONPATH": f"{CHECKOUT / 'src'}:{CHECKOUT}"}
        with subprocess.Popen(command, cwd=CHECKOUT, env=ours, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                yield process.stdout.readline().strip()
            finally:
                process.terminate()
