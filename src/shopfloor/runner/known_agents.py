"""Coding agents known to speak ACP: the command that starts each, and how to install it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KnownAgent:
    """An agent, the command for `--agent`, and the command that installs its program."""

    name: str
    command: str
    install: str
    note: str = ""
    state: tuple[str, ...] = ()
    """Folders below the home folder where the agent keeps its sign-in and its sessions. A sandbox lets the agent write
    there."""

    @property
    def program(self) -> str:
        """The program that the command starts."""
        return self.command.split()[0]

    @property
    def installed(self) -> bool:
        """True if the program is on the PATH."""
        return shutil.which(self.program) is not None


KNOWN_AGENTS = (
    KnownAgent(
        "Claude Code",
        "claude-agent-acp",
        "npm install -g @agentclientprotocol/claude-agent-acp",
        "sign in with claude",
        (".claude", ".claude.json"),
    ),
    KnownAgent(
        "Codex", "codex-acp", "npm install -g @agentclientprotocol/codex-acp", "sign in with codex", (".codex",)
    ),
    # Without --skip-trust it gives the run's tools to its model only in a trusted folder.
    KnownAgent("Gemini CLI", "gemini --acp --skip-trust", "npm install -g @google/gemini-cli", state=(".gemini",)),
    KnownAgent(
        "goose",
        "goose acp",
        "npm install -g @aaif/goose-acp",
        state=(".config/goose", ".local/share/goose", ".local/state/goose"),
    ),
    KnownAgent(
        "opencode",
        "opencode acp",
        "npm install -g opencode-ai",
        state=(".config/opencode", ".local/share/opencode", ".local/state/opencode", ".cache/opencode"),
    ),
    KnownAgent("Qwen Code", "qwen --acp", "npm install -g @qwen-code/qwen-code", state=(".qwen",)),
)


def describe_choices() -> str:
    """Return the exact `--agent` options of the known agents, installed ones first."""
    lines = [
        f"--agent '{agent.command}'  {agent.name}{'' if agent.installed else ' (not installed)'}"
        for agent in sorted(KNOWN_AGENTS, key=lambda agent: not agent.installed)
    ]
    return "\n  ".join(["Name the command that starts one:", *lines])


def describe_installation(program: str) -> str:
    """Return how to install a missing program."""
    agent = next((each for each in KNOWN_AGENTS if each.program == program), None)
    if agent is None:
        return "Check the spelling, or name another: shopfloor agent known"
    return f"Install {agent.name}: {agent.install}"
