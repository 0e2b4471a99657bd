"""The reconciler: recovery without watchdogs, as chores of the housekeeper."""

from __future__ import annotations

from shopfloor.background.housekeeping import Chore
from shopfloor.usecases import mail, recovery


def chores() -> list[Chore]:
    """What there is to set right, every few seconds."""
    return [
        Chore("silent agents", 1, recovery.return_tasks_of_silent),
        Chore("recovered agents", 1, recovery.release_recovered),
        Chore("overdue acknowledgements", 1, mail.escalate_overdue),
    ]
