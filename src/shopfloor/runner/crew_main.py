"""Start, resume and merge a crew from a command."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shopfloor.domain.crews import Crew, CrewStatus
from shopfloor.domain.principals import CREW_DRIVER, Kind, Principal
from shopfloor.errors import BadSettings
from shopfloor.runner import crew_store, processes, prompt, task_work, worktrees
from shopfloor.runner.context import Ending
from shopfloor.runner.crew import CrewDriver
from shopfloor.runner.crew_options import CrewOptions, change_options, read_crew_options
from shopfloor.runner.crew_store import CrewStore
from shopfloor.runner.crew_view import CrewView
from shopfloor.runner.known_agents import describe_choices, describe_installation
from shopfloor.runner.main import SIGNALS, log_to_file, use_project
from shopfloor.runner.options import RunOptions
from shopfloor.runner.sandbox import SandboxOptions, build_sandbox, make_absolute
from shopfloor.runner.view import JsonLines, View
from shopfloor.runner.worktrees import Worktrees
from shopfloor.serving import Shopfloor
from shopfloor.settings import WORKTREE_FOLDER, Settings

_MAX_TITLE_CHARACTERS = 200


def start(
    settings: Settings,
    options: CrewOptions,
    *,
    name: str | None = None,
    spec: Path | None = None,
    epic: int | None = None,
    headless: bool = False,
) -> int:
    """Create a crew for a specification or an epic, drive it to its end and return the exit code."""
    if (spec is None) == (epic is None):
        problem = "Name a specification or an epic" + (", not both" if spec is not None else "")
        raise BadSettings(problem, hint="Start with --spec FILE, or with --epic epic-3")
    try:
        text = "" if spec is None else spec.read_text("utf-8")
    except FileNotFoundError:
        raise BadSettings(
            f"Specification not found: {spec}", hint="Describe the work in a file, such as SPEC.md"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadSettings(f"Cannot read the specification {spec}: {error}") from None
    if spec is not None and not text.strip():
        raise BadSettings(f"The specification {spec} is empty", hint="Describe the work in it")
    _check_options(settings, options, needs_planner=epic is None)
    if options.workers == 0:
        raise BadSettings("A crew needs a worker", hint="Start with --workers 2, or set `count` in the crew file")
    asyncio.run(worktrees.find_repository(settings.project))
    base = asyncio.run(worktrees.get_head(settings.project))
    with contextlib.closing(Shopfloor(settings, kind="cli")) as shopfloor:
        crew = crew_store.create_crew(
            shopfloor,
            name=name,
            wanted_name=spec.stem if spec is not None else f"epic-{epic}",
            title=_find_title(text, spec),
            spec=text,
            epic=epic,
            project=str(settings.project),
            base=base,
            workers=options.workers,
            options=options.model_dump_json(),
        )
    return _drive(settings, crew, options, headless)


def resume(
    settings: Settings,
    name: str,
    given: dict[str, Any],
    of_task: dict[str, Any],
    *,
    workers: int | None = None,
    retry_failed: bool = False,
    headless: bool = False,
) -> int:
    """Continue a crew that no process drives, and return the exit code.

    `given` are options of the crew. `of_task` are options of every role for one task, plan or review.
    """
    with contextlib.closing(Shopfloor(settings, kind="cli")) as shopfloor:
        crew = crew_store.get_crew(shopfloor, name)
    settings = use_project(settings, crew.project)
    stored = CrewOptions.model_validate_json(crew.options).model_dump(exclude_unset=True)
    options = change_options(stored, given, of_task)
    _check_options(settings, options, needs_planner=crew.phase == "plan")
    return _drive(settings, crew, options, headless, workers=workers, retry_failed=retry_failed)


def merge(settings: Settings, name: str) -> str:
    """Merge the branch of a crew into the project's branch, and return a description."""
    with contextlib.closing(Shopfloor(settings, kind="cli")) as shopfloor:
        result = shopfloor.answer("desk", "crew_merge_branch", {"crew": name}, transport="cli")
    if result.error is not None:
        raise result.error
    return describe_merge(result.body)


def describe_merge(merged: dict[str, Any]) -> str:
    """Describe the outcome of `crew_merge_branch`."""
    done = f"Nothing to merge: the project already contains {merged['branch']}"
    if merged["commit"] is not None:
        done = f"Merged {merged['branch']} as {merged['commit'][:12]}"
    return done + (f"\nWithout unfinished tasks: {', '.join(merged['unfinished'])}" if merged["unfinished"] else "")


def read_options(
    settings: Settings, file: Path | None, given: dict[str, Any], roles: dict[str, dict[str, Any]]
) -> CrewOptions:
    """Read the options of a crew. The options of [run] in shopfloor.toml are the defaults for every worker."""
    if "agent" not in roles.get("worker", {}) and file is None and settings.run.get("agent"):
        roles = {**roles, "worker": {"agent": settings.run["agent"], **roles.get("worker", {})}}
    # A user who confines the agents of runs expects the same of crews.
    defaults = {name: value for name, value in settings.run.items() if name in SandboxOptions.model_fields}
    return make_absolute(read_crew_options(file, given, roles, defaults), settings.project)


