"""The contract of the review toolset: plain text, for the principal `reviewer:OWNER` alone."""

from __future__ import annotations

from shopfloor.domain.principals import Kind
from shopfloor.errors import ShopfloorError
from shopfloor.toolkit import Request, Toolset


def render_error(error: ShopfloorError, _: Request, __: int) -> str:
    return f"error: {error.message}\n{error.hint or 'Call review-verdict again with: approve, comment'}"


toolset = Toolset(
    "review",
    render_result=lambda value, _: str(value),
    render_error=render_error,
    principal_kind=Kind.REVIEWER,
    allows=lambda caller, _: caller.kind is Kind.REVIEWER,
    instructions=lambda _: "You review the work of another agent. Change nothing. End with one call of review-verdict.",
)
