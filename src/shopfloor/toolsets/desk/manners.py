"""The desk's manners: camelCase, plain answers, for the operator only."""

from __future__ import annotations

from shopfloor.domain.actors import Kind
from shopfloor.errors import ShopfloorError
from shopfloor.toolkit import Call, Json, Toolset, camel


def refuse(error: ShopfloorError, _: Call) -> Json:
    answer: Json = {"error": error.message, "code": error.code}
    return answer if error.hint is None else {**answer, "hint": error.hint}


toolset = Toolset(
    "desk",
    answer=lambda value, _: value,
    refuse=refuse,
    acts_as=None,
    may=lambda caller, _: caller.kind is Kind.OPERATOR,
    spelling=camel,
)
