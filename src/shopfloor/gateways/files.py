"""The path gate: all access to the project's files, for reading, searching, indexing, imports and the runner.

A path is opened part by part, each relative to the folder opened before it and never through a link, so a file or link
that changes during the descent cannot lead outside. Links are resolved here, as long as they stay below the root.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

from shopfloor.domain.paths import PathRules
from shopfloor.errors import ClientError, FileNotFound, FileTooLarge, NotAFile, PathDenied

MAX_FILE_BYTES = 1_048_576

_MAX_LINKS = 40
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class File:
    """A file as it was when it was opened."""

    path: str
    data: bytes
    modified: int
    """Microseconds since 1970 UTC."""


@dataclass(frozen=True, slots=True)
class OpenFile:
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

    def to_relative(self, path: str) -> str:
        """Make an absolute path below the root relative to it; return any other path unchanged."""
        root = f"{self.root}/"
        return path[len(root) :] if f"{path}/".startswith(root) else path

    def read(self, path: str, limit: int = MAX_FILE_BYTES) -> File:
        """Read the whole file if the rules allow it and it is within the limit."""
        with self.open(path) as opened:
            if opened.size > limit:
                raise FileTooLarge(path=path, size=opened.size, limit=limit)
            chunks: list[bytes] = []
            left = limit + 1
            while left > 0 and (chunk := os.read(opened.descriptor, min(left, 1 << 20))):
                chunks.append(chunk)
                left -= len(chunk)
            data = b"".join(chunks)
            # It has grown since it was opened.
            if len(data) > limit:
                raise FileTooLarge(path=path, size=len(data), limit=limit)
            return File(opened.path, data, opened.modified)

    def write(self, path: str, data: bytes, limit: int = MAX_FILE_BYTES) -> None:
        """Write a file atomically if the rules allow it, creating missing folders."""
        parts = self.rules.check(path)
        if len(data) > limit:
            raise FileTooLarge(path=path, size=len(data), limit=limit, hint=f"At most {limit} bytes can be written")
        try:
            folder, name = _Descent(self, path).open_parent(parts)
            try:
                _replace(folder, name, data)
            finally:
                os.close(folder)
        except ValueError:
            raise NotAFile(path=path, hint="This is not a valid file name") from None
        except IsADirectoryError:
            raise NotAFile(path=path, hint="The path is a directory") from None
        except OSError as error:
            raise PathDenied(path=path, hint=f"Cannot write it: {error.strerror}") from None

    def has_file(self, path: str) -> bool:
        """Return whether the file exists and may be read."""
        try:
            with self.open(path):
                return True
        except ClientError:
            return False

    def has_folder(self, path: str) -> bool:
        """Return whether the path is a folder that may be read."""
        try:
            descriptor, _ = _Descent(self, path).open_path(self.rules.check(path))
        except (ClientError, OSError, ValueError):
            return False
        try:
            return stat.S_ISDIR(os.fstat(descriptor).st_mode)
        finally:
            os.close(descriptor)

    def list_names(self, folder: str, *, folders: bool = False) -> list[str]:
        """List the names of the files or folders in a folder, without links and unreadable entries."""
        try:
            descriptor, reached = _Descent(self, folder).open_path(self.rules.check(folder))
        except (ClientError, OSError, ValueError):
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
    def open(self, path: str) -> Iterator[OpenFile]:
        """Open a file for the duration of the block."""
        parts = self.rules.check(path)
        try:
            descriptor, reached = _Descent(self, path).open_path(parts)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            raise FileNotFound(path=path) from None
        except PermissionError:
            raise PathDenied(path=path, hint="The account of the server may not read it") from None
        except OSError as error:
            raise FileNotFound(path=path, hint=f"Cannot open it: {error.strerror}") from None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise NotAFile(path=path)
            yield OpenFile("/".join(reached), descriptor, status.st_size, status.st_mtime_ns // 1000)
        finally:
            os.close(descriptor)

    def is_data_folder(self, descriptor: int) -> bool:
        """Return whether an open folder is the data folder, under any name."""
        if self._data is None:
            return False
        try:
            return os.path.samestat(os.fstat(descriptor), self._data.stat())
        except OSError:
            return False


def open_regular_file(path: Path) -> BufferedReader | None:
    """Open a file that an agent may have replaced; return None unless it is a regular file.

    A pipe would block the caller, and a link to a device, such as /dev/zero, has no end.
    """
    try:
        descriptor = os.open(path, _FILE_FLAGS)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    return None


def copy_regular_file(source: Path, target: Path) -> None:
    """Copy a file with its times, if it is a regular file."""
    if (opened := open_regular_file(source)) is None:
        return
    with opened, target.open("wb") as copy:
        shutil.copyfileobj(opened, copy)
        status = os.fstat(opened.fileno())
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


class _Descent:
    """One descent from the root to a file, with every folder on the way held open."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path
        self._folders: list[int] = []
        self._names: list[str] = []
        self._links = 0

    def open_path(self, parts: Sequence[str]) -> tuple[int, list[str]]:
        """Open the last part. Return its descriptor, and its path after links were followed."""
        try:
            self._folders.append(os.open(self._files.root, _FOLDER_FLAGS))
            pending = list(reversed(parts))
            while pending:
                if (descriptor := self._step(pending)) is not None:
                    return descriptor, self._names
            return os.dup(self._folders[-1]), self._names
        finally:
            for folder in self._folders:
                os.close(folder)

    def open_parent(self, parts: Sequence[str]) -> tuple[int, str]:
        """Open the parent folder of a new or existing file, and return its descriptor with the file's name."""
        try:
            self._folders.append(os.open(self._files.root, _FOLDER_FLAGS))
            pending = list(reversed(parts))
            while pending:
                name = pending.pop()
                if name == "..":
                    self._leave_folder()
                    continue
                # The given path was checked as a whole. After a link, each part is new and unchecked.
                if self._links and self._files.rules.blocks([*self._names, name]):
                    raise self._new_denial()
                kind = None
                with suppress(FileNotFoundError):
                    kind = os.stat(name, dir_fd=self._folders[-1], follow_symlinks=False).st_mode
                if kind is not None and stat.S_ISLNK(kind):
                    pending.extend(reversed(self._follow_link(name)))
                elif not pending:
                    return os.dup(self._folders[-1]), name
                else:
                    # Another process may create it first; _enter fails if it is not a folder.
                    if kind is None:
                        with suppress(FileExistsError):
                            os.mkdir(name, dir_fd=self._folders[-1])
                    self._enter(name)
            raise IsADirectoryError
        finally:
            for folder in self._folders:
                os.close(folder)

    def _step(self, pending: list[str]) -> int | None:
        name = pending.pop()
        if name == "..":
            self._leave_folder()
            return None
        if self._links and self._files.rules.blocks([*self._names, name]):
            raise self._new_denial()
        kind = os.stat(name, dir_fd=self._folders[-1], follow_symlinks=False).st_mode
        if stat.S_ISLNK(kind):
            pending.extend(reversed(self._follow_link(name)))
            return None
        if not pending:
            # Checked before it is opened: opening a device can have side effects. The open itself cannot block or
            # follow a link if another process swaps the file in between (O_NONBLOCK, O_NOFOLLOW).
            if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
                raise NotAFile(path=self._path, hint="Pipes, sockets and devices are not files to read")
            self._names.append(name)
            return os.open(name, _FILE_FLAGS, dir_fd=self._folders[-1])
        if not stat.S_ISDIR(kind):
            raise NotADirectoryError
        self._enter(name)
        return None

    def _enter(self, name: str) -> None:
        folder = os.open(name, _FOLDER_FLAGS, dir_fd=self._folders[-1])
        self._folders.append(folder)
        self._names.append(name)
        # Compared by inode: a bind mount or a concurrent rename can reach it under another name.
        if self._files.is_data_folder(folder):
            raise self._new_denial()

    def _leave_folder(self) -> None:
        if len(self._folders) == 1:
            raise self._new_denial()
        os.close(self._folders.pop())
        self._names.pop()

    def _follow_link(self, name: str) -> list[str]:
        """Return the parts of a link's target, relative to the folder that holds the link."""
        self._links += 1
        # Links may form a cycle. 40 is Linux's own limit.
        if self._links > _MAX_LINKS:
            raise FileNotFoundError
        target = os.readlink(name, dir_fd=self._folders[-1])
        if target.startswith("/"):
            root = f"{self._files.root}/"
            if not f"{target}/".startswith(root):
                raise self._new_denial()
            target = target[len(root) :]
            while len(self._folders) > 1:
                self._leave_folder()
        return [part for part in target.split("/") if part not in ("", ".")]

    def _new_denial(self) -> PathDenied:
        return PathDenied(
            path=self._path, hint="The path leads outside the project, or to a file that agents may not read"
        )


def _replace(folder: int, name: str, data: bytes) -> None:
    """Write a temporary file and rename it, with the permissions of the file that it replaces."""
    before = None
    with suppress(FileNotFoundError):
        before = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    if before is not None and not stat.S_ISREG(before):
        raise IsADirectoryError
    beside = f".{secrets.token_hex(8)}.part"
    descriptor = os.open(beside, _NEW_FILE_FLAGS, 0o666, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if before is not None:
                os.fchmod(descriptor, stat.S_IMODE(before))
        os.replace(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=folder)
