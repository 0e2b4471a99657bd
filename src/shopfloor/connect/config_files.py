"""Read and write the config files of clients: atomically, with a backup, and never through a symbolic link."""

from __future__ import annotations

import copy
import os
import stat
import subprocess  # nosec B404 # git, with fixed arguments
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from shopfloor.connect import json_text, toml_text, yaml_text
from shopfloor.connect.clients import Format
from shopfloor.errors import InvalidInput

EDITORS: dict[Format, ModuleType] = {"json": json_text, "toml": toml_text, "yaml": yaml_text}

MAX_CONFIG_BYTES = 32 * 1024 * 1024
"""Claude Code keeps its history in the same file as its servers, which grows to several megabytes."""

_BY_HAND = "Run the command with --print and make the change by hand"


def read_config(path: Path, format: Format) -> tuple[str, dict[str, Any]]:
    """Return the text and the value of a config file; an empty text and table if it is missing."""
    text = read_text(path)
    try:
        value = EDITORS[format].parse(text) if text.strip() else {}
    except ValueError as error:
        raise InvalidInput(
            f"{path} is not valid {format.upper()}, so it was not changed: {error}", hint=_BY_HAND
        ) from None
    if not isinstance(value, dict):
        raise InvalidInput(f"{path} is not a table of settings, so it was not changed", hint=_BY_HAND)
    return text, value


def read_text(path: Path) -> str:
    """Return the text of a file, or an empty string if there is none."""
    try:
        facts = path.lstat()
        if stat.S_ISLNK(facts.st_mode):
            raise InvalidInput(
                f"{path} is a symbolic link to {path.readlink()}, and writing it would replace the link", hint=_BY_HAND
            )
        if not stat.S_ISREG(facts.st_mode):
            raise InvalidInput(f"{path} is not a regular file", hint=_BY_HAND)
        if facts.st_size > MAX_CONFIG_BYTES:
            raise InvalidInput(f"{path} is larger than {MAX_CONFIG_BYTES} bytes", hint=_BY_HAND)
        # Newlines are kept: a file with \r\n keeps them.
        with path.open(encoding="utf-8", newline="") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not UTF-8 text, so it was not changed", hint=_BY_HAND) from None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}", hint=_BY_HAND) from None


def set_member(text: str, format: Format, path: Sequence[str], value: Any) -> str:
    """Return the text with one member set; raise if that would change anything else."""
    return _edit(text, format, lambda editor: editor.set_member(text, path, value), path, value)


def remove_member(text: str, format: Format, path: Sequence[str]) -> str:
    """Return the text without one member; raise if that would change anything else."""
    return _edit(text, format, lambda editor: editor.remove_member(text, path), path, None)


def _edit(text: str, format: Format, edit: Callable[[Any], str], path: Sequence[str], value: Any) -> str:
    """Edit the text and compare the result with the same change to the value.

    The editors work on lines and support the usual shapes of a config. An unusual shape, such as an inline table in
    TOML or an anchor in YAML, is detected here, before anything is written.
    """
    editor = EDITORS[format]
    parsed = editor.parse(text) if text.strip() else {}
    # Otherwise Windows line endings would be mixed with the new lines.
    newline = "\r\n" if "\r\n" in text else "\n"
    try:
        changed = edit(editor).replace("\r\n", "\n").replace("\n", newline)
        result = editor.parse(changed) if changed.strip() else {}
    except ValueError as error:
        raise InvalidInput(f"The entry cannot be edited in place: {error}", hint=_BY_HAND) from None
    if _drop_empty(result) != _drop_empty(_change(parsed, path, value)):
        raise InvalidInput("The entry has an unusual form and cannot be edited in place", hint=_BY_HAND)
    return changed


def _change(value: dict[str, Any], path: Sequence[str], member: Any) -> dict[str, Any]:
    changed = copy.deepcopy(value)
    table: Any = changed
    for key in path[:-1]:
        if not isinstance(table.get(key), dict):
            table[key] = {}
        table = table[key]
    if member is None:
        table.pop(path[-1], None)
    else:
        table[path[-1]] = member
    return changed


def _drop_empty(value: Any) -> Any:
    """Return the value without empty tables: removing an entry also removes a table that is then empty."""
    if not isinstance(value, dict):
        return value
    kept = {key: _drop_empty(item) for key, item in value.items()}
    return {key: item for key, item in kept.items() if item not in ({}, None)}


def get_backup(path: Path) -> Path:
    """Return the path of a file's backup."""
    return path.with_name(f"{path.name}.bak")


def remove_equal_backup(path: Path) -> None:
    """Remove the backup of a file if both are identical: it has nothing left to restore."""
    backup = get_backup(path)
    try:
        if path.is_file() and backup.is_file() and path.read_bytes() == backup.read_bytes():
            backup.unlink()
    except OSError as error:
        raise InvalidInput(f"{backup} cannot be removed: {error.strerror}") from None


def write_text(path: Path, text: str, *, private: bool, backup: bool = True) -> Path | None:
    """Write a file atomically, keep its mode, and return its backup. A new file that is private has mode 0600."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600 if private else 0o644
        saved = get_backup(path) if path.exists() and backup else None
        if saved is not None:
            _replace(saved, path.read_bytes(), mode)
        if text.strip() not in ("", "{}"):
            _replace(path, text.encode(), mode)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}", hint=_BY_HAND) from None
    return saved


def _replace(path: Path, content: bytes, mode: int) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    # The mode is set when the file is created: with a later chmod it would be readable for a moment.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def check_folders(path: Path, project: Path) -> None:
    """Raise if a folder between the project root and the file is a symbolic link: it may point outside the project."""
    for folder in path.parents:
        if folder == project or project not in folder.parents:
            return
        if folder.is_symlink():
            raise InvalidInput(f"{folder} is a symbolic link, so {path.name} would be written outside the project")


def is_shared(path: Path) -> bool:
    """Return whether git tracks the file, or would after the next `git add`."""
    folder = next(parent for parent in path.parents if parent.is_dir())
    if _run_git(folder, "ls-files", "--error-unmatch", "--", str(path)) == 0:
        return True
    is_inside = _run_git(folder, "rev-parse", "--is-inside-work-tree") == 0
    return is_inside and _run_git(folder, "check-ignore", "--quiet", "--", str(path)) == 1


def is_readable_by_others(path: Path) -> bool:
    """Return whether the file exists and other users of this machine may read it."""
    return path.exists() and bool(path.stat().st_mode & 0o044)


def is_tracked(path: Path) -> bool:
    """Return whether git tracks the file."""
    folder = next(parent for parent in path.parents if parent.is_dir())
    return _run_git(folder, "ls-files", "--error-unmatch", "--", str(path)) == 0


def _run_git(folder: Path, *arguments: str) -> int:
    try:
        done = subprocess.run(  # nosec B603 B607 # fixed program and options; the path follows `--`
            ["git", "-C", str(folder), *arguments], capture_output=True, check=False, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return -1
    return done.returncode
