"""The reconciler: recovery without watchdogs, as periodic tasks of the housekeeper."""

from __future__ import annotations

from shopfloor.background.housekeeping import PeriodicTask
from shopfloor.usecases import mail, recovery


def list_periodic_tasks() -> list[PeriodicTask]:
    """Return the recovery tasks, which run at every heartbeat."""
    return [
        PeriodicTask("silent agents", 1, recovery.return_tasks_of_silent_agents),
        PeriodicTask("recovered agents", 1, recovery.release_recovered_agents),
        PeriodicTask("overdue acknowledgements", 1, mail.escalate_overdue),
    ]
