"""The limits after which recovery steps in."""

from __future__ import annotations

from dataclasses import dataclass

from shopfloor.domain.principals import AGENT_TYPES
from shopfloor.domain.times import DAY, MINUTE


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one server, from its settings."""

    # How long an agent may be silent before its tasks go back to the queue.
    silence: int = 7 * MINUTE

    # How often a task may be started before it counts as failed.
    attempts: int = 5

    crashes: int = 3
    # Maximum number of crashes within this time before an agent counts as failed.
    crash_window: int = MINUTE

    # How long a failed agent pauses before it may try again; doubled each time.
    retry_pause: int = MINUTE

    longest_pause: int = 60 * MINUTE
    # How long a user's token is valid if no lifetime is given.
    user_token_lifetime: int = 30 * DAY

    # How long a user stays signed in on the pages.
    page_session_lifetime: int = 7 * DAY

    agent_types: tuple[str, ...] = AGENT_TYPES

    # Size of a response of context_search, in tokens of four characters.
    search_tokens: int = 6000

    # Whether the server starts runs, with which agent commands, and whether the project's config names one.
    launches_runs: bool = False
    run_agents: tuple[str, ...] = ()
    has_default_run_agent: bool = False
