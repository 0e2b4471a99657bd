"""validate: check the input against the tool's signature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shopfloor.domain.principals import Principal
from shopfloor.errors import InvalidInput
from shopfloor.toolkit import AuthenticatedRequest, Context, Tool

MAX_KEY_CHARS = 255


def validate(next: Callable[[Context], Any]) -> Callable[[AuthenticatedRequest, Principal, Tool], Any]:
    """Turn the input into arguments, which complete the call."""

    def step(call: AuthenticatedRequest, caller: Principal, tool: Tool) -> Any:
        request = call.request
        if request.envelope_error is not None:
            raise request.envelope_error
        key = request.idempotency_key
        if key is not None and not (0 < len(key) <= MAX_KEY_CHARS and key.isprintable()):
            raise InvalidInput(
                f"idempotencyKey must have 1 to {MAX_KEY_CHARS} printable characters", field="idempotencyKey"
            )
        return next(Context(request, call.record, caller, tool, tool.signature.validate(request.input), call.resumed))

    return step
