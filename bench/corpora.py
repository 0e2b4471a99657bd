"""Fetch packages by name and exact version into `.cache/corpora` as plain source trees, without building anything.

PyPI gives wheels: pip runs the build backend of an sdist even when it only downloads it. npm and Debian's binary
packages are archives of sources, and a Debian source package is an upstream archive with Debian's patches.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

CACHE = Path(__file__).resolve().parent.parent / ".cache"
CORPORA = CACHE / "corpora"
APT = CACHE / "apt"
APT_SOURCES = Path("/etc/apt")
TIMEOUT_SECONDS = 900


class FetchError(Exception):
    """A package cannot be fetched or unpacked."""


def fetch(registry: str, name: str, version: str) -> Path:
    """Return the folder of a package's sources. Fetch and unpack the package if the folder does not exist."""
    target = CORPORA / f"{name.removeprefix('@').replace('/', '-')}-{version.replace(':', '-')}"
    if target.is_dir():
        return target
    if registry not in REGISTRIES:
        raise FetchError(f"Unknown registry {registry!r}; expected one of {', '.join(REGISTRIES)}")
    CORPORA.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=CORPORA) as work:
        downloads, tree = Path(work) / "downloads", Path(work) / "tree"
        downloads.mkdir()
        try:
            REGISTRIES[registry](name, version, downloads, tree)
        except FetchError as error:
            raise FetchError(f"{name} {version} cannot be fetched from {registry}: {error}") from error
        try:
            _skip_single_folder(tree).rename(target)
        except OSError:  # another process was faster
            if not target.is_dir():
                raise
    return target


def _fetch_from_pypi(name: str, version: str, downloads: Path, tree: Path) -> None:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    _run([*pip, "--dest", ".", f"{name}=={version}"], downloads)
    with zipfile.ZipFile(_find_one(downloads, "*.whl")) as archive:
        archive.extractall(tree)


def _fetch_from_npm(name: str, version: str, downloads: Path, tree: Path) -> None:
    _run(["npm", "pack", "--loglevel=error", "--ignore-scripts", f"{name}@{version}"], downloads)
    with tarfile.open(_find_one(downloads, "*.tgz")) as archive:
        archive.extractall(tree, filter="data")


def _fetch_from_debian(name: str, version: str, downloads: Path, tree: Path) -> None:
    _run_apt(["download", f"{name}={version}"], downloads)
    _run(["dpkg-deb", "--extract", str(_find_one(downloads, "*.deb")), str(tree)], downloads)


def _fetch_from_debian_source(name: str, version: str, downloads: Path, tree: Path) -> None:
    _run_apt(["source", "--download-only", f"{name}={version}"], downloads)
    _run(["dpkg-source", "--no-check", "--extract", str(_find_one(downloads, "*.dsc")), str(tree)], downloads)
    shutil.rmtree(tree / ".pc", ignore_errors=True)  # the files as they were before Debian's patches


REGISTRIES: dict[str, Callable[[str, str, Path, Path], None]] = {
    "pypi": _fetch_from_pypi,
    "npm": _fetch_from_npm,
    "debian": _fetch_from_debian,
    "debian-source": _fetch_from_debian_source,
}


def _run_apt(arguments: Sequence[str], folder: Path) -> None:
    """Run apt-get with lists of its own. Update them once if the package is not in them."""
    options = [
        *(
            "-o",
            f"Dir::Etc::SourceList={APT / 'sources.list'}",
            "-o",
            f"Dir::Etc::SourceParts={APT / 'sources.list.d'}",
        ),
        *("-o", f"Dir::State::Lists={APT / 'lists'}", "-o", f"Dir::Cache={APT / 'cache'}"),
        *("-o", "APT::Sandbox::User=", "-o", "Debug::NoLocking=true", "-qq"),
    ]
    try:
        _run(["apt-get", *options, *arguments], folder)
    except FetchError as error:
        if "Failed to fetch" in str(error):  # the lists are right: the mirror does not hold the file
            raise
        _copy_apt_sources()
        _run(["apt-get", *options, "update"], folder)
        _run(["apt-get", *options, *arguments], folder)


def _copy_apt_sources() -> None:
    """Copy the machine's own package sources with source packages added, which most machines leave out."""
    for name in ("sources.list.d", "lists/partial", "cache/archives/partial"):
        (APT / name).mkdir(parents=True, exist_ok=True)
    (APT / "sources.list").touch()
    for path in sorted(APT_SOURCES.glob("sources.list.d/*.sources")):
        text = re.sub(r"^Types:.*$", "Types: deb deb-src", path.read_text(), flags=re.MULTILINE)
        (APT / "sources.list.d" / path.name).write_text(text)
    for path in sorted([*APT_SOURCES.glob("sources.list"), *APT_SOURCES.glob("sources.list.d/*.list")]):
        lines = [line for line in path.read_text().splitlines() if line.startswith("deb ")]
        sources = [line.replace("deb ", "deb-src ", 1) for line in lines]
        (APT / "sources.list.d" / f"{path.stem}.list").write_text("\n".join([*lines, *sources, ""]))


def _run(command: Sequence[str], folder: Path) -> None:
    if shutil.which(command[0]) is None:
        raise FetchError(f"{command[0]} is not installed")
    environment = os.environ | {"LC_ALL": "C.UTF-8"}
    try:
        subprocess.run(
            command, cwd=folder, env=environment, check=True, capture_output=True, text=True, timeout=TIMEOUT_SECONDS
        )
    except subprocess.CalledProcessError as error:
        reason = _find_reason(error.stderr or error.stdout)
        raise FetchError(f"{Path(command[0]).name} failed: {reason}") from error
    except subprocess.TimeoutExpired as error:
        raise FetchError(f"{command[0]} took longer than {TIMEOUT_SECONDS} s") from error


def _find_reason(output: str) -> str:
    """Return the first line that says it is an error, or else the last line, without the address of a registry."""
    lines = output.strip().splitlines() or ["no reason given"]
    line = next((line for line in lines if re.match(r"E:|ERROR:|npm error", line)), lines[-1])
    return re.sub(r"\w+://\S*/", "", line)


def _find_one(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise FetchError(f"expected one {pattern}, got {len(found)}")
    return found[0]


def _skip_single_folder(tree: Path) -> Path:
    """Return the folder that holds everything, which archives of npm and of upstream projects have."""
    entries = list(tree.iterdir())
    return entries[0] if len(entries) == 1 and entries[0].is_dir() and entries[0].name == "package" else tree
