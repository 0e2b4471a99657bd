"""Run a command in a sandbox without a network, and connect one loopback port to a socket of the runner.

    relay.py SOCKET PORT COMMAND [ARGUMENT …]

The sandbox has its own loopback. The agent finds its tools there at the same URL as outside, and nothing else. It uses
only the standard library, because it starts with every agent. The exit code is the command's own.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess  # nosec B404 # starting a command is what it is for
import sys
import threading
from contextlib import suppress

_CHUNK_BYTES = 64 * 1024


def main(arguments: list[str]) -> int:
    """Run the command and return its exit code."""
    path, port, command = arguments[0], int(arguments[1]), arguments[2:]
    listener = socket.create_server(("127.0.0.1", port))
    # The command gets these signals as well, and ends on them. Handlers instead of SIG_IGN, which it would inherit.
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(ignored, lambda *_: None)
    try:
        child = subprocess.Popen(command)  # nosec B603 # an argument vector, no shell
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return 127
    # If we kept the command's standard streams, the runner would never read end of file.
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    threading.Thread(target=_accept, args=(listener, path), daemon=True).start()
    code = child.wait()
    return 128 - code if code < 0 else code


def _accept(listener: socket.socket, path: str) -> None:
    while True:
        near, _ = listener.accept()
        far = socket.socket(socket.AF_UNIX)
        try:
            far.connect(path)
        except OSError:
            near.close()
            far.close()
            continue
        for source, target in ((near, far), (far, near)):
            threading.Thread(target=_copy, args=(source, target), daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Copy until the end of the stream. The other direction continues."""
    with suppress(OSError):
        while chunk := source.recv(_CHUNK_BYTES):
            target.sendall(chunk)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
