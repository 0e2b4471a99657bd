"""Search with another program, for comparison: semble's words and rules, on the same packages and questions.

It is installed from the package index into an environment of its own below `.cache`. Its embedding model is on no package
index, so that only its words and rules are compared.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

CACHE = Path(__file__).resolve().parent.parent / ".cache"
PACKAGE = "semble==0.7.0"
METHOD = f"{PACKAGE.replace('==', ' ')}, words and rules"
ENVIRONMENT = CACHE / "peer" / PACKAGE
INSTALL_SECONDS = 900
SEARCH_SECONDS = 1800
RESULTS = 50


class PeerFailed(Exception):
    """The other program cannot be installed, or ended with an error."""


def install() -> Path:
    """Return the interpreter of the environment that has the package. Install it if it is missing."""
    python = ENVIRONMENT / "bin" / "python"
    marker = ENVIRONMENT / "installed"
    if not marker.is_file():
        _run([sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)], INSTALL_SECONDS)
        _run([str(python), "-m", "pip", "install", "--quiet", PACKAGE], INSTALL_SECONDS)
        marker.touch()
    return python


def find_files(root: Path, queries: Sequence[str]) -> list[list[str]]:
    """Return the paths that the other program finds for each query, best first."""
    given = json.dumps({"root": str(root), "queries": queries})
    return list(json.loads(_run([str(install()), __file__], SEARCH_SECONDS, given).splitlines()[-1]))


def _run(command: Sequence[str], seconds: float, given: str = "") -> str:
    try:
        done = subprocess.run(command, input=given, check=False, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired as error:
        raise PeerFailed(f"{command[0]} took more than {seconds:.0f} s") from error
    if done.returncode:
        raise PeerFailed((done.stderr.strip().splitlines() or ["no reason given"])[-1])
    return done.stdout


class _NoModel:
    """Stands for the model. With `alpha=0.0` its results have no weight."""

    dim = 1

    def encode(self, texts: Sequence[str], **_: Any) -> Any:
        return import_module("numpy").ones((len(texts), self.dim), dtype="float32")


def _search(root: Path, queries: Sequence[str]) -> list[list[str]]:
    create, search = import_module("semble.index.create"), import_module("semble.search")
    model = _NoModel()
    words, vectors, chunks, _ = create.create_index_from_path(root, model, display_root=root)
    found = (search.search(query, model, vectors, words, chunks, RESULTS, alpha=0.0) for query in queries)
    return [list(dict.fromkeys(each.chunk.file_path for each in results)) for results in found]


if __name__ == "__main__":
    asked = json.loads(sys.stdin.read())
    print(json.dumps(_search(Path(asked["root"]).resolve(), asked["queries"])))
