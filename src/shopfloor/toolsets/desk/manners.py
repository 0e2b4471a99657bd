"""The desk's manners: camelCase, plain answers, for the operator, and for users by right."""

from __future__ import annotations

from shopfloor.domain.actors import HELPER, READER, Kind, Principal
from shopfloor.errors import ShopfloorError
from shopfloor.toolkit import Call, Json, Toolset, camel

KEYS = "key_"
"""What only the operator may do begins with this: whoever hands out keys can give away everything."""


def refuse(error: ShopfloorError, _: Call) -> Json:
    answer: Json = {"error": error.message, "code": error.code}
    return answer if error.hint is None else {**answer, "hint": error.hint}


def may(caller: Principal, name: str) -> bool:
    """The operator may do everything, a reader looks, a helper also answers and moves; nobody else comes here."""
    if caller.kind is Kind.OPERATOR:
        return True
    tool = toolset.tools.get(name)
    if caller.kind is not Kind.USER or tool is None:
        return False
    return (tool.read_only and caller.role in (READER, HELPER)) or (caller.role == HELPER and not name.startswith(KEYS))


toolset = Toolset(
    "desk",
    answer=lambda value, _: value,
    refuse=refuse,
    acts_as=None,
    may=may,
    spelling=camel,
    keeps_answers=False,
)
