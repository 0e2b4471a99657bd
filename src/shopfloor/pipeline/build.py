"""The pipeline: the stages that every call passes, in one visible place.

    render errors ▶ authenticate ▶ limit ▶ record ▶ authorize ▶ validate ▶ escalate ▶ retry ▶ perform

The order is the meaning. `limit` comes before `record`, so that a flood cannot fill the log. Everything that can
reject a call comes after `record`, so that rejected calls are logged. `escalate` is outside `retry`, so that only
failures that persist after all retries reach a person.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from shopfloor.domain.decisions import new_reference
from shopfloor.pipeline.authenticate import Identity, authenticate
from shopfloor.pipeline.authorize import Allows, authorize
from shopfloor.pipeline.escalate import escalate
from shopfloor.pipeline.limit import limit
from shopfloor.pipeline.perform import Perform
from shopfloor.pipeline.record import record
from shopfloor.pipeline.render_errors import Observer, render_errors
from shopfloor.pipeline.retry import retry
from shopfloor.pipeline.validate import validate
from shopfloor.repositories.uow import Database, UnitOfWork
from shopfloor.search.index import SearchIndex
from shopfloor.toolkit import CallResult, Request, Suspended

Pipeline = Callable[[Request, Suspended | None], CallResult | Suspended]


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of the steps, by tool name."""

    limited: Callable[[str], None]
    escalated: Callable[[str], None]
    retried: Callable[[str], None]


def build_pipeline(
    database: Database,
    search: SearchIndex,
    identity: Identity,
    allows: Allows,
    observer: Observer,
    counters: Counters,
    *,
    rate_limits: Mapping[str, int],
    elapsed: Callable[[], int],
    retries: int,
    retry_pause: float,
    sleep: Callable[[float], object],
    notice: Callable[[UnitOfWork], str | None],
) -> Pipeline:
    """Build the pipeline from the inside out; each step gets the next one."""
    perform = Perform(database, search, notice)
    checked = escalate(
        retry(perform, retries, pause=retry_pause, sleep=sleep, elapsed=elapsed, count=counters.retried),
        database,
        counters.escalated,
    )
    recorded = record(authorize(validate(checked), database, allows), database)
    limited = limit(recorded, rate_limits, elapsed, database, counters.limited)
    registration = database.registration
    return render_errors(
        authenticate(limited, identity), database.clock, observer, lambda now: new_reference(now, registration.number)
    )
