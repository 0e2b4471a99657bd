"""escalate: report errors that are not the caller's mistake to the agent's supervisor or the operator."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from typing import Any

from shopfloor.domain.redaction import redact
from shopfloor.errors import ShopfloorError
from shopfloor.repositories.uow import Database
from shopfloor.toolkit import Context
from shopfloor.usecases import escalations

_log = logging.getLogger("shopfloor.calls")


def escalate(
    next: Callable[[Context], Any], database: Database, count: Callable[[str], None]
) -> Callable[[Context], Any]:
    """Write an escalation for INTERNAL_ERROR, and for TRANSIENT_ERROR after all retries."""

    def step(context: Context) -> Any:
        try:
            return next(context)
        except Exception as error:
            if not (isinstance(error, ShopfloorError) and error.is_rejection):
                count(context.tool.name)
                _write_escalation(database, context, error)
            raise

    return step


def _write_escalation(database: Database, context: Context, error: Exception) -> None:
    code = error.code if isinstance(error, ShopfloorError) else ShopfloorError.code
    # A stack trace has argument values in its messages, and this text is mailed.
    stack = redact("".join(traceback.format_exception(error)))
    try:
        database.write(
            lambda uow: escalations.escalate(
                uow,
                subject=context.caller.key,
                tool=context.tool.name,
                code=code,
                message=redact(str(error)),
                stack=stack,
                critical=context.tool.critical,
            ),
            context.caller,
            context.record.reference,
        )
    except ShopfloorError as write_error:  # an escalation never escalates itself
        _log.error("cannot write an escalation: %s", write_error, extra={"tool": context.tool.name})
