"""Git for tools: what a crew or an agent has changed, and the merge of a branch into the project.

Read-only commands run no program of the repository: no external diff, no text conversion, no file system monitor. Nor do
they look into a repository inside the worktree, such as a submodule: its config, which an agent may have written, names
programs too.
"""

from __future__ import annotations

import os
import signal
import subprocess  # nosec B404 # argument vectors only, and no shell
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from shopfloor.errors import GitFailed
from shopfloor.gateways.files import copy_regular_file
from shopfloor.gateways.process_tree import list_descendants

MAX_OUTPUT_BYTES = 8 * 1024 * 1024
MAX_OUTPUT_CHARACTERS = 4000
"""How much of a command's output an error includes, from the end."""

_NOT_STARTED = 127
"""The exit code of a program that does not exist, as in shells."""
_READ_SECONDS = 30.0
_WRITE_SECONDS = 300.0
_PLAIN_DIFF = (
    "diff",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--no-renames",
    "--ignore-submodules=dirty",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)


@dataclass(frozen=True, slots=True)
class FileDiff:
    """The changes in one file. The counts are None for a binary file; the text is empty if it was too long."""

    path: str
    added: int | None
    removed: int | None
    text: str


class Git:
    """The repository that a folder belongs to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def is_repository(self) -> bool:
        """Report whether the folder exists here and belongs to a repository with a commit."""
        return self.folder.is_dir() and self.find_commit("HEAD") is not None

    def find_commit(self, name: str) -> str | None:
        """Return the commit that a name refers to, or None."""
        try:
            return self._read("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}").strip()
        except GitFailed:
            return None

    def find_common_ancestor(self, one: str, other: str) -> str | None:
        """Return the last commit in both histories, or None."""
        try:
            return self._read("merge-base", one, other).strip()
        except GitFailed:
            return None

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Report whether a commit is part of another's history."""
        try:
            self._read("merge-base", "--is-ancestor", older, newer)
        except GitFailed:
            return False
        return True

    def count_commits(self, since: str, until: str) -> int:
        """Return the number of commits in `until` that are not in `since`."""
        return int(self._read("rev-list", "--count", f"{since}..{until}"))

    def get_prefix(self) -> str:
        """Return the folder's path from the top of its repository, empty at the top."""
        return self._read("rev-parse", "--show-prefix").strip().rstrip("/")

    def get_branch(self) -> str:
        """Return the name of the checked-out branch, or HEAD if there is none."""
        return self._read("rev-parse", "--abbrev-ref", "HEAD").strip()

    def get_subject(self, commit: str) -> str:
        """Return the first line of a commit's message."""
        return self._read("log", "-1", "--format=%s", commit).strip()

    def diff(self, base: str, commit: str) -> list[FileDiff]:
        """Return what changes between two commits."""
        return self._diff({}, base, commit)

    def diff_worktree(self, base: str) -> list[FileDiff]:
        """Return what differs between a commit and the files of the worktree, including new ones."""
        # Not `--git-path index`, which resolves links: the agent may have made the index one.
        index = Path(self._read("rev-parse", "--absolute-git-dir").strip()) / "index"
        # With a separate index: the worktree's own belongs to the agent that works there.
        with tempfile.TemporaryDirectory(prefix="shopfloor-index-") as folder:
            own = Path(folder) / "index"
            copy_regular_file(index, own)
            environment = {"GIT_INDEX_FILE": str(own)}
            self._add_new_files(environment)
            return self._diff(environment, base)

    def _add_new_files(self, environment: dict[str, str]) -> None:
        """Add untracked files to the index as empty ones."""
        # Not `git add`, which runs `git status` in submodules, and so the filters that their configs name.
        words = ("ls-files", "--others", "--exclude-standard", "--full-name", "-z", ":/")
        listed = self._run(words, _READ_SECONDS, environment)
        empty = self._run(["hash-object", "--stdin"], _READ_SECONDS).strip()
        # A name that ends with a slash is a repository inside the worktree.
        names = [name for name in listed.split(b"\0") if name and not name.endswith(b"/")]
        if names:
            entries = b"".join(b"100644 %s\t%s\0" % (empty, name) for name in names)
            self._run(["update-index", "-z", "--index-info"], _READ_SECONDS, environment, entries)

    def _diff(self, environment: dict[str, str], *commits: str) -> list[FileDiff]:
        listed, text = (
            self._run([*_PLAIN_DIFF, *options, *commits, "--"], _READ_SECONDS, environment).decode(errors="replace")
            for options in (("--numstat", "-z"), ())
        )
        # Both list the same files in the same order.
        parts = [f"diff --git {part}" for part in f"\n{text}".split("\ndiff --git ")[1:]]
        entries = [line.split("\t", 2) for line in listed.split("\0") if line]
        found = []
        for at, (added, removed, path) in enumerate(entries):
            counts = [None if count == "-" else int(count) for count in (added, removed)]
            found.append(FileDiff(path, counts[0], counts[1], parts[at] if len(parts) == len(entries) else ""))
        return found

    @contextmanager
    def merge_apart(self, head: str, commit: str, message: str) -> Iterator[tuple[Path, str]]:
        """Merge two commits in a temporary worktree; yield the project's folder in it, and the merged commit.

        The worktree is removed afterwards. Leftovers of a killed process are pruned first.
        """
        self._write("worktree", "prune")
        prefix = self._read("rev-parse", "--show-prefix").strip()
        with tempfile.TemporaryDirectory(prefix="shopfloor-merge-", ignore_cleanup_errors=True) as parent:
            folder = Path(parent) / "merge"
            self._write("worktree", "add", "--quiet", "--detach", str(folder), head)
            try:
                apart = Git(folder)
                apart._write("merge", "--quiet", "--no-ff", "-m", message, commit)
                yield folder / prefix, apart._read("rev-parse", "HEAD").strip()
            finally:
                self._write("worktree", "remove", "--force", "--force", str(folder))

    def fast_forward(self, commit: str) -> None:
        """Fast-forward the checked-out branch to a commit. Git refuses to overwrite uncommitted changes."""
        self._write("merge", "--quiet", "--ff-only", commit)

    def _read(self, *words: str) -> str:
        return self._run(words, _READ_SECONDS).decode(errors="replace")

    def _write(self, *words: str) -> None:
        self._run(words, _WRITE_SECONDS)

    def _run(
        self, words: Sequence[str], seconds: float, environment: Mapping[str, str] | None = None, input: bytes = b""
    ) -> bytes:
        config = ("core.fsmonitor=false", "core.quotePath=false", "gc.auto=0", "safe.bareRepository=explicit")
        options = ("--no-optional-locks", *(word for setting in config for word in ("-c", setting)))
        given = [f"{name}={value}" for name, value in (environment or {}).items()]
        code, output = _run_command(["env", *given, "git", *options, *words], self.folder, seconds, input)
        if code != 0:
            text = output.decode(errors="replace").strip()
            raise GitFailed(f"git {words[0]}: {text[-MAX_OUTPUT_CHARACTERS:] or f'exit code {code}'}")
        return output


def run_command(command: Sequence[str], folder: Path, seconds: float) -> tuple[int | None, str]:
    """Run a command in a folder; return its exit code, or None after a timeout, and its output."""
    code, output = _run_command(command, folder, seconds)
    return code, output.decode(errors="replace")


def _run_command(command: Sequence[str], folder: Path, seconds: float, input: bytes = b"") -> tuple[int | None, bytes]:
    try:
        # In the caller's process group: Ctrl-C on a terminal ends it too.
        process = subprocess.Popen(  # nosec B603
            list(command),
            cwd=folder,
            stdin=subprocess.PIPE if input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except OSError as error:
        return _NOT_STARTED, str(error).encode()
    with process:
        try:
            output, _ = process.communicate(input or None, timeout=seconds)
        except subprocess.TimeoutExpired:
            # Its child processes hold its output open: all of them must end before the rest is read.
            for pid in reversed(list_descendants(process.pid)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.kill()
            output, _ = process.communicate()
            return None, output[:MAX_OUTPUT_BYTES]
    return process.returncode, output[:MAX_OUTPUT_BYTES]
