"""escalate: what is not the caller's mistake reaches somebody in charge, and never itself."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable

from shopfloor.domain.masks import mask
from shopfloor.errors import ShopfloorError
from shopfloor.pipeline import Next, Step
from shopfloor.repositories.work import Works
from shopfloor.toolkit import Answer, Call
from shopfloor.usecases import escalations

_log = logging.getLogger("shopfloor.calls")


def escalate(works: Works, counted: Callable[[str], None]) -> Step:
    """The step that writes an escalation for INTERNAL_ERROR and for TRANSIENT_ERROR that outlived its retries."""

    def step(call: Call, next: Next) -> Answer:
        try:
            return next(call)  # type: ignore[no-any-return]
        except Exception as error:
            if not (isinstance(error, ShopfloorError) and error.refusal):
                counted(call.name)
                _escalate(works, call, error)
            raise

    return step


def _escalate(works: Works, call: Call, error: Exception) -> None:
    assert call.caller is not None
    subject = call.caller.key
    code = error.code if isinstance(error, ShopfloorError) else ShopfloorError.code
    stack = mask("".join(traceback.format_exception(error)))
    try:
        works.write(
            lambda work: escalations.escalate(
                work, subject=subject, tool=call.name, code=code, message=mask(str(error)), stack=stack
            ),
            call.caller,
            call.reference,
        )
    except ShopfloorError as unwritable:
        _log.error("an escalation cannot be written: %s", unwritable, extra={"tool": call.name})
