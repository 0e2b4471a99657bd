"""The options of a run. They are stored with it, so that a resume does not need to repeat them."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError

from shopfloor.domain.runs import split_command
from shopfloor.errors import BadSettings
from shopfloor.runner.sandbox import SandboxOptions
from shopfloor.runner.session_settings import SessionSettings

_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd]?)")


def parse_duration(value: Any) -> Any:
    """Convert a text like 90s, 30m or 2h to seconds; leave other values to the validator."""
    if not isinstance(value, str):
        return value
    match = _DURATION.fullmatch(value.strip())
    if match is None:
        raise ValueError("expected a duration such as 90s, 30m, 2h or 1d")
    return float(match[1]) * _UNIT_SECONDS[match[2] or "s"]


def parse_command(value: Any) -> Any:
    """Split a command line into an argument vector; leave other values to the validator."""
    return split_command(value) if isinstance(value, str) else value


Duration = Annotated[float, BeforeValidator(parse_duration), Field(gt=0)]
Command = Annotated[tuple[str, ...], BeforeValidator(parse_command), Field(min_length=1)]


class RunOptions(SandboxOptions):
    """The options of `shopfloor run`; each is also a key of the table [run] in shopfloor.toml."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    agent: Command | None = Field(None, description="Command that starts an ACP agent, for example 'opencode acp'.")
    verify: tuple[Command, ...] = Field((), description="Acceptance command: must pass before the run is done.")
    permissions: Literal["ask", "allow", "deny", "rules"] = Field(
        "ask", description="Response to permission requests: ask a person, allow, deny, or apply run_permissions."
    )
    mode: str | None = Field(
        None, description="Mode of the agent's sessions; by default one that asks, unless --permissions is allow."
    )
    model: str | None = Field(None, description="Model of the agent's sessions, by id or name; default: its own.")
    plan_mode: str | None = Field(None, description="Mode of the planning iteration; by default --mode.")
    plan_model: str | None = Field(None, description="Model of the planning iteration; by default --model.")
    approve_plan: bool = Field(False, description="Wait for a person to approve the tasks before work on them begins.")
    reviewer: Command | None = Field(
        None, description="Command that starts an ACP agent that must approve the work before the run is done."
    )
    reviewer_mode: str | None = Field(None, description="Mode of the reviewer's sessions; by default one that asks.")
    reviewer_model: str | None = Field(None, description="Model of the reviewer's sessions; default: its own.")
    review_time: Duration = Field(900.0, description="Time limit of one review.")
    review_rounds: int = Field(
        3, ge=1, description="Number of rejections by the reviewer after which a person decides."
    )
    worktree: Literal["auto", "always", "never"] = Field(
        "auto", description="Work in a git worktree of its own: auto does so if another run works in the project."
    )
    iterations: int = Field(50, ge=1, description="Maximum number of iterations, including planning.")
    time: Duration | None = Field(None, description="Time limit: 90s, 30m, 2h.")
    tokens: int | None = Field(None, ge=1, description="Maximum number of tokens, if the agent reports them.")
    cost: float | None = Field(None, gt=0, description="Maximum cost, if the agent reports it.")
    iteration_time: Duration = Field(1800.0, description="Time limit of one iteration.")
    verify_time: Duration = Field(600.0, description="Time limit of each acceptance command.")
    permission_time: Duration = Field(3600.0, description="How long a question waits for a person; then it is denied.")
    question_time: Duration = Field(
        86400.0, description="How long the run waits for an answer when no task is ready; then it ends."
    )
    rate_limit_pause: Duration = Field(
        30.0, description="First pause after a rate limit without a reset time; it doubles, up to an hour."
    )
    no_progress: int = Field(
        3, ge=1, description="Number of iterations without progress after which the prompt changes."
    )
    commit: bool = Field(False, description="Commit the agent's changes after each iteration.")
    extra: str = Field("", description="Text to add to every prompt.")
    handshake: Duration = Field(60.0, description="Handshake timeout, also for opening a session.")
    grace: Duration = Field(10.0, description="How long the agent may take to stop after it was asked to.")
    template: str | None = Field(None, description="File with the prompt template; see template export.")

    def get_session_settings(self, iteration: int) -> SessionSettings:
        """Return the model and the mode for an iteration's session; the first iteration plans."""
        model, mode = (self.plan_model, self.plan_mode) if iteration == 0 else (None, None)
        return SessionSettings(model or self.model, mode or self.mode, self.permissions != "allow")


def read_options(defaults: dict[str, Any], given: dict[str, Any]) -> RunOptions:
    """Combine the given options with the defaults of the config file."""
    try:
        return RunOptions(**defaults | given)
    except ValidationError as error:
        problems = [
            f"{'.'.join(map(str, item['loc'])).replace('_', '-')}: {item['msg'].removeprefix('Value error, ')}"
            for item in error.errors(include_url=False)
        ]
        raise BadSettings("; ".join(problems), hint="Run `shopfloor run --help` for the options") from None
