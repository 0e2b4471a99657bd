"""validate: the input fits the signature of the tool, or the caller is told what does not."""

from __future__ import annotations

from shopfloor.errors import InvalidInput
from shopfloor.pipeline import Next, Step
from shopfloor.toolkit import Answer, Call

KEY_LIMIT = 255


def validate() -> Step:
    """The step that turns input into arguments."""

    def step(call: Call, next: Next) -> Answer:
        assert call.tool is not None
        if call.fault is not None:
            raise call.fault
        if call.key is not None and not (0 < len(call.key) <= KEY_LIMIT and call.key.isprintable()):
            raise InvalidInput(f"An idempotency key has 1 to {KEY_LIMIT} printable characters", field="idempotencyKey")
        call.arguments = call.tool.validate(call.input)
        return next(call)  # type: ignore[no-any-return]

    return step
