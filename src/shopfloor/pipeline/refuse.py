"""refuse: outermost. Every failure leaves in the toolset's own shape, without a stack trace."""

from __future__ import annotations

from collections.abc import Callable

from shopfloor.domain.decisions import new_reference, spell_reference
from shopfloor.errors import ShopfloorError, StoreFailed
from shopfloor.pipeline import Next, Step
from shopfloor.toolkit import Answer, Call, Waiting

Observer = Callable[[Call, ShopfloorError | None], None]


def refuse(clock: Callable[[], int], began: Callable[[Call], None], ended: Observer) -> Step:
    """The step that answers, whatever happens behind it."""

    def step(call: Call, next: Next) -> Answer | Waiting:
        if not call.reference:
            call.started = clock()
            call.reference = new_reference(call.started)
            began(call)
        error: ShopfloorError | None = None
        try:
            value = next(call)
            if isinstance(value, Waiting):
                return value
            call.finished = clock()
            body = call.toolset.answer(value, call)
        except Exception as raised:  # noqa: BLE001 - the one catch-all of the request path
            error = _ours(raised, call)
            call.finished = clock()
            body = call.toolset.refuse(error, call)
        ended(call, error)
        return Answer(body, call, error)

    return step


def _ours(raised: Exception, call: Call) -> ShopfloorError:
    """The error as agents may read it: a message, a next step and a reference, nothing from the inside."""
    if not isinstance(raised, ShopfloorError):
        raised = ShopfloorError("An unexpected error occurred")
    if type(raised) is StoreFailed:  # the engine's own words are in the log
        raised = StoreFailed()
    if not raised.refusal:
        raised.facts["reference"] = spell_reference(call.reference)
        raised.hint = raised.hint or (
            f"Try again later. A person finds the cause in the log under {raised.facts['reference']}"
        )
    return raised
