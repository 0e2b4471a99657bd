"""Start a server with a scripted team of agents, so that a newcomer sees every page with real content.

Everything is real except the agents: they are programs that follow a script, so no model is needed. Each member of the
team (`team.py`) is a process with its own token, one run drives the ACP agent in `agent.py`, and a crew of two drives
the one in `crew_agent.py`, if git is installed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import webbrowser
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from shopfloor import Settings, Shopfloor
from shopfloor.toolsets import factory
from shopfloor_demo import crew_agent
from shopfloor_demo.team import EPICS

HERE = Path(__file__).resolve().parent
PORT = 3001
STOP_SECONDS = 30.0
WAIT_SECONDS = 30.0
MIN_SILENCE_SECONDS = 20
TOKEN_VARIABLE = "DEMO_TOKEN"
"""Without the prefix of the settings: an unknown setting in the environment is rejected."""

TEAM = [
    ("lead", "SUPERVISOR", "supervisor"),
    ("planner", "ORCHESTRATOR", "orchestrator"),
    ("builder-1", "WORKER", "worker"),
    ("builder-2", "WORKER", "worker"),
    ("builder-3", "WORKER", "worker"),
    ("builder-4", "WORKER", "silent_worker"),
]
"""Name, agent type and script of each member."""

CRASHING_AGENT = "tester"

FILES = {
    "SPEC.md": """\
# Make the nightly reports fast

No report takes longer than a second.
""",
    "CREW.md": """\
# A page for each season

- frame: write pages/frame.html A page with a title and a place for the season
- spring: write pages/spring.html Asparagus, rhubarb and the first radishes after frame
- summer: write pages/summer.html Tomatoes, cherries and everything that needs shade after frame
- autumn: write pages/autumn.html Apples, pumpkins and a coat after frame
- winter: write pages/winter.html Cabbage, citrus and candles after frame
- menu-warm: append pages/menu.txt spring, summer after spring, summer
- menu-cold: append pages/menu.txt autumn, winter after autumn, winter
- sitemap: write pages/sitemap.txt frame, spring, summer, autumn, winter, menu after menu-warm, menu-cold
""",
    "README.md": """\
# Shop

A small shop, to see a team at work.

## Checkout

One page, in integer cents.
""",
    "src/prices.py": '''\
"""Prices, in cents."""


def add_tax(price: int, rate: int) -> int:
    """Add the tax to a price, rounded half up."""
    return (price * (100 + rate) + 50) // 100


def format_price(price: int) -> str:
    return f"{price // 100}.{price % 100:02d}"
''',
    "src/cart.py": '''\
from prices import add_tax


def total_price(lines: list[tuple[int, int]], rate: int) -> int:
    """Add up a cart. Each line is a price and a count."""
    return sum(add_tax(price, rate) * count for price, count in lines)
''',
    "tests/test_prices.py": """\
from prices import add_tax


def test_tax_is_rounded_half_up():
    assert add_tax(150, 19) == 179
""",
}
"""The project that the team works on."""


@factory.toolset.tool("mcp__stock__count", read_only=True)
def count_stock(_: Any) -> None:
    """Count the stock. It always fails, to show how a failure of the server escalates."""
    raise RuntimeError("The stock database does not respond")


def main() -> None:
    if sys.argv[1:] == ["agent"]:
        crew_agent.Agent().serve()
        return
    options = parse_options()
    # SIGHUP comes when the terminal is closed. The server is in a session of its own and would keep running.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt), contextlib.ExitStack() as stack:
        project = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shopfloor-demo-")))
        write_project(project, options.seconds)
        print(f"Starting the demo in {project}", flush=True)
        print("  1 of 4  the server", flush=True)
        port = find_port() if options.port is None else options.port
        server, url, link = stack.enter_context(start_server(project, port))
        print(f"  2 of 4  a team of {len(TEAM)} scripted agents", flush=True)
        team = stack.enter_context(start_team(project, url, options.seconds))
        report_crashes(project, url)
        print("  3 of 4  a run", flush=True)
        stack.enter_context(start_run(project))
        if shutil.which("git") is None:
            print("  4 of 4  a crew: left out, because git is not installed", flush=True)
        else:
            print("  4 of 4  a crew", flush=True)
            stack.enter_context(start_crew(project, options.seconds))
        print(f"The demo is running: {link}", flush=True)
        if options.open:
            webbrowser.open(link)
        print(f"  The team works for {options.seconds} s. Press Ctrl-C to stop.", flush=True)
        for member in team:
            member.wait()
        if options.leave:
            print("  The team has finished.", flush=True)
        else:
            print("  The team has finished. The pages stay available until Ctrl-C.", flush=True)
            server.wait()


class Parser(argparse.ArgumentParser):
    """Reports errors as the other commands do: what is wrong, and what to try."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"shopfloor: {message}\n  See shopfloor demo --help\n")


