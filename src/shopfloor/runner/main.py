"""Drive a run from beginning to end. The server of its tools starts before its agent and stops after it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shopfloor.domain.principals import Kind, Principal
from shopfloor.domain.runs import Run
from shopfloor.errors import BadSettings
from shopfloor.gateways import logs
from shopfloor.runner import git, processes, prompt, reaped_process, run_store, states, steering
from shopfloor.runner.acp import McpServerRef
from shopfloor.runner.context import Ending, RunContext
from shopfloor.runner.known_agents import describe_choices, describe_installation
from shopfloor.runner.live_view import LiveView
from shopfloor.runner.options import RunOptions, read_options
from shopfloor.runner.run_store import RunStore
from shopfloor.runner.sandbox import build_sandbox, make_absolute
from shopfloor.runner.specification_work import SpecificationWork
from shopfloor.runner.view import JsonLines, View, read_keys
from shopfloor.serving import Shopfloor
from shopfloor.settings import WORKTREE_FOLDER, Settings

LOG_FOLDER = "runs"
SIGNALS = {
    signal.SIGHUP: (129, "its terminal was closed"),
    signal.SIGINT: (130, "it was interrupted"),
    signal.SIGTERM: (143, "it was terminated"),
}
"""The exit code and the reason of a run that a signal ends."""

_FOLLOW_END_SECONDS = 5.0


def run(
    settings: Settings,
    given: dict[str, Any],
    *,
    name: str | None = None,
    spec: Path | None = None,
    resume: str | None = None,
    headless: bool = False,
) -> int:
    """Create a run, or resume one, drive it to its end and return the exit code."""
    try:
        text = None if spec is None else spec.read_text("utf-8")
    except FileNotFoundError:
        raise BadSettings(
            f"Specification not found: {spec}", hint="Describe the work in a file, such as SPEC.md"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadSettings(f"Cannot read the specification {spec}: {error}") from None
    if resume is None:
        options = make_absolute(read_options(settings.run, given), settings.project)
        options = _check_options(settings, options)
        if spec is None or text is None:
            raise BadSettings("No specification given", hint="Start with --spec FILE, or continue with --resume NAME")
        name, settings = _create_run(settings, options, name, spec.stem, text)
        text = None
    else:
        with contextlib.closing(Shopfloor(settings, kind="cli")) as shopfloor:
            known = run_store.get_run(shopfloor, resume)
        settings = use_project(settings, known.project)
        name, stored = known.name, RunOptions.model_validate_json(known.options)
        options = _check_options(settings, read_options(stored.model_dump(), given))
    # The run's own server, for this run only, on a free loopback port.
    own = {"profile": (*settings.run_toolsets, "review"), "host": "127.0.0.1", "port": 0}
    served = Settings(**settings.model_dump(exclude_unset=True) | own)
    view: View = JsonLines() if headless or not sys.stdout.isatty() else LiveView()
    with log_to_file(settings, name), Shopfloor(served, kind="run", only=Principal(Kind.RUN, name)) as shopfloor:
        return asyncio.run(_drive(RunStore(shopfloor, name), shopfloor, settings, options, text, view)).code


def _create_run(
    settings: Settings, options: RunOptions, name: str | None, wanted_name: str, spec: str
) -> tuple[str, Settings]:
    """Create the run, in its own worktree if needed. Return its name and the settings of its project."""
    prefix = None if options.worktree == "never" else asyncio.run(git.find_prefix(settings.project))
    if prefix is None and options.worktree == "always":
        raise BadSettings("--worktree always needs a git repository with a commit", hint="Run `git init` and commit")
    folder = settings.data / WORKTREE_FOLDER
    # In its own worktree, the agent can commit although the repository is read-only; see sandbox.py.
    always = options.worktree == "always" or (options.sandbox and prefix is not None)
    with contextlib.closing(Shopfloor(settings, kind="cli")) as shopfloor:
        created = run_store.create_run(
            shopfloor,
            name,
            wanted_name,
            spec,
            options.model_dump_json(),
            worktrees=None if prefix is None else (str(folder), prefix),
            always_worktree=always,
        )
    if created.project == str(settings.project):
        return created.name, settings
    asyncio.run(git.add_worktree(settings.project, folder / created.name, f"{git.BRANCH_PREFIX}{created.name}"))
    return created.name, use_project(settings, created.project)


def use_project(settings: Settings, project: str) -> Settings:
    """Return the settings for a run of that project, on the same store."""
    if not project or Path(project) == settings.project:
        return settings
    if not Path(project).is_dir():
        raise BadSettings(f"The run works in {project}, which does not exist", hint="Restore the folder, then resume")
    # A worktree is another folder of the same project. Another project has its own config file.
    if Path(project).is_relative_to(settings.data):
        known = settings.model_dump(exclude_unset=True)
    else:
        known = {key: getattr(settings, key) for key in ("database", "workspace") if key in settings.model_fields_set}
    return Settings(**known | {"project": Path(project), "data": settings.data})


def _check_options(settings: Settings, options: RunOptions) -> RunOptions:
    """Return the options, or raise BadSettings if a run cannot be driven with them."""
    if options.agent is None:
        raise BadSettings("No agent given", hint=describe_choices())
    program = options.agent[0]
    # The agent is started in the project, so paths are relative to it.
    if shutil.which(program if os.sep not in program else settings.project / program) is None:
        raise BadSettings(f"Agent program '{program}' not found", hint=describe_installation(program))
    _load_template(settings, options)
    if options.sandbox and options.commit and options.worktree == "never":
        hint = "Omit --worktree never: the run then works in a worktree and commits there"
        raise BadSettings("--commit in a sandbox needs a worktree", hint=hint)
    build_sandbox(settings, options, settings.project, ())
    return options


def _load_template(settings: Settings, options: RunOptions) -> str:
    file = None if options.template is None else settings.project / options.template
    # An agent in a sandbox can write to the project. Its prompt must not show it a file that the sandbox hides.
    if options.sandbox and file is not None and file.is_relative_to(settings.project) and file.resolve() != file:
        raise BadSettings(f"The template {file} must not be a link, or be in a linked folder", hint="Copy it")
    return prompt.load_template(file)


@contextmanager
def log_to_file(settings: Settings, name: str) -> Iterator[None]:
    """Write log lines to a file of the run: the screen belongs to the view."""
    folder = settings.data / LOG_FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / f"{name}.log").open("a", encoding="utf-8") as stream:
        handler = logs.configure_logging("json", settings.log_level, stream)
    try:
        yield
    finally:
        reaped_process.end_server()
        logging.getLogger().handlers.clear()
        handler.flush()
        handler.close()


async def _drive(
    store: RunStore, shopfloor: Shopfloor, settings: Settings, options: RunOptions, spec: str | None, view: View
) -> Ending:
    # Without a repository, fail now rather than after the first iteration.
    if options.commit:
        await git.check_repository(settings.project)
    run, token = await store.drive(options.model_dump_json(), spec)
    own_worktree = settings.data / WORKTREE_FOLDER / run.name
    is_own = settings.project.is_relative_to(own_worktree)
    root = own_worktree if is_own else settings.project
    sandbox = build_sandbox(settings, options, root, (options.agent, options.reviewer))
    with processes.confine(sandbox):
        if sandbox is not None and is_own:
            await git.detach_head(own_worktree)
        return await _serve(store, shopfloor, run, token, settings, options, view)


async def _serve(
    store: RunStore,
    shopfloor: Shopfloor,
    run: Run,
    token: str,
    settings: Settings,
    options: RunOptions,
    view: View,
) -> Ending:
    async with shopfloor.serving() as url:
        context = RunContext(
            store=store,
            run=run,
            options=options,
            settings=settings,
            work=SpecificationWork(_load_template(settings, options)),
            mcp_server=McpServerRef(f"{url}/mcp", token),
            view=view,
        )
        others = await store.list_neighbours()
        if others:
            view.show("project_shared", run=run.name, project=run.project, runs=others)
        return await drive_run(context)


async def drive_run(context: RunContext) -> Ending:
    """Drive a run in the foreground, with signals and a view."""
    with _handle_signals(context), _display_view(context):
        return await drive_agent(context)


async def drive_agent(context: RunContext) -> Ending:
    """Run the states, and follow people's requests meanwhile. The agent has ended when this returns or fails."""
    following = asyncio.create_task(steering.follow_run(context))
    running = asyncio.create_task(states.run(context))
    try:
        await asyncio.wait({running, following}, return_when=asyncio.FIRST_COMPLETED)
        # Raises if another driver has taken the run over.
        if following.done():
            following.result()
        ending = await running
        # It ends with the run on its own. Cancelling its waiting call would log a failed one.
        await asyncio.wait({following}, timeout=_FOLLOW_END_SECONDS)
        return ending
    finally:
        for task in (following, running):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task
        await context.end_agent()


