"""shopfloor demo: a fresh floor, filled by a scripted crew, so that a newcomer sees every page alive."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess  # nosec B404: starts this very program
import sys
import tempfile
import time
import urllib.request
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from shopfloor.cli.options import command, doors, opened, whole
from shopfloor.errors import InvalidInput, StartRefused
from shopfloor.settings import CONFIG, Settings

CREW = [
    ("lead", "SUPERVISOR", "supervisor"),
    ("planner", "ORCHESTRATOR", "orchestrator"),
    ("builder-1", "WORKER", "worker"),
    ("builder-2", "WORKER", "worker"),
    ("builder-3", "WORKER", "worker"),
    ("builder-4", "WORKER", "sleeper"),
]
CRASHER = "tester"
SHORTEST_SILENCE = 20
PATIENCE = 30.0
KEY = "DEMO_KEY"
"""Not one of the settings, which the crew would be refused for."""

Seconds = Annotated[int, typer.Option("--seconds", help="How long the crew works.", min=1, max=3600)]
Folder = Annotated[
    Path | None, typer.Option("--folder", help="An empty folder for the demo's floor; by default one that goes away.")
]
Show = Annotated[bool, typer.Option("--open", help="Open the pages in the browser of this machine.")]
Leave = Annotated[bool, typer.Option("--leave", help="End when the crew has ended, instead of serving on.")]


def register(app: typer.Typer) -> None:
    """Add the command."""

    @command(app, "demo", "port")
    def demo(
        settings: Settings, seconds: Seconds = 60, folder: Folder = None, leave: Leave = False, show: Show = False
    ) -> None:
        """Fill a fresh floor with a scripted crew: real processes, real calls, no model; and show its pages."""
        with contextlib.ExitStack() as stack:
            place = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shopfloor-demo-")))
            place.mkdir(parents=True, exist_ok=True)
            if any(place.iterdir()):
                raise InvalidInput(f"{place} is not empty; the demo needs a floor of its own")
            silence = max(SHORTEST_SILENCE, seconds * 3 // 4)  # somebody goes silent while somebody still looks
            (place / CONFIG).write_text(f"agent_silence_seconds = {silence}\n")
            for name, text in crew_files().items():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).write_text(text)
            floor = Settings(project=place, data=place / ".shopfloor", port=settings.port)
            server = stack.enter_context(_serving(floor))
            url = _url(server)
            crew = stack.enter_context(_crew(floor, url, seconds))
            _trouble(floor, url)
            stack.enter_context(_loop(floor))
            link = f"{url}/enter?key={_link(floor)}"
            print(f"The floor is alive: {link}", flush=True)
            if show:
                webbrowser.open(link)
            print(f"  The crew works for {seconds} s. Ctrl-C ends the demo.", flush=True)
            for sig in (signal.SIGINT, signal.SIGTERM):
                signal.signal(sig, signal.default_int_handler)
            with contextlib.suppress(KeyboardInterrupt):
                for member in crew:
                    member.wait()
                print(
                    "  The crew has gone home" + ("." if leave else "; the pages stay open until Ctrl-C."), flush=True
                )
                if not leave:
                    server.wait()


@contextlib.contextmanager
def _serving(floor: Settings) -> Iterator[subprocess.Popen[str]]:
    arguments = ["serve", "--project", str(floor.project), "--port", str(floor.port), "--log-level", "warning"]
    server = subprocess.Popen(  # nosec B603: this very program
        [sys.executable, "-P", "-m", "shopfloor", *arguments], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        yield server
    finally:
        server.terminate()
        server.wait(PATIENCE)


def _url(server: subprocess.Popen[str]) -> str:
    """Where the server says that it listens."""
    assert server.stdout is not None
    first = server.stdout.readline().split()
    if not first:
        raise StartRefused("The demo's server did not start; see above", hint="Choose another port with --port N")
    url = first[-1]
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/readyz", timeout=5):  # nosec B310
            return url
        time.sleep(0.05)
    raise StartRefused(f"The demo's server at {url} does not answer")


@contextlib.contextmanager
def _crew(floor: Settings, url: str, seconds: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The members at work, each a process with a key of its own."""
    with opened(floor) as shopfloor:
        keys = [(role, name, shopfloor.hire(name, type, None if name == "lead" else "lead", with_token=True)[1])
                for name, type, role in CREW]  # fmt: skip
        keys.append(("user", "customer", shopfloor.add_user("customer")[1]))
    crew = [
        subprocess.Popen(  # nosec B603: this very program
            [sys.executable, "-P", "-m", "shopfloor.cli.crew", role, url, name, str(seconds)],
            env={**os.environ, KEY: key or ""},
        )
        for role, name, key in keys
    ]
    try:
        yield crew
    finally:
        for member in crew:
            member.terminate()
            member.wait(PATIENCE)


def _trouble(floor: Settings, url: str) -> None:
    """What goes wrong on a floor, for real: a process that ends too often, and a call that breaks."""
    with opened(floor) as shopfloor:
        _, key = shopfloor.hire(CRASHER, "WORKER", None, with_token=True)
        for _ in range(3):
            subprocess.run(  # nosec B603: this very program
                [sys.executable, "-P", "-m", "shopfloor.cli.crew", "crasher", url, CRASHER, "1"],
                env={**os.environ, KEY: key or ""},
                check=False,
            )
            shopfloor.crashed(CRASHER)
        whole().break_something(shopfloor, "lead")


@contextlib.contextmanager
def _loop(floor: Settings) -> Iterator[None]:
    """A loop beside the crew: a real run, whose agent works by a script."""
    agent = f"{shlex.quote(sys.executable)} -m shopfloor.cli.night"
    arguments = ["run", "--spec", str(floor.project / "SPEC.md"), "--name", "night", "--agent", agent, "--headless"]
    run = subprocess.Popen(  # nosec B603: this very program
        [sys.executable, "-P", "-m", "shopfloor", *arguments, "--project", str(floor.project)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        run.terminate()
        run.wait(PATIENCE)


def crew_files() -> dict[str, str]:
    """The files that the crew works on."""
    from shopfloor.cli.crew import FILES  # noqa: PLC0415 - the crew is a program of its own

    return FILES


def _link(floor: Settings) -> str:
    return str(doors().link(floor))
