"""The path gate: the one way to the project's files, for reading, searching, indexing, imports and the runner.

A path is opened part by part, each below the folder opened before it and never through a link, so that nothing
that changes meanwhile leads outside. Links are followed by hand, as long as they stay below the root.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from shopfloor.domain.paths import PathRules
from shopfloor.errors import FileNotFound, FileTooLarge, NotAFile, PathDenied, Refused

LIMIT = 1_048_576
"""The size of the largest file that is read, in bytes."""

_LINKS = 40
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class File:
    """A file as it was when it was opened."""

    path: str
    data: bytes
    modified: int
    """Microseconds since 1970 UTC."""


@dataclass(frozen=True, slots=True)
class Opened:
    """An open regular file below the root."""

    path: str
    descriptor: int
    size: int
    modified: int


class Files:
    """The files of one project."""

    def __init__(self, root: Path, data_folder: Path | None = None, secret_names: Sequence[str] = ()) -> None:
        self.root = Path(os.path.realpath(root))
        data = None if data_folder is None else Path(os.path.realpath(data_folder))
        inside = data is not None and data != self.root and data.is_relative_to(self.root)
        self.rules = PathRules(secret_names, str(data.relative_to(self.root)) if data and inside else None)
        self._data = data

    def below(self, path: str) -> str:
        """The path as it is named from the root, also when the whole path was given."""
        root = f"{self.root}/"
        return path[len(root) :] if f"{path}/".startswith(root) else path

    def read(self, path: str, limit: int = LIMIT) -> File:
        """The whole file, if the rules allow it and it is not larger than the limit."""
        with self.open(path) as opened:
            if opened.size > limit:
                raise FileTooLarge(path=path, size=opened.size, limit=limit, hint="Search it with grep_codebase")
            data = _read(opened.descriptor, limit + 1)
            if len(data) > limit:  # it has grown since
                raise FileTooLarge(path=path, size=len(data), limit=limit, hint="Search it with grep_codebase")
            return File(opened.path, data, opened.modified)

    def write(self, path: str, data: bytes, limit: int = LIMIT) -> None:
        """Put the data into a file, whole or not at all, if the rules allow it; folders on the way are made."""
        parts = self.rules.check(path)
        if len(data) > limit:
            raise FileTooLarge(path=path, size=len(data), limit=limit, hint=f"At most {limit} bytes can be written")
        try:
            folder, name = _Descent(self, path).to_folder(parts)
            try:
                _replace(folder, name, data)
            finally:
                os.close(folder)
        except ValueError:
            raise NotAFile(path=path, hint="No file can have such a name") from None
        except IsADirectoryError:
            raise NotAFile(path=path, hint="Name a file that is there, or one that is not") from None
        except OSError as error:
            raise PathDenied(path=path, hint=f"It cannot be written: {error.strerror}") from None

    def has(self, path: str) -> bool:
        """Whether there is such a file, and it may be read."""
        try:
            with self.open(path):
                return True
        except Refused:
            return False

    def names(self, folder: str, *, folders: bool = False) -> list[str]:
        """The names of the files in a folder, or of its folders, sorted, without links and what may not be read."""
        try:
            descriptor, reached = _Descent(self, folder).to(self.rules.check(folder))
        except (Refused, OSError, ValueError):
            return []
        try:
            with os.scandir(descriptor) as entries:
                found = [
                    entry.name
                    for entry in entries
                    if (entry.is_dir(follow_symlinks=False) if folders else entry.is_file(follow_symlinks=False))
                ]
        except OSError:
            return []
        finally:
            os.close(descriptor)
        return sorted(name for name in found if not self.rules.blocks([*reached, name]))

    @contextmanager
    def open(self, path: str) -> Iterator[Opened]:
        """The file, open for as long as the block lasts."""
        parts = self.rules.check(path)
        try:
            descriptor, reached = _Descent(self, path).to(parts)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            raise FileNotFound(path=path, hint="Find it with context_search or grep_codebase") from None
        except PermissionError:
            raise PathDenied(path=path, hint="The floor's own account may not read it") from None
        except OSError as error:
            raise FileNotFound(path=path, hint=f"It cannot be opened: {error.strerror}") from None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise NotAFile(path=path, hint="Name a file; grep_codebase with filePattern looks into folders")
            yield Opened("/".join(reached), descriptor, status.st_size, status.st_mtime_ns // 1000)
        finally:
            os.close(descriptor)

    def keeps_out_of(self, descriptor: int) -> bool:
        """Whether an open folder is the data folder, under whatever name."""
        if self._data is None:
            return False
        try:
            return os.path.samestat(os.fstat(descriptor), self._data.stat())
        except OSError:
            return False


class _Descent:
    """One way from the root down to a file, with every folder on it held open."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path
        self._folders: list[int] = []
        self._names: list[str] = []
        self._links = 0

    def to(self, parts: Sequence[str]) -> tuple[int, list[str]]:
        """The descriptor of the last part, and the names that led to it once links were followed."""
        try:
            self._folders.append(os.open(self._files.root, _FOLDER))
            pending = list(reversed(parts))
            while pending:
                if (descriptor := self._step(pending)) is not None:
                    return descriptor, self._names
            return os.dup(self._folders[-1]), self._names
        finally:
            for folder in self._folders:
                os.close(folder)

    def to_folder(self, parts: Sequence[str]) -> tuple[int, str]:
        """The descriptor of the folder that a file lies in, or will, and the file's name there."""
        try:
            self._folders.append(os.open(self._files.root, _FOLDER))
            pending = list(reversed(parts))
            while pending:
                name = pending.pop()
                if name == "..":
                    self._up()
                    continue
                kind = self._kind_or_none(name)
                if kind is not None and stat.S_ISLNK(kind):
                    pending.extend(reversed(self._followed(name)))
                elif not pending:
                    return os.dup(self._folders[-1]), name
                else:
                    self._make(name, kind)
                    self._enter(name)
            raise IsADirectoryError
        finally:
            for folder in self._folders:
                os.close(folder)

    def _kind_or_none(self, name: str) -> int | None:
        if self._links and self._files.rules.blocks([*self._names, name]):
            raise self._denied()
        try:
            return os.stat(name, dir_fd=self._folders[-1], follow_symlinks=False).st_mode
        except FileNotFoundError:
            return None

    def _make(self, name: str, kind: int | None) -> None:
        if kind is None:
            with suppress(FileExistsError):  # somebody was faster; entering tells whether it is a folder
                os.mkdir(name, dir_fd=self._folders[-1])

    def _step(self, pending: list[str]) -> int | None:
        name = pending.pop()
        if name == "..":
            self._up()
            return None
        if self._links and self._files.rules.blocks([*self._names, name]):
            raise self._denied()
        kind = os.stat(name, dir_fd=self._folders[-1], follow_symlinks=False).st_mode
        if stat.S_ISLNK(kind):
            pending.extend(reversed(self._followed(name)))
            return None
        if not pending:
            return self._last(name, kind)
        if not stat.S_ISDIR(kind):
            raise NotADirectoryError
        self._enter(name)
        return None

    def _enter(self, name: str) -> None:
        folder = os.open(name, _FOLDER, dir_fd=self._folders[-1])
        self._folders.append(folder)
        self._names.append(name)
        if self._files.keeps_out_of(folder):
            raise self._denied()

    def _last(self, name: str, kind: int) -> int:
        if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
            raise NotAFile(path=self._path, hint="Pipes, sockets and devices are not files to read")
        self._names.append(name)
        return os.open(name, _FILE, dir_fd=self._folders[-1])

    def _up(self) -> None:
        if len(self._folders) == 1:
            raise self._denied()
        os.close(self._folders.pop())
        self._names.pop()

    def _followed(self, name: str) -> list[str]:
        """The parts of a link's target as seen from the folder that holds the link."""
        self._links += 1
        if self._links > _LINKS:
            raise FileNotFoundError
        target = os.readlink(name, dir_fd=self._folders[-1])
        if target.startswith("/"):
            root = f"{self._files.root}/"
            if not f"{target}/".startswith(root):
                raise self._denied()
            target = target[len(root) :]
            while len(self._folders) > 1:
                self._up()
        return [part for part in target.split("/") if part not in ("", ".")]

    def _denied(self) -> PathDenied:
        return PathDenied(path=self._path, hint="It leads to where no agent may look")


def _read(descriptor: int, limit: int) -> bytes:
    chunks = []
    while limit > 0 and (chunk := os.read(descriptor, min(limit, 1 << 20))):
        chunks.append(chunk)
        limit -= len(chunk)
    return b"".join(chunks)


def _replace(folder: int, name: str, data: bytes) -> None:
    """Write beside the file and put it in its place, with the rights of the one that was there."""
    before = None
    with suppress(FileNotFoundError):
        before = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    if before is not None and not stat.S_ISREG(before):
        raise IsADirectoryError
    beside = f".{secrets.token_hex(8)}.part"
    descriptor = os.open(beside, _NEW, 0o666, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if before is not None:
                os.fchmod(descriptor, stat.S_IMODE(before))
        os.replace(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=folder)