def parse_options() -> argparse.Namespace:
    parser = Parser(
        prog="shopfloor demo",
        description="Start a server with a scripted team of agents, and print a link to its pages.",
        epilog="`shopfloor demo agent` is the scripted ACP agent of the demo's crew, for `shopfloor crew start --agent`.",
    )
    parser.add_argument("--seconds", type=int, default=60, help="how long the team works (default 60)")
    parser.add_argument("--folder", type=Path, help="an empty folder for the project; by default a temporary one")
    parser.add_argument("--leave", action="store_true", help="stop the server when the team has finished")
    parser.add_argument("--open", action="store_true", help="open the pages in a browser")
    parser.add_argument("--port", type=int, help=f"the port of the server; {PORT} or, if it is taken, a free one")
    options, unknown = parser.parse_known_args()
    if unknown:
        name = unknown[0]
        parser.error(f"No such option: {name}" if name.startswith("-") else f"Got unexpected extra argument ({name})")
    if not 1 <= options.seconds <= 3600:
        parser.error("--seconds must be between 1 and 3600")
    if options.folder is not None:
        try:
            options.folder.mkdir(parents=True, exist_ok=True)
            is_empty = not any(options.folder.iterdir())
        except OSError as error:
            parser.error(f"{options.folder} cannot be used: {error.strerror}")
        if not is_empty:
            parser.error(f"{options.folder} is not empty; the demo needs a folder of its own")
        if not os.access(options.folder, os.W_OK):
            parser.error(f"{options.folder} is not writable")
    return options


def find_port() -> int:
    """Return the default port, or 0 for any free one if it is taken, perhaps by `make serve`."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", PORT))
        except OSError:
            return 0
    return PORT


def write_project(project: Path, seconds: int) -> None:
    """Write the files and the settings. An agent counts as silent before the team has finished."""
    for name, text in FILES.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    silence = max(MIN_SILENCE_SECONDS, seconds * 3 // 4)
    (project / "shopfloor.toml").write_text(f"agent_silence_seconds = {silence}\n")


@contextlib.contextmanager
def start_server(project: Path, port: int) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """Start `shopfloor serve`; yield the process, its address and a sign-in link."""
    arguments = ["serve", "--project", str(project), "--port", str(port), "--log-level", "warning"]
    # A session of its own, so that Ctrl-C stops the team before the server.
    server = subprocess.Popen(build_command(*arguments), stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert server.stdout is not None
    try:
        lines = iter(server.stdout.readline, "")
        link = next((word for line in lines for word in line.split() if "/enter?token=" in word), None)
        if link is None:
            sys.exit("shopfloor demo: The server did not start. Choose another port with --port N.")
        yield server, link.partition("/enter?")[0], link
    finally:
        stop(server)


@contextlib.contextmanager
def start_team(project: Path, url: str, seconds: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Create the agents and a user, and start each as a process."""
    with Shopfloor(Settings(project=project), kind="cli") as shopfloor:
        tokens = {name: create_agent(shopfloor, name, type) for name, type, _ in TEAM}
        user_token = shopfloor.call("desk", "user_add", {"name": "customer"})["token"]
        for _ in range(2):
            shopfloor.call("factory", "mcp__stock__count", {}, "lead")
    team = [start_member(script, url, name, seconds, tokens[name]) for name, _, script in TEAM]
    team.append(start_member("user", url, "customer", seconds, user_token))
    try:
        yield team
    finally:
        for member in team:
            stop(member)


