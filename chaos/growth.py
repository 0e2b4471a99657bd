"""Growth: the time of each hot call and each background job as the tables grow."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from shopfloor import Settings, Shopfloor
from shopfloor.background.housekeeping import BATCH_ROWS
from shopfloor.domain.principals import OPERATOR
from shopfloor.repositories.uow import Database
from tests.repositories.filled_database import START, TABLES, fill_table, fill_words

SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
REPETITIONS = 15
APPENDED_TABLES = frozenset({"decision", "log_seal", "event", "mail", "receipt"})
"""Tables to which most calls add a row."""
MAX_ROWS_OF_ALL = 1_000_000
OTHER_ROWS = 100_000
"""Above MAX_ROWS_OF_ALL, the other tables have this many: they grow with the code, the people and the runs."""
CALLS: dict[str, tuple[str, str, dict[str, object], str | None]] = {
    "send mail": ("factory", "mcp__mail__send", {"toHuman": True, "subject": "Hi", "body": "There"}, "agent1"),
    "list inbox": ("factory", "mcp__mail__list_inbox", {"limit": 20}, "agent1"),
    "agent status": ("factory", "mcp__agent__get_status", {}, "agent1"),
    "log a decision": ("factory", "mcp__system__log_decision", {"title": "T", "body": "B"}, "agent1"),
    "add a todo": ("todo", "add_task", {"title": "Milk"}, "user1"),
    "list todos": ("todo", "list_tasks", {"limit": 20}, "user1"),
    "search the log": ("desk", "log_search", {"limit": 20}, None),
    "overview": ("desk", "floor_overview", {}, None),
}

Figures = dict[str, dict[int, float]]
"""Median milliseconds of CPU by name and number of rows."""


def measure_growth(folder: Path, largest: int, report: Callable[[str], None]) -> Figures:
    """Fill a database of each size up to `largest` rows, and return what calls and jobs take."""
    figures: Figures = {}
    for rows in (size for size in SIZES if size <= largest):
        report(f"growth: {rows:,} rows")
        project = folder / str(rows)
        project.mkdir(parents=True)
        with Shopfloor(Settings(project=project, keep_mail_days=365)) as shopfloor:
            # The rows are old, so that the periodic tasks would delete them meanwhile: their CPU was once taken for that
            # of the calls, 5.9 ms of a mail at 100,000 rows.
            shopfloor.engine.housekeeper.stop()
            shopfloor.engine.dispatcher.stop()
            _fill(shopfloor.engine.database, rows)
            for name, milliseconds in _measure_all(shopfloor):
                figures.setdefault(name, {})[rows] = milliseconds
        # 10,000,000 rows are tens of gigabytes.
        shutil.rmtree(project)
    return figures


def _fill(database: Database, rows: int) -> None:
    """Fill each table in a transaction of its own, so that the WAL is no longer than the largest table."""
    # Marks are work that waits for the indexer, whose CPU would be taken for that of the calls.
    for table in sorted(TABLES.keys() - {"index_mark"}):
        share = rows if table in APPENDED_TABLES or rows <= MAX_ROWS_OF_ALL else OTHER_ROWS
        database.store.write(partial(fill_table, workspace=database.workspace, rows=share, table=table))
    database.store.write(fill_words)
    database.store.update_statistics()


def _measure_all(shopfloor: Shopfloor) -> Iterator[tuple[str, float]]:
    for name, (toolset, tool, input, caller) in CALLS.items():
        yield name, _measure(partial(_call, shopfloor, toolset, tool, input, caller))[0]
    database, housekeeper = shopfloor.engine.database, shopfloor.engine.housekeeper
    jobs: dict[str, Callable[[], object]] = {}
    for task in housekeeper.tasks:
        jobs[task.name] = partial(database.write, task.action, OPERATOR)
    for job in housekeeper.jobs:
        jobs[job.name] = partial(job.run, database)
    measured: set[str] = set()
    # At the time of the first row nothing is old enough to be deleted, and now all of it is.
    for clock in (lambda: START, database.clock):
        database.clock = clock
        for name, run in jobs.items():
            milliseconds, results = _measure(run)
            if not any(results):
                label = f"job: {name}, nothing due"
            elif all(isinstance(result, int) and result >= BATCH_ROWS for result in results):
                label = f"job: {name}, a batch"
            else:
                # Not a whole batch each time: a small database has not enough that is due.
                continue
            if label not in measured:
                measured.add(label)
                yield label, milliseconds


def _call(shopfloor: Shopfloor, toolset: str, tool: str, input: dict[str, object], caller: str | None) -> None:
    response = shopfloor.call(toolset, tool, input, caller)
    assert not (isinstance(response, dict) and response.get("success") is False), response


def _measure(run: Callable[[], object]) -> tuple[float, list[object]]:
    """Return the median of several runs, and what they returned. The first is not counted."""
    run()
    seconds, results = [], []
    for _ in range(REPETITIONS):
        # CPU, since that is what grows with the tables: on a busy machine the wall clock measures the others.
        began = time.process_time()
        results.append(run())
        seconds.append(time.process_time() - began)
    return statistics.median(seconds) * 1000, results
