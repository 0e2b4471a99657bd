"""authorize: find which principal the call acts as, whether the tool exists, and whether the caller may use it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from shopfloor.domain.principals import LOCAL, LOCAL_OPERATOR, SERVER, Kind, Principal, check_user_name
from shopfloor.errors import InvalidInput, PermissionDenied, ToolNotFound
from shopfloor.repositories.uow import Database
from shopfloor.toolkit import AuthenticatedRequest, Request, Tool, Toolset
from shopfloor.usecases import runs

Allows = Callable[[Toolset, Principal, Tool], bool]


def authorize(
    next: Callable[[AuthenticatedRequest, Principal, Tool], Any], database: Database, allows: Allows
) -> Callable[[AuthenticatedRequest], Any]:
    """Reject callers that are not allowed to use the tool."""

    # Once per process: its ancestors do not change in a way that matters.
    @functools.cache
    def find_enclosing_driver() -> str | None:
        return database.read(runs.find_enclosing_driver, SERVER)

    def check_person(call: AuthenticatedRequest, caller: Principal, tool: Tool) -> None:
        """Reject calls that may come from an agent with the rights of the user who started it."""
        if caller.kind is Kind.OPERATOR and (driver := find_enclosing_driver()) is not None:
            # Without this, `shopfloor runs answer 1 allow` in the agent's own shell would answer the agent's question.
            hint = "Answer and administer from another terminal, or on the pages"
            raise PermissionDenied(f"A process of {driver} cannot act as the operator", hint=hint)
        # A process can leave the tree, with its own PID namespace or by killing its reaper.
        if tool.approval and not call.request.credential.attended and database.read(runs.has_drivers, SERVER):
            hint = "Run it in a terminal, answer on the pages, or set SHOPFLOOR_OPERATOR_TOKEN"
            raise PermissionDenied("While an agent is driven, an approval from a command needs a terminal", hint=hint)
        if call.actor == LOCAL_OPERATOR:
            _check_open_caller(database, call.request.toolset, caller)

    def step(call: AuthenticatedRequest) -> Any:
        request = call.request
        caller = call.record.caller = _find_caller(database, request, call.actor)
        # After the caller is known, so that a call of an unknown tool is logged under its name.
        tool = request.tool
        if tool is None:
            raise ToolNotFound(tool=request.tool_name)
        if not allows(request.toolset, caller, tool):
            raise PermissionDenied(
                f"Tool '{tool.name}' is not allowed for agent type '{caller.title}'",
                tool=tool.name,
                role=caller.title,
            )
        if not tool.read_only:
            check_person(call, caller, tool)
        return next(call, caller, tool)

    return step


def _check_open_caller(database: Database, toolset: Toolset, caller: Principal) -> None:
    """Reject a caller without a credential that acts as a person, or as a driven agent, while agents are driven.

    On a server that needs no credential yet, a driven agent is a local caller like any other.
    """
    for_person = toolset.for_people and database.read(runs.has_drivers, SERVER)
    for_agent = caller.kind is Kind.AGENT and database.read(lambda uow: runs.is_driven_agent(uow, caller.name), SERVER)
    if for_person or for_agent:
        what = "changes on the pages need a sign-in" if for_person else f"the agent '{caller.name}' needs its token"
        raise PermissionDenied(f"While an agent is driven, {what}", hint="Run `shopfloor link` and open the link")


def _find_caller(database: Database, request: Request, actor: Principal) -> Principal:
    """Return the principal that the call acts as. Only the operator may act as another principal."""
    if request.toolset.caller_argument is not None:
        return _caller_from_argument(request, request.toolset.caller_argument, actor)
    if actor.kind is Kind.OPERATOR:
        return _impersonate(database, request, actor)
    claimed = request.claimed_name
    if claimed is not None and claimed != actor.name:
        raise PermissionDenied(f"The credential belongs to '{actor.name}', not to '{claimed[:64]}'", rule="other_name")
    return actor


def _impersonate(database: Database, request: Request, operator: Principal) -> Principal:
    name = LOCAL if request.claimed_name is None else request.claimed_name
    match request.toolset.principal_kind:
        case Kind.USER:
            return Principal(Kind.USER, check_user_name(name))
        case Kind.AGENT:
            return database.read(lambda uow: uow.agents.get_active(name), operator).principal
        case Kind.RUN:
            return database.read(lambda uow: runs.get_principal(uow, request.claimed_name), operator)
        case _ if request.claimed_name is not None:
            return database.read(lambda uow: uow.agents.get_active(name), operator).principal
    return operator


def _caller_from_argument(request: Request, argument: str, actor: Principal) -> Principal:
    """Return the user named by an argument, which the layer around an in-process agent sets.

    A user's credential can name only that user.
    """
    if actor.kind not in (Kind.OPERATOR, Kind.USER):
        return actor
    given = request.input.get(argument) if isinstance(request.input, Mapping) else None
    if not isinstance(given, str) or not given.strip():
        raise InvalidInput(f"{argument} is required", field=argument, rule="missing", status=400)
    try:
        name = check_user_name(given)
    except InvalidInput as error:
        raise InvalidInput(error.message, field=argument, rule="user_name", status=400) from None
    # All names involved must be equal; a set of one element checks that without a chain of comparisons.
    allowed = {request.claimed_name or name, actor.name if actor.kind is Kind.USER else name}
    if allowed != {name}:
        raise PermissionDenied(f"{argument} does not match the authenticated user")
    return Principal(Kind.USER, name)
