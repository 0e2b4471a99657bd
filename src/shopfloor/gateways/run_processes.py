"""Start `shopfloor run` as a separate process, which outlives the server that started it."""

from __future__ import annotations

import json
import os
import subprocess  # nosec B404 # argument vectors only, and no shell
import sys
from collections.abc import Mapping
from pathlib import Path

TAIL_BYTES = 4000


class RunProcesses:
    """Starts runs of one project. `environment` passes them its project, data folder and database."""

    def __init__(self, project: Path, data: Path, environment: Mapping[str, str]) -> None:
        self._project = project
        self._folder = data / "launches"
        self._environment = environment

    def start(self, id: int, run: str, spec: str | None, options: str) -> subprocess.Popen[bytes]:
        """Start or continue a run, detached from this process. Its output goes to a file of the launch."""
        folder = self._folder / str(id)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        command = [sys.executable, "-P", "-m", "shopfloor", "run", "--headless"]
        if spec is None:
            command += ["--resume", run]
        else:
            # Without --name the run is named after its file, with the next free name if that is taken.
            file = folder / f"{run}.md"
            file.write_text(spec, "utf-8")
            command += ["--spec", str(file)]
        for name, value in json.loads(options).items():
            flag = name.replace("_", "-")
            command += (
                [f"--{flag}" if value else f"--no-{flag}"] if isinstance(value, bool) else [f"--{flag}", str(value)]
            )
        with self._log_file(id).open("wb") as log:
            return subprocess.Popen(  # nosec B603 # fixed program, options of known names
                command,
                cwd=self._project,
                env={**os.environ, **self._environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def read_output(self, id: int) -> str:
        """Return the end of what the process of a launch printed."""
        try:
            data = self._log_file(id).read_bytes()
        except OSError:
            return ""
        return data[-TAIL_BYTES:].decode(errors="replace").strip()

    def _log_file(self, id: int) -> Path:
        return self._folder / str(id) / "output.log"
