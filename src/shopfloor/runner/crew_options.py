"""The options of a crew as a whole, and of each role. They are stored with it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from shopfloor.errors import BadSettings
from shopfloor.rule_texts import describe_rule
from shopfloor.runner.options import Command, Duration, RunOptions
from shopfloor.runner.sandbox import SandboxOptions

TEMPLATE = Path(__file__).with_name("crew.toml")
"""A commented file with every role, for `shopfloor template export crew`."""

_ROLES = ("worker", "planner", "reviewer")
_BUDGETS = ("time", "iterations", "tokens", "cost")
_ROLE_DEFAULTS: dict[str, dict[str, Any]] = {
    "worker": {"iterations": 20},
    "planner": {"iterations": 5},
    # A reviewer only reads. Requests beyond its tools are denied.
    "reviewer": {"iterations": 3, "permissions": "deny"},
}


class WorkerOptions(RunOptions):
    """The options of one kind of worker: those of a run, applied per task, and the number of workers."""

    count: int = Field(1, ge=0, le=64, description="Number of workers of this kind.")


class CrewOptions(SandboxOptions):
    """The options of `shopfloor crew start`. The roles have the options of a run; their budgets count per task."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    verify: tuple[Command, ...] = Field((), description="Command that must pass before work is merged.")
    setup: tuple[Command, ...] = Field((), description="Command that prepares each new worktree, such as 'npm ci'.")
    attempts: int = Field(
        3, ge=1, description="Maximum number of times that a task is returned or started before it fails."
    )
    time: Duration | None = Field(None, description="Time limit of the whole crew: 90s, 30m, 2h.")
    iterations: int | None = Field(None, ge=1, description="Maximum number of iterations of the whole crew.")
    tokens: int | None = Field(None, ge=1, description="Maximum number of tokens of the whole crew.")
    cost: float | None = Field(None, gt=0, description="Maximum cost of the whole crew.")
    worker_time: Duration | None = Field(None, description="Time limit of each worker.")
    worker_iterations: int | None = Field(None, ge=1, description="Maximum number of iterations of each worker.")
    worker_tokens: int | None = Field(None, ge=1, description="Maximum number of tokens of each worker.")
    worker_cost: float | None = Field(None, gt=0, description="Maximum cost of each worker.")
    approve_plan: bool = Field(False, description="Wait until a person has approved the plan.")
    auto_merge: bool = Field(False, description="Merge the crew's branch into the project's branch at the end.")
    worker: tuple[WorkerOptions, ...] = ()
    planner: RunOptions | None = None
    reviewer: RunOptions | None = None

    def get_budget(self, prefix: str = "") -> dict[str, Any]:
        """Return the budgets of the crew, or with the prefix `worker_` those of each worker."""
        return {name: getattr(self, f"{prefix}{name}") for name in _BUDGETS}

    @property
    def agents(self) -> list[Command | None]:
        """The commands of the agents of all roles."""
        return [role.agent for role in (*self.worker, self.planner, self.reviewer) if role is not None]

    @property
    def workers(self) -> int:
        """The number of workers of all kinds."""
        return sum(kind.count for kind in self.worker)

    def get_worker(self, number: int) -> WorkerOptions:
        """Return the options of the worker with this number, from 1. Workers beyond all counts are of the last kind."""
        left = number
        for kind in self.worker:
            left -= kind.count
            if left <= 0:
                return kind
        return self.worker[-1]