@contextmanager
def _handle_signals(context: RunContext) -> Iterator[None]:
    """Stop the run cleanly at the first signal, and end its agent immediately at the second."""
    loop = asyncio.get_running_loop()

    def handle(sign: signal.Signals) -> None:
        # The second signal: closing the lifeline makes the reaper end the agent without a grace period.
        if context.ending is not None and context.agent is not None:
            context.agent.child.release()
        code, why = SIGNALS[sign]
        context.stop(code, why)

    for sign in SIGNALS:
        loop.add_signal_handler(sign, handle, sign)
    try:
        yield
    finally:
        for sign in SIGNALS:
            loop.remove_signal_handler(sign)


@contextmanager
def _display_view(context: RunContext) -> Iterator[None]:
    """Display a live view, and let keys answer the agent's questions."""
    view, loop = context.view, asyncio.get_running_loop()
    if not isinstance(view, LiveView):
        yield
        return
    answering: set[asyncio.Task[None]] = set()

    def on_key(key: str) -> None:
        answer = view.find_answer(key)
        if answer is not None:
            task = loop.create_task(context.store.answer_request(*answer))
            answering.add(task)
            task.add_done_callback(answering.discard)

    with contextlib.ExitStack() as stack:
        stack.enter_context(view.display())
        if sys.stdin.isatty():
            stack.enter_context(read_keys(on_key, loop))
        yield