def create_agent(shopfloor: Shopfloor, name: str, type: str) -> str:
    """Create an agent and return its token. The lead supervises the workers and the planner."""
    supervisor = "lead" if name in {member for member, *_ in TEAM if member != "lead"} else None
    response = shopfloor.call("desk", "agent_create", {"name": name, "type": type, "supervisor": supervisor})
    return str(response["token"])


def start_member(script: str, url: str, name: str, seconds: int, token: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", str(HERE / "team.py"), script, url, name, str(seconds)]
    return subprocess.Popen(command, env={**os.environ, TOKEN_VARIABLE: token})


def report_crashes(project: Path, url: str) -> None:
    """Start an agent that crashes three times, and report each crash, which is up to the program that starts agents."""
    with Shopfloor(Settings(project=project), kind="cli") as shopfloor:
        token = create_agent(shopfloor, CRASHING_AGENT, "WORKER")
        for _ in range(3):
            start_member("crashing_worker", url, CRASHING_AGENT, 1, token).wait()
            shopfloor.call("desk", "agent_report_crash", {"name": CRASHING_AGENT})


@contextlib.contextmanager
def start_run(project: Path) -> Iterator[None]:
    """Start `shopfloor run` with the scripted agent."""
    # A short command: the page of the run shows it.
    agent = str(write_agent_script(project, "demo-agent", "agent.py").relative_to(project))
    with start_quietly(project, "run", "--spec", "SPEC.md", "--name", "night", "--agent", agent, "--headless"):
        yield


@contextlib.contextmanager
def start_crew(project: Path, seconds: int) -> Iterator[None]:
    """Make the project a repository, and start `shopfloor crew start` with the scripted agent for crews."""
    for words in (
        ["init", "--quiet"],
        # Stored in the repository: the crew commits too, and a newcomer may have no identity in git yet.
        ["config", "user.name", "Demo"],
        ["config", "user.email", "demo@example.invalid"],
        ["config", "commit.gpgsign", "false"],
        ["add", *FILES],
        ["commit", "--quiet", "--message=Begin"],
    ):
        subprocess.run(["git", *words], cwd=project, check=True)
    # The epics of the team have the first numbers.
    wait_for(project, lambda shopfloor: len(shopfloor.call("desk", "board_epics")["epics"]) >= len(EPICS))
    # The whole path: each agent of a crew starts in a worktree of its own.
    agent = str(write_agent_script(project, "demo-crew-agent", "crew_agent.py"))
    agents = ["--agent", agent, "--workers", "2", "--reviewer", agent, "--permissions", "allow"]
    options = ["--spec", "CREW.md", "--name", "shop", *agents, "--verify", "git diff --check", "--tokens", "50000"]
    with start_quietly(project, "crew", "start", "--headless", *options, DEMO_PACE=f"{seconds / 12:.1f}"):
        wait_for(project, lambda shopfloor: bool(shopfloor.call("desk", "crew_list")["crews"]))
        yield


def wait_for(project: Path, condition: Callable[[Shopfloor], bool]) -> None:
    """Wait until the store of the project meets a condition, or it has taken too long."""
    ends = time.monotonic() + WAIT_SECONDS
    with Shopfloor(Settings(project=project), kind="cli") as shopfloor:
        while not condition(shopfloor) and time.monotonic() < ends:
            time.sleep(0.1)


def write_agent_script(project: Path, name: str, program: str) -> Path:
    """Write a script that starts a scripted agent, and return its path."""
    script = project / ".shopfloor" / name
    script.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, str(HERE / program)])} "$@"\n')
    script.chmod(0o755)
    return script


@contextlib.contextmanager
def start_quietly(project: Path, *arguments: str, **variables: str) -> Iterator[None]:
    """Start a command of Shopfloor in the project, and stop it at the end."""
    process = subprocess.Popen(
        build_command(*arguments, "--project", str(project)),
        cwd=project,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **variables},
    )
    try:
        yield
    finally:
        stop(process)


def build_command(*arguments: str) -> list[str]:
    """Return the command line of a Shopfloor command. -P keeps the project's own modules from being imported."""
    return [sys.executable, "-P", "-m", "shopfloor", *arguments]


def stop(process: subprocess.Popen[Any]) -> None:
    process.terminate()
    process.wait(STOP_SECONDS)


if __name__ == "__main__":
    main()
