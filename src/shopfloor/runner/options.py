"""What can be said about a run when it is begun; kept with it, so that a resume needs to say nothing again."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from shopfloor.domain.loops import split_command
from shopfloor.errors import BadSettings

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_SPAN = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd]?)")


def read_span(value: Any) -> Any:
    """Seconds, from a number or from a text like 90s, 30m, 2h."""
    if not isinstance(value, str):
        return value
    match = _SPAN.fullmatch(value.strip())
    if match is None:
        raise ValueError("write a time span like 90s, 30m, 2h or 1d")
    return float(match[1]) * _UNITS[match[2] or "s"]


def read_command(value: Any) -> Any:
    """A command line as an argument vector."""
    return split_command(value) if isinstance(value, str) else value


Span = Annotated[float, BeforeValidator(read_span), Field(gt=0)]
Command = Annotated[tuple[str, ...], BeforeValidator(read_command), Field(min_length=1)]


class RunOptions(BaseModel):
    """The options of `shopfloor run`; each is also a key of the table [run] in shopfloor.toml."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    agent: Command | None = Field(None, description="The agent's command, which speaks ACP: 'opencode acp'.")
    verify: tuple[Command, ...] = Field((), description="A command that must pass before the run is done; repeatable.")
    permissions: Literal["ask", "allow", "deny", "rules"] = Field(
        "ask", description="What the agent may do when it asks: ask a person, allow, deny, or as run_permissions say."
    )
    iterations: int = Field(50, ge=1, description="So many iterations at most, the planning one included.")
    time: Span | None = Field(None, description="So long at most: 90s, 30m, 2h.")
    tokens: int | None = Field(None, ge=1, description="So many tokens at most, where the agent reports them.")
    cost: float | None = Field(None, gt=0, description="So much cost at most, where the agent reports it.")
    iteration_time: Span = Field(1800.0, description="So long at most for one iteration.")
    verify_time: Span = Field(600.0, description="So long at most for each verifying command.")
    permission_time: Span = Field(3600.0, description="So long a question to a person waits; then it is denied.")
    no_progress: int = Field(3, ge=1, description="After so many iterations without progress the prompt is changed.")
    commit: bool = Field(False, description="Commit after each iteration what the agent changed.")
    extra: str = Field("", description="Something more to tell the agent in each prompt.")
    handshake: Span = Field(60.0, description="So long the agent has to say hello and to open a session.")
    grace: Span = Field(10.0, description="So long the agent has to stop when it is asked to.")
    template: str | None = Field(None, description="A file with the prompt's template; see template export.")


def read_options(defaults: dict[str, Any], given: dict[str, Any]) -> RunOptions:
    """The options, given ones before the defaults of the config file."""
    try:
        return RunOptions(**defaults | given)
    except ValidationError as error:
        problems = [
            f"{'.'.join(map(str, item['loc'])).replace('_', '-')}: {item['msg'].removeprefix('Value error, ')}"
            for item in error.errors(include_url=False)
        ]
        raise BadSettings("; ".join(problems), hint="See the options: shopfloor run --help") from None
