"""Decide what an agent may do when it asks. Options are chosen by their kind, because ids and titles vary by agent.

Files that decide what the runner or other machines execute are protected: a person must allow each change to them, even
in a run that allows everything else.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from shopfloor.runner.acp import SERVER_NAME, PermissionRequest, SessionModes
from shopfloor.settings import PermissionRule

ALLOW, ALWAYS, DENY = "allow", "always", "deny"
ANSWERS = (ALLOW, ALWAYS, DENY)

_KINDS = {
    ALLOW: ("allow_once", "allow_always"),
    ALWAYS: ("allow_always", "allow_once"),
    DENY: ("reject_once", "reject_always"),
}
_NAME = r"(?:[a-z]+[-_][a-z]+|mcp__(?:agent|epic|mail|system|task)__[a-z_]+)"
# Each agent formats the title of an MCP call differently: mcp__SERVER__TOOL, SERVER:TOOL, TOOL (SERVER MCP Server).
# Only the whole title counts. A title that merely contains such a name may be a command of the agent's own.
_OWN_TOOL = re.compile(
    rf"(?:mcp__)?{SERVER_NAME}(?:__|_|: ?|/|\.| - ){_NAME}|{_NAME} \({SERVER_NAME} MCP Server\)"
    r"(?:: ?\{[^{}]*\})?",
    re.IGNORECASE,
)
_OWN_KINDS = frozenset({"other", "think", "read", "search", "fetch"})
READING_KINDS = frozenset({"read", "search", "think"})
_PROTECTED_FILES = frozenset(
    {
        "shopfloor.toml",
        ".gitlab-ci.yml",
        ".travis.yml",
        ".drone.yml",
        ".woodpecker.yml",
        "appveyor.yml",
        "azure-pipelines.yml",
        "bitbucket-pipelines.yml",
        "jenkinsfile",
    }
)
_PROTECTED_FOLDERS = frozenset(
    {".git", ".github", ".gitlab", ".gitea", ".forgejo", ".circleci", ".buildkite", ".woodpecker"}
)
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
# Ids of modes by agent, in letters and digits only: Codex has read-only, auto and full-access; Claude Code default,
# acceptEdits and bypassPermissions; Gemini and Qwen default, autoEdit and yolo; goose approve and auto.
_SILENT_MODES = frozenset({"auto", "fullaccess", "yolo", "bypasspermissions", "acceptedits", "autoedit", "dontask"})
_ASKING_MODES = ("default", "ask", "approve", "manual", "readonly")
MAX_DETAIL_CHARACTERS = 20_000
"""How much of a diff or a raw input a question includes. Beyond it, the question says how much is missing."""


@dataclass(frozen=True, slots=True)
class ProtectedFiles:
    """Files and folders of a project, relative and case-folded, that an agent may change only with a person's
    permission."""

    files: frozenset[str]
    folders: frozenset[str]

    def includes(self, path: str) -> bool:
        """Report whether a path, relative to the project, is protected."""
        # Folded: on a case-insensitive file system, SHOPFLOOR.TOML is the same file.
        folded = path.casefold()
        parents = {parent.as_posix() for parent in Path(folded).parents}
        return folded in self.files or not parents.isdisjoint(self.folders)


def find_protected_files(project: Path, commands: Iterable[Sequence[str]]) -> ProtectedFiles:
    """Find the files that decide what is executed: settings, git, CI, and the scripts of the given commands.

    A word of a command that names a file or a folder of the project protects it, and `make` protects the makefiles.
    """
    root = project.resolve()
    files, folders = set(_PROTECTED_FILES), set(_PROTECTED_FOLDERS)
    for command in commands:
        names = [*command, *(_MAKEFILES if Path(command[0]).name in ("make", "gmake") else ())]
        for name in names:
            path = resolve_path(root, name)
            # The project itself as a word, as in `pytest .`, would protect all of the agent's work.
            if path == root or not path.is_relative_to(root):
                continue
            try:
                is_folder, is_file = path.is_dir(), path.is_file()
            except OSError:
                continue  # a word may be a whole script, which is too long for a name
            if is_folder:
                folders.add(path.relative_to(root).as_posix().casefold())
            elif is_file or name in _MAKEFILES:
                files.add(path.relative_to(root).as_posix().casefold())
    return ProtectedFiles(frozenset(files), frozenset(folders))


def decide(
    request: PermissionRequest, policy: str, rules: Sequence[PermissionRule], project: Path, protected: ProtectedFiles
) -> str | None:
    """Return the answer of the policy or of a rule, or None if a person must decide."""
    # A run's own tools need no permission: their server decides what they may do.
    if is_own_tool(request):
        return ALLOW
    if policy == DENY:
        return DENY
    rule = find_rule(request, rules, project) if policy == "rules" else None
    answer = ALLOW if policy == ALLOW else None if rule is None or rule.answer == "ask" else rule.answer
    if answer == ALLOW and request.kind not in READING_KINDS:
        inside = list_relative_paths(request, project)
        # A rule for exactly this file is a person's permission. A pattern may match it by accident.
        if any(protected.includes(path) and (rule is None or rule.path != path) for path in inside):
            return None
    return answer


def list_relative_paths(request: PermissionRequest, project: Path) -> list[str]:
    """Return the paths of a request that are in the project, relative to it."""
    root = project.resolve()
    absolute = [resolve_path(root, path) for path in request.paths]
    return [path.relative_to(root).as_posix() for path in absolute if path.is_relative_to(root)]


def resolve_path(root: Path, path: str) -> Path:
    """Resolve a path of an agent or a command below `root`, so that neither `..` nor a link hides where it leads.

    Any text is a path: of links in a circle, and of names that no file has, only `..` is resolved.
    """
    # Not Path.resolve, which raises for links in a circle: an agent may make them.
    whole = root / path
    try:
        return Path(os.path.realpath(whole))
    except (OSError, ValueError):
        return Path(os.path.normpath(whole))


def choose_option(request: PermissionRequest, answer: str) -> str | None:
    """Return the id of the option that means the answer, or None if the agent offers no such option."""
    for kind in _KINDS[answer]:
        for id, offered in request.options:
            if offered == kind:
                return id
    return None


def is_own_tool(request: PermissionRequest) -> bool:
    """Report whether the request is about a tool of this run, which the agent may call anyway."""
    # Qwen's title is the bare arguments; the name is a separate field. A given name takes precedence over the title.
    name = request.title.strip() if request.tool_name is None else request.tool_name
    return request.kind in _OWN_KINDS and _OWN_TOOL.fullmatch(name) is not None


def asks_in_mode(modes: SessionModes) -> bool:
    """Report whether the agent asks for permission in the current mode, judging by the mode's name."""
    return _simplify_mode(modes.current) not in _SILENT_MODES


