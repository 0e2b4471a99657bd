"""The contract of the desk: camelCase arguments, plain responses, for the operator and for users by desk role."""

from __future__ import annotations

from shopfloor.domain.principals import EDITOR, VIEWER, Kind, Principal
from shopfloor.errors import AgentNotFound, InvalidState, NotFound, RunNotActive, RunNotDriven, ShopfloorError
from shopfloor.toolkit import Json, Request, Tool, Toolset, to_camel

_CREW_HINTS = {
    "crew_not_active": "Continue it from a terminal: shopfloor crew resume {crew}",
    "crew_not_driven": "Continue it from a terminal: shopfloor crew resume {crew}",
    "crew_completed": "Start another crew for further work",
    "crew_not_here": "Run it where the project is: shopfloor crew merge {crew}",
    "crew_merge_failed": "Merge {branch} by hand, and resolve what is in the way",
    "project_changed": "Commit or set aside the changes in the project, then merge again",
}
"""The next step after an error about a crew, by rule."""


def render_error(error: ShopfloorError, _: Request, __: int) -> Json:
    """Return the error with its code and, if there is one, the next step."""
    response: Json = {"error": error.message, "code": error.code}
    hint = error.hint or find_hint(error)
    return response if hint is None else {**response, "hint": hint}


def find_hint(error: ShopfloorError) -> str | None:
    """Return the next step after an error. Use cases raise errors with facts and know neither tools nor commands."""
    match error:
        case RunNotDriven(facts={"run": run}) | RunNotActive(facts={"run": run}):
            return f"Continue it from a terminal: shopfloor run --resume {run}"
        case InvalidState(facts={"rule": str(rule), "crew": _}) if rule in _CREW_HINTS:
            return _CREW_HINTS[rule].format(**error.facts)
        case NotFound(facts={"crew": _}):
            return "List the crews with crew_list"
        case InvalidState(facts={"rule": "request_answered"}):
            return "List the runs and their questions with run_list"
        case NotFound(facts={"run": _} | {"request": _}):
            return "List the runs and their questions with run_list"
        case AgentNotFound():
            return "List the agents with agent_list"
        case NotFound(facts={"user": _}):
            return "List the users with user_list"
        case NotFound(facts={"token": _}):
            return "List the tokens with token_list"
    return None


def allows(caller: Principal, tool: Tool) -> bool:
    """Allow the operator every tool, an editor all but the admin tools, and a viewer the read-only ones."""
    if caller.kind is Kind.OPERATOR:
        return True
    if caller.kind is not Kind.USER or tool.admin:
        return False
    return caller.role == EDITOR or (caller.role == VIEWER and tool.read_only)


toolset = Toolset(
    "desk",
    render_error=render_error,
    principal_kind=None,
    allows=allows,
    argument_name=to_camel,
    log_results=False,
    for_people=True,
)
