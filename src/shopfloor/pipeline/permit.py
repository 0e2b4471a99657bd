"""permit: as whom the call acts, whether there is such a tool, and whether the caller may use it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from shopfloor.domain.actors import LOCAL, Kind, Principal, user_name
from shopfloor.errors import InvalidInput, PermissionDenied, ToolNotFound
from shopfloor.pipeline import Next, Step
from shopfloor.repositories.work import Works
from shopfloor.toolkit import Answer, Call, Toolset
from shopfloor.usecases import loops

May = Callable[[Toolset, Principal, str], bool]


def permit(works: Works, may: May) -> Step:
    """The step that says no to those who may not."""

    def step(call: Call, next: Next) -> Answer:
        assert call.actor is not None
        call.caller = _caller(works, call, call.actor)
        call.tool = call.toolset.tools.get(call.name)
        if call.tool is None:
            raise ToolNotFound(tool=call.name, hint="List the tools that you may call: tools/list")
        if not may(call.toolset, call.caller, call.name):
            raise PermissionDenied(
                f"Tool '{call.name}' is not allowed for agent type '{call.caller.title}'",
                tool=call.name,
                role=call.caller.title,
            )
        return next(call)  # type: ignore[no-any-return]

    return step


def _caller(works: Works, call: Call, actor: Principal) -> Principal:
    """The operator may act as anyone; everybody else is who the credential says, whatever is claimed."""
    if call.toolset.caller_argument is not None:
        return _named(call, call.toolset.caller_argument, actor)
    if actor.kind is Kind.OPERATOR:
        return _impersonated(works, call, actor)
    if call.claim is not None and call.claim != actor.name:
        raise PermissionDenied(
            f"The credential belongs to '{actor.name}', not to '{call.claim[:64]}'",
            hint="Leave agentId out, or name yourself",
        )
    return actor


def _impersonated(works: Works, call: Call, actor: Principal) -> Principal:
    name = LOCAL if call.claim is None else call.claim
    match call.toolset.acts_as:
        case Kind.USER:
            return Principal(Kind.USER, user_name(name))
        case Kind.AGENT:
            return works.read(lambda work: work.agents.active(name), actor).principal
        case Kind.RUN:
            return works.read(lambda work: loops.principal(work, call.claim), actor)
        case _ if call.claim is not None:
            return works.read(lambda work: work.agents.active(name), actor).principal
    return actor


def _named(call: Call, argument: str, actor: Principal) -> Principal:
    """In process, the layer around the agent says in an argument for whom it calls; a user can only be itself."""
    if actor.kind not in (Kind.OPERATOR, Kind.USER):
        return actor
    given = call.input.get(argument) if isinstance(call.input, Mapping) else None
    if not isinstance(given, str) or not given.strip():
        raise InvalidInput(f"{argument} is required", field=argument, rule="missing", status=400)
    try:
        name = user_name(given)
    except InvalidInput as error:
        raise InvalidInput(error.message, field=argument, rule="user_name", status=400) from None
    allowed = {call.claim or name, actor.name if actor.kind is Kind.USER else name}
    if allowed != {name}:
        raise PermissionDenied(f"The call is made for another user than {argument} names")
    return Principal(Kind.USER, name)