def read_crew_options(
    file: Path | None,
    given: dict[str, Any],
    roles: dict[str, dict[str, Any]],
    defaults: dict[str, Any] | None = None,
) -> CrewOptions:
    """Combine defaults, a file and command-line options, each of which overrides the one before.

    `roles` has the command-line options of each role. Those of the worker apply to every kind of worker.
    """
    known = _read_file(file)
    crew = {**(defaults or {}), **known.get("crew", {}), **given}
    kinds = known.get("worker", {})
    kinds = list(kinds) if isinstance(kinds, list) else [kinds]
    _check_sandbox(file, [*(("worker", kind) for kind in kinds), *((role, known.get(role, {})) for role in _ROLES[1:])])
    workers = crew.pop("workers", None)
    if workers is not None and len(kinds) == 1:
        kinds[0] = {**kinds[0], "count": workers}
    crew["worker"] = [{**_ROLE_DEFAULTS["worker"], **kind, **roles.get("worker", {})} for kind in kinds]
    for role in ("planner", "reviewer"):
        chosen = {**known.get(role, {}), **roles.get(role, {})}
        if role == "planner" and "agent" not in chosen:
            # The same agent offers the same models.
            first = crew["worker"][0]
            chosen = {**{name: first[name] for name in ("agent", "model") if name in first}, **chosen}
        if chosen.get("agent") is not None:
            crew[role] = {**_ROLE_DEFAULTS[role], **chosen}
        elif unused := sorted({"model", "mode"} & roles.get(role, {}).keys()):
            raise BadSettings(f"--{role}-{unused[0]} has no effect without --{role}", hint=f"Name the {role}'s agent")

    def name_option(place: Sequence[Any]) -> str:
        if place[0] not in _ROLES:
            source = "[crew]" if place[0] in known.get("crew", {}) else "[run] of shopfloor.toml"
            return f"--{_to_kebab(place[0])}" if place[0] in given else f"`{place[0]}` in {source}"
        role, field = place[0], next((name for name in place[1:] if isinstance(name, str)), "")
        if field in roles.get(role, {}):
            return _name_role_option(role, field)
        which = f"[[worker]] number {place[1] + 1}" if role == "worker" and len(kinds) > 1 else f"[{role}]"
        return f"`{field}` in {which} of {file}"

    return _build_options(crew, name_option)


def _check_sandbox(file: Path | None, tables: Sequence[tuple[str, dict[str, Any]]]) -> None:
    for role, table in tables:
        if own := sorted(SandboxOptions.model_fields.keys() & table.keys()):
            reason = f"`{own[0]}` in [{role}] of {file}: the sandbox is that of the whole crew"
            raise BadSettings(reason, hint="Set it in [crew]")


def change_options(stored: dict[str, Any], given: dict[str, Any], of_task: dict[str, Any]) -> CrewOptions:
    """Return stored options with changes to those of the crew, and to the options of every role for one task."""
    changed = {**stored, **given}
    changed["worker"] = [{**kind, **of_task} for kind in stored.get("worker", ())]
    for role in ("planner", "reviewer"):
        if stored.get(role) is not None:
            changed[role] = {**stored[role], **of_task}

    def name_option(place: Sequence[Any]) -> str:
        return f"--{'task-' if place[0] in _ROLES else ''}{_to_kebab(place[-1])}"

    return _build_options(changed, name_option)


def _name_role_option(role: str, field: str) -> str:
    """Return the command-line option that sets a field of a role."""
    if field == "agent":
        return "--agent" if role == "worker" else f"--{role}"
    if field in _BUDGETS:
        return f"--task-{field}"
    of_role = role != "worker" and field in ("model", "mode")
    return f"--{role}-{field}" if of_role else f"--{_to_kebab(field)}"


def _to_kebab(field: str) -> str:
    return field.replace("_", "-")


def _build_options(given: dict[str, Any], name_option: Callable[[Sequence[Any]], str]) -> CrewOptions:
    """Validate the options; `name_option` names the place where the user set a wrong value."""
    try:
        return CrewOptions(**given)
    except ValidationError as error:
        problems = []
        for item in error.errors(include_url=False):
            rule = "is unknown" if item["type"] == "extra_forbidden" else describe_rule(item)
            problems.append(f"{name_option(item['loc'])} {rule}")
        # A wrong command-line option is wrong for every kind of worker.
        text = "; ".join(dict.fromkeys(problems))
        raise BadSettings(text, hint="Run `shopfloor crew start --help` for the options") from None


def _read_file(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        known = tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        hint = f"Write one: shopfloor template export crew {file}"
        raise BadSettings(f"Crew file not found: {file}", hint=hint) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadSettings(f"Cannot read {file}: {error}") from None
    unknown = sorted(set(known) - {"crew", *_ROLES})
    if unknown:
        raise BadSettings(f"{file}: unknown table [{unknown[0]}]; expected crew, {', '.join(_ROLES)}")
    return known
