"""Running: a run from its first to its last moment, with its server before its agent and after it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shopfloor.domain.actors import Kind, Principal
from shopfloor.errors import BadSettings
from shopfloor.gateways import logs
from shopfloor.runner import book as books
from shopfloor.runner import changes, prompt, states
from shopfloor.runner.acp import Door
from shopfloor.runner.book import Book
from shopfloor.runner.drive import Drive, Ending
from shopfloor.runner.options import RunOptions, read_options
from shopfloor.runner.view import JsonLines, LiveView, View, keys
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings

LOGS = "runs"
SIGNALS = {signal.SIGTERM: (0, "it was told to end"), signal.SIGINT: (130, "it was interrupted")}


def run(
    settings: Settings,
    given: dict[str, Any],
    *,
    name: str | None = None,
    spec: Path | None = None,
    resume: str | None = None,
    headless: bool = False,
) -> int:
    """The exit code of a run that was begun, or taken up again, and driven to its end."""
    text = None if spec is None else _read(spec)
    if resume is None:
        options = _checked(settings, read_options(settings.run, given))
        name = _begun(settings, options, name, spec, text)
        text = None
    else:
        name, kept = _known(settings, resume)
        options = _checked(settings, read_options(kept.model_dump(), given))
    own = {"profile": settings.run_toolsets, "host": "127.0.0.1", "port": 0}
    served = Settings(**settings.model_dump(exclude_unset=True) | own)
    view: View = JsonLines() if headless or not sys.stdout.isatty() else LiveView()
    with _logged(settings, name), Shopfloor(served, kind="run", only=Principal(Kind.RUN, name)) as shopfloor:
        return asyncio.run(_run(Book(shopfloor, name), shopfloor, settings, options, text, view)).code


def _read(spec: Path) -> str:
    try:
        return spec.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadSettings(f"The specification {spec} cannot be read: {error}") from None


def _checked(settings: Settings, options: RunOptions) -> RunOptions:
    """The options, if a run can be driven with them."""
    if options.agent is None:
        raise BadSettings("No agent was named", hint="Say how to start one: --agent 'opencode acp'")
    _template(settings, options)
    return options


def _template(settings: Settings, options: RunOptions) -> str:
    return prompt.load(None if options.template is None else settings.project / options.template)


def _begun(settings: Settings, options: RunOptions, name: str | None, spec: Path | None, text: str | None) -> str:
    if spec is None or text is None:
        raise BadSettings("No specification was named", hint="Begin with --spec FILE, or go on with --resume NAME")
    with contextlib.closing(Shopfloor(settings, kind="cli")) as shopfloor:
        return books.create(shopfloor, name, spec.stem, text, options.model_dump_json())


def _known(settings: Settings, name: str) -> tuple[str, RunOptions]:
    with contextlib.closing(Shopfloor(settings, kind="cli")) as shopfloor:
        known = books.find(shopfloor, name)
    return known.name, RunOptions.model_validate_json(known.options)


@contextmanager
def _logged(settings: Settings, name: str) -> Iterator[None]:
    """Log lines go into a file of the run: the screen is the view's."""
    folder = settings.data / LOGS
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / f"{name}.log").open("a", encoding="utf-8") as stream:
        logs.set_up("json", settings.log_level, stream)
        try:
            yield
        finally:
            logging.getLogger().handlers.clear()


async def _run(
    book: Book, shopfloor: Shopfloor, settings: Settings, options: RunOptions, spec: str | None, view: View
) -> Ending:
    if options.commit:
        await changes.dirty(settings.project)
    known, token = await book.drive(options.model_dump_json(), spec)
    async with shopfloor.serving() as url:
        drive = Drive(
            book=book,
            run=known,
            options=options,
            settings=settings,
            template=_template(settings, options),
            door=Door(f"{url}/mcp", token),
            shopfloor=shopfloor,
            view=view,
        )
        return await _driven(drive)


async def _driven(drive: Drive) -> Ending:
    """How the run ended. Its agent is gone before anything else goes."""
    following = asyncio.create_task(drive.follow())
    walking = asyncio.create_task(states.walk(drive))
    try:
        with _heeding(drive), _watched(drive):
            await asyncio.wait({walking, following}, return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                following.result()
            return await walking
    finally:
        for task in (following, walking):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task
        await drive.end_agent()


@contextmanager
def _heeding(drive: Drive) -> Iterator[None]:
    """A first signal stops the run in good order, a second one at once."""
    loop = asyncio.get_running_loop()

    def heed(sign: signal.Signals) -> None:
        if drive.ending is not None and drive.agent is not None:
            drive.agent.child.let_go()
        code, why = SIGNALS[sign]
        drive.stop(code, why)

    for sign in SIGNALS:
        loop.add_signal_handler(sign, heed, sign)
    try:
        yield
    finally:
        for sign in SIGNALS:
            loop.remove_signal_handler(sign)


@contextmanager
def _watched(drive: Drive) -> Iterator[None]:
    """The view is on the screen, and keys answer what the agent asks."""
    view, loop = drive.view, asyncio.get_running_loop()
    if not isinstance(view, LiveView):
        yield
        return
    answering: set[asyncio.Task[None]] = set()

    def pressed(key: str) -> None:
        answer = view.pressed(key)
        if answer is not None:
            task = loop.create_task(drive.book.answer(*answer))
            answering.add(task)
            task.add_done_callback(answering.discard)

    with contextlib.ExitStack() as stack:
        stack.enter_context(view.shown())
        if sys.stdin.isatty():
            stack.enter_context(keys(pressed, loop))
        yield
