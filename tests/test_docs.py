"""Documentation is tested: a setting, a tool or a command without its page fails."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from shopfloor import cli
from shopfloor.app import TOOLSETS
from shopfloor.cli.options import WHERE
from shopfloor.cli.pages import tools_page
from shopfloor.settings import PREFIX, Settings
from shopfloor.toolsets.factory import permissions

CHECKOUT = Path(__file__).resolve().parent.parent
DOCS = CHECKOUT / "docs"


def page(name):
    return (DOCS / name).read_text("utf-8")


def test_the_readme_is_short_enough_to_be_read():
    assert 75 <= len((CHECKOUT / "README.md").read_text("utf-8").splitlines()) <= 150


@pytest.mark.parametrize(
    "path", [CHECKOUT / "README.md", *sorted(DOCS.glob("*.md")), *sorted(CHECKOUT.glob("[A-Z]*.md"))]
)
def test_a_page_leads_somewhere(path):
    for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", path.read_text("utf-8")):
        assert (path.parent / target).exists(), f"{path.name} leads to {target}"


# --- settings ---


def default_of(name):
    field = Settings.model_fields[name]
    value = field.get_default(call_default_factory=True)
    if value in ("", None, (), {}):
        return ""
    return f"`{','.join(value) if isinstance(value, tuple) else value}`"


def row_of(name):
    """A setting's row in docs/settings.md."""
    description = Settings.model_fields[name].description
    return f"| `{name}` | `{PREFIX}{name.upper()}` | {default_of(name)} | {description} |"


def test_the_table_of_settings_is_current():
    rows = [line for line in page("settings.md").splitlines() if line.startswith("| `") and PREFIX in line]
    assert rows == [row_of(name) for name in Settings.model_fields]


# --- tools ---


def test_the_page_of_tools_is_current():
    rights = permissions.compiled(list(TOOLSETS["factory"].tools))
    assert page("tools.md") == tools_page(TOOLSETS.values(), rights), "make docs writes it anew"


# --- commands ---


def commands():
    """Every command, as it is typed, with its options."""
    root: Any = typer.main.get_command(cli.app)
    for name, command in root.commands.items():
        for path, each in [
            (name, command),
            *((f"{name} {sub}", c) for sub, c in getattr(command, "commands", {}).items()),
        ]:
            if not getattr(each, "commands", None):
                yield (
                    path,
                    [option for parameter in each.params for option in parameter.opts if option.startswith("--")],
                )


COMMANDS = dict(commands())


def test_these_are_the_commands():
    assert list(COMMANDS) == [
        *("serve", "stdio", "call", "tools"),
        *("agent add", "agent list", "agent show", "agent retire"),
        *("user add", "user list"),
        *("token issue", "token list", "token revoke"),
        *("inbox read", "inbox reply", "inbox answer", "inbox ack"),
    ]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_has_its_section_with_its_options(command):
    sections = re.split(r"^## ", page("cli.md"), flags=re.MULTILINE)
    (section,) = [section for section in sections if section.startswith(f"`shopfloor {command}")]
    everywhere = {f"--{name.replace('_', '-')}" for name in WHERE} | {"--json", "--help"}
    for option in set(COMMANDS[command]) - everywhere:
        assert f"`{option}" in section or f"{option} " in section or f"{option}]" in section, option


def test_the_options_of_every_command_are_told_once():
    text = page("cli.md").partition("\n## ")[0]
    for name in WHERE:
        assert f"`--{name}" in text
    assert "`--json`" in text
