"""The files that an agent may read and write through the runner: regular ones below the project, no secrets.

A path is walked one part at a time below an open folder, never following a link on the way, so that nothing can be
swapped between the check and the use. A link is read, and its target walked the same way from the project root.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Protocol

from shopfloor.errors import InvalidInput, NotFound, PermissionDenied, Refused

SIZE_LIMIT = 1_048_576
SECRETS = (
    ".envrc", ".netrc", ".npmrc", ".pypirc", "*.pem", "*.key", "*.p12", "*.pfx", "id_rsa*", "id_dsa*", "id_ecdsa*",
    "id_ed25519*",
)  # fmt: skip
SAMPLES = (".env.example", ".env.sample", ".env.template")
CLOSED = (".git", "node_modules")

_LINKS = 16


class FileGate(Protocol):
    """Opens files below a root, or refuses."""

    def read(self, path: str) -> str:
        """The text of a file."""

    def write(self, path: str, content: str) -> None:
        """Put a text into a file, whole or not at all."""


class ProjectFiles:
    """The gate of one project."""

    def __init__(self, root: Path, data: Path) -> None:
        self._root = root.resolve()
        self._data = data.resolve()

    def read(self, path: str) -> str:
        with self._parent(path) as (folder, name), _reported(path):
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            with os.fdopen(descriptor, "rb") as file:
                _regular(os.fstat(descriptor), path)
                raw = file.read(SIZE_LIMIT + 1)
        if len(raw) > SIZE_LIMIT:
            raise InvalidInput("File too large", hint=f"Files of up to {SIZE_LIMIT} bytes can be read")
        return raw.decode(errors="replace")

    def write(self, path: str, content: str) -> None:
        raw = content.encode(errors="surrogatepass")
        if len(raw) > SIZE_LIMIT:
            raise InvalidInput("File too large", hint=f"Files of up to {SIZE_LIMIT} bytes can be written")
        with self._parent(path, create=True) as (folder, name), _reported(path):
            mode = _mode(folder, name, path)
            temporary = f".{name[:100]}.{secrets.token_hex(4)}"
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode, dir_fd=folder)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(raw)
                os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise

    @contextmanager
    def _parent(self, path: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
        """The open folder that a path lies in, and the file's name in it."""
        parts = self._parts(path)
        for _ in range(_LINKS):
            with contextlib.ExitStack() as stack:
                with _reported(path):
                    found = self._walk(stack, parts, create=create)
                if isinstance(found, int):
                    yield found, parts[-1]
                    return
            parts = self._parts(found)
        raise PermissionDenied(f"{path} goes through too many links")

    def _walk(self, stack: contextlib.ExitStack, parts: tuple[str, ...], *, create: bool) -> int | str:
        """The folder before the last part, or where a link on the way leads to."""
        folder = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        stack.callback(os.close, folder)
        for at, part in enumerate(parts):
            last = at == len(parts) - 1
            try:
                kind = os.stat(part, dir_fd=folder, follow_symlinks=False).st_mode
            except FileNotFoundError:
                if not create or last:
                    return folder if last else _missing(part)
                os.mkdir(part, dir_fd=folder)
                kind = stat.S_IFDIR
            if stat.S_ISLNK(kind):
                target = os.readlink(part, dir_fd=folder)
                here = self._root.joinpath(*parts[:at])
                return os.path.normpath(here.joinpath(target, *parts[at + 1 :]))
            if last:
                return folder
            folder = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            stack.callback(os.close, folder)
        return folder

    def _parts(self, path: str) -> tuple[str, ...]:
        """The parts of a path below the root, each of them one that may be opened."""
        pure = PurePosixPath(path)
        if pure.is_absolute():
            try:
                pure = pure.relative_to(self._root)
            except ValueError:
                raise _outside(path) from None
        if ".." in pure.parts or "\0" in path or not pure.parts:
            raise _outside(path)
        if self._root.joinpath(*pure.parts).is_relative_to(self._data):
            raise _closed(path)
        for part in pure.parts:
            if closed(part):
                raise _closed(path)
        return pure.parts


def closed(part: str) -> bool:
    """Whether nobody may go through or open a file or folder of that name."""
    name = unicodedata.normalize("NFKC", part).casefold()
    if name in SAMPLES:
        return False
    return (
        name in CLOSED
        or name == ".env"
        or name.startswith(".env.")
        or any(fnmatchcase(name, pattern) for pattern in SECRETS)
    )


def _missing(part: str) -> int:
    raise FileNotFoundError(2, "No such file or directory", part)


def _mode(folder: int, name: str, path: str) -> int:
    """The rights of the file that is there, or those of a new one."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return 0o666
    _regular(found, path)
    return stat.S_IMODE(found.st_mode)


def _regular(found: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise PermissionDenied(f"{path} is not a regular file")


@contextmanager
def _reported(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise NotFound(f"File not found: {path}") from None
    except Refused:
        raise
    except OSError as error:
        raise PermissionDenied(f"{path} cannot be opened: {error.strerror}") from None


def _outside(path: str) -> PermissionDenied:
    return PermissionDenied(f"{path} is outside of the project", hint="Only files below the project root can be used")


def _closed(path: str) -> PermissionDenied:
    return PermissionDenied(
        f"{path} is not for agents", hint="Secrets, .git, node_modules and the data folder are shut"
    )