def find_asking_mode(modes: SessionModes) -> str | None:
    """Return a mode of the session in which the agent asks for permission, or None."""
    by_name = {_simplify_mode(id): id for id in modes.available}
    return next((by_name[name] for name in _ASKING_MODES if name in by_name), None)


def _simplify_mode(id: str) -> str:
    return re.sub(r"[^a-z0-9]", "", id.rpartition("#")[2].lower())


def find_rule(request: PermissionRequest, rules: Sequence[PermissionRule], project: Path) -> PermissionRule | None:
    """Return the first rule that matches, or None.

    A rule with a path matches only a request that names its paths, if all of them are in the project and all match.
    """
    inside = list_relative_paths(request, project)
    for rule in rules:
        if rule.kind not in ("*", request.kind):
            continue
        if rule.path is None:
            return rule
        if inside and len(inside) == len(request.paths) and all(fnmatchcase(path, rule.path) for path in inside):
            return rule
    return None


def format_question(request: PermissionRequest) -> str:
    """Write the question for a person: the agent's title, then the diff or the raw input."""
    where = f" ({', '.join(request.paths[:5])})" if request.paths else ""
    question = f"May the agent {request.kind}: {request.title or 'something without a title'}{where}"[:2000] + "?"
    if request.details:
        question += f"\n{request.details[:MAX_DETAIL_CHARACTERS]}"
    missing = len(request.details) - MAX_DETAIL_CHARACTERS
    return question if missing <= 0 else f"{question}\n… {missing} more characters are not shown"


def make_subject(request: PermissionRequest) -> str:
    """Hash the subject of a request, to recognize it if `always` was answered before.

    The subject of a file change is its paths; of any other request, everything that the person was shown.
    """
    subject = [request.kind, *request.paths]
    if not (request.kind == "edit" and request.paths):
        subject += [request.title, request.details]
    return hashlib.sha256(json.dumps(subject).encode()).hexdigest()
