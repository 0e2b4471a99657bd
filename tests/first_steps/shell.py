"""Run the shell examples of a page as a new user does: in a fresh folder, with an empty environment."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
TIMEOUT_SECONDS = 240


def list_blocks(page: str) -> list[tuple[str, list[str]]]:
    """Return the shell examples of a page: each with its heading, as commands without comments."""
    blocks = []
    heading = ""
    text = (CHECKOUT / page).read_text("utf-8")
    for title, code in re.findall(r"^##+ ([^\n]+)$|^```sh\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        heading = title or heading
        joined = code.replace("\\\n", " ")
        commands = [re.sub(r"\s+#\s.*$", "", line).strip() for line in joined.splitlines()]
        if code:
            blocks.append((heading, [command for command in commands if command]))
    return blocks


def install_package(folder: Path) -> Path:
    """Install the package from the checkout, without a package index, and return the folder of its programs."""
    venv = folder / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    # The dependencies are those of the tests. Their editable install is not seen: a path does not bring its .pth files.
    (venv / "lib" / version / "site-packages" / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--quiet", "--python", venv / "bin" / "python", "install"),
            *("--no-index", "--no-deps", "--no-build-isolation", CHECKOUT),
        ],
        check=True,
        timeout=TIMEOUT_SECONDS,
    )
    # A program of a dependency is looked for beside Python.
    (venv / "bin" / "rg").symlink_to(Path(sys.executable).with_name("rg"))
    return venv / "bin"


@dataclass(slots=True)
class Shell:
    """Runs commands in a folder, with an environment that has nothing of this one but the path."""

    folder: Path
    programs: Path
    home: Path
    commands: int = 0
    log: list[str] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": f"{self.programs}:{os.defpath}",
            "HOME": str(self.home),
            "SHOPFLOOR_PORT": "0",
            "SHOPFLOOR_EMBEDDINGS": "off",
            "BROWSER": "true",
        }

    def run(self, command: str) -> str:
        """Run one command, which must succeed, and return what it printed."""
        self.commands += 1
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        self.log.append(f"$ {command}\n{done.stdout}")
        return done.stdout

    @contextlib.contextmanager
    def serve(self, command: str) -> Iterator[str]:
        """Run a command that serves, and yield the address that it prints."""
        self.commands += 1
        output = self.home / "serve.log"
        with output.open("w") as file:
            server = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=self.folder,
                env=self.environment,
                stdout=file,
                stderr=file,
                stdin=subprocess.DEVNULL,
            )
        try:
            deadline = time.monotonic() + TIMEOUT_SECONDS
            while not (found := re.search(r"http://[\w.]+:\d+", output.read_text())):
                assert server.poll() is None, output.read_text()
                assert time.monotonic() < deadline, output.read_text()
                time.sleep(0.05)
            yield found[0]
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(TIMEOUT_SECONDS)