def _check_options(settings: Settings, options: CrewOptions, *, needs_planner: bool) -> None:
    """Raise BadSettings if a crew cannot be driven with the options."""
    roles: list[tuple[RunOptions | None, Path, tuple[str, ...]]] = [
        (kind, task_work.WORKER_TEMPLATE, task_work.WORKER_VARIABLES) for kind in options.worker
    ]
    if needs_planner:
        roles.append((options.planner, task_work.PLANNER_TEMPLATE, task_work.PLANNER_VARIABLES))
    if options.reviewer is not None:
        roles.append((options.reviewer, task_work.REVIEWER_TEMPLATE, task_work.REVIEWER_VARIABLES))
    if not options.worker:
        raise BadSettings("No agent given", hint=describe_choices())
    for role, template, variables in roles:
        if role is None or role.agent is None:
            raise BadSettings("No agent given", hint=describe_choices())
        program = role.agent[0]
        if shutil.which(program if os.sep not in program else settings.project / program) is None:
            raise BadSettings(f"Agent program '{program}' not found", hint=describe_installation(program))
        prompt.load_template(None if role.template is None else settings.project / role.template, template, variables)
    build_sandbox(settings, options, settings.project, ())


def _find_title(spec: str, file: Path | None) -> str:
    """Return the first heading, item or line of a specification, without its mark."""
    lines = (line.strip().lstrip("#*-").strip() for line in spec.splitlines())
    title = next((line for line in lines if line), "" if file is None else file.stem)
    return title[:_MAX_TITLE_CHARACTERS]


def _drive(
    settings: Settings,
    crew: Crew,
    options: CrewOptions,
    headless: bool,
    *,
    workers: int | None = None,
    retry_failed: bool = False,
) -> int:
    view: View = JsonLines() if headless or not sys.stdout.isatty() else CrewView()
    with log_to_file(settings, f"crew-{crew.name}"):
        ending = asyncio.run(_drive_crew(settings, crew, options, view, workers, retry_failed))
    if ending.code == 0 and options.auto_merge:
        view.show("merged", crew=crew.name, how=merge(settings, crew.name))
    return ending.code


async def _drive_crew(
    settings: Settings, crew: Crew, options: CrewOptions, view: View, workers: int | None, retry_failed: bool
) -> Ending:
    # The crew's own server serves nothing: each agent gets its own.
    only = Principal(Kind.RUNNER, crew.name, CREW_DRIVER)
    shopfloor = await asyncio.to_thread(Shopfloor, settings, kind="crew", only=only)
    async with shopfloor:
        store = CrewStore(shopfloor, crew.name)
        crew = await store.drive(options.model_dump_json(), workers, retry_failed=retry_failed)
        trees = await _open_worktrees(settings, crew, in_sandbox=options.sandbox)
        await trees.ensure_branch(crew.base)
        status: CrewStatus = await store.load_status()
        facts = {"epic": f"epic-{crew.epic}", "branch": crew.branch, "workers": crew.workers}
        view.show("crew_started", crew=crew.name, **facts)
        if crew.fence == 1 and (files := await worktrees.count_uncommitted_files(settings.project)):
            changed = "1 file" if files == 1 else f"{files} files"
            text = f"uncommitted changes to {changed} are not part of the work, which begins at {crew.base[:12]}"
            view.show("warning", crew=crew.name, text=text)
        driver = CrewDriver(settings, options, store, trees, status, view)
        sandbox = build_sandbox(settings, options, trees.folder, options.agents)
        with processes.confine(sandbox), _handle_signals(driver):
            ending = await driver.run()
            await driver.finish(ending)
            return ending


async def _open_worktrees(settings: Settings, crew: Crew, *, in_sandbox: bool) -> Worktrees:
    top, prefix = await worktrees.find_repository(settings.project)
    return Worktrees(top, prefix, get_worktree_folder(settings, crew.name), crew.name, crew.branch, in_sandbox)


def get_worktree_folder(settings: Settings, name: str) -> Path:
    """Return the folder of a crew's worktrees."""
    return settings.data / WORKTREE_FOLDER / f"crew-{name}"


def list_dirty(settings: Settings, name: str) -> list[Path]:
    """Return the worktrees of a crew's tasks on this machine that have uncommitted work."""
    folders = sorted(get_worktree_folder(settings, name).glob("task-*"))
    return [folder for folder in folders if asyncio.run(worktrees.has_changes(folder))]


@contextmanager
def _handle_signals(driver: CrewDriver) -> Iterator[None]:
    """Stop the crew cleanly at the first signal, and end its agents immediately at the second."""
    loop = asyncio.get_running_loop()
    stopping = False

    def handle(sign: signal.Signals) -> None:
        nonlocal stopping
        if stopping:
            driver.end_agents_now()
        stopping = True
        driver.stop(*SIGNALS[sign])

    for sign in SIGNALS:
        loop.add_signal_handler(sign, handle, sign)
    try:
        yield
    finally:
        for sign in SIGNALS:
            loop.remove_signal_handler(sign)
