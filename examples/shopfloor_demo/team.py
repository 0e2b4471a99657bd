"""The team of the demo: scripted agents, each in its own process, that make real calls. No model is needed.

`python team.py SCRIPT URL NAME SECONDS`, with the token in the environment variable DEMO_TOKEN.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

TOKEN_VARIABLE = "DEMO_TOKEN"

EPICS = {
    "Checkout in one page": [
        ("Sketch the single page", 1, ()),
        ("Price and tax endpoint", 0, ()),
        ("Address form with completion", 2, (1,)),
        ("Payment step behind a flag", 0, (2,)),
        ("Receipts by mail", 2, (4,)),
        ("Keyboard and screen reader pass", 1, (3,)),
        ("Load test at 500 orders per minute", 1, (4, 5)),
        ("Switch the flag on", 0, (6, 7)),
    ],
    "Docs that answer": [
        ("List the questions of the last month", 2, ()),
        ("One page per question", 2, (1,)),
        ("Examples that are tested", 1, (1,)),
        ("A search box that works offline", 3, (2,)),
        ("Remove pages without readers", 4, (2, 3)),
        ("Announce it to support", 2, (4,)),
    ],
    "Search that forgives": [
        ("Collect queries that found nothing", 2, ()),
        ("Spelling distance in the index", 1, (1,)),
        ("Synonyms from the catalogue", 3, (1,)),
        ("Measure before and after", 2, (2, 3)),
    ],
}
DECISIONS = [
    ("Keep prices in integer cents", "Floats lost a cent in **3 of 10,000** carts; integers cannot."),
    ("One endpoint, not two", "Tax depends on the address, so both come in the same response."),
    ("No new dependency for completion", "The browser's own `datalist` does it, and works with a keyboard."),
    ("Flags live in the store", "A flag in the environment needs a deploy to switch; in the store it needs a click."),
    (
        "Retry payment once, never twice",
        "The provider is idempotent by key:\n\n1. same key\n2. same amount\n3. same answer",
    ),
]
QUESTIONS = [
    (
        "May the payment step go out behind a flag?",
        "Tests pass; the flag is off for all users.",
        ["yes", "wait for review"],
    ),
    (
        "Which provider first?",
        "Both sandboxes work. I would start with the cheaper one.",
        ["the cheaper one", "the faster one"],
    ),
]
MAILS = [
    (
        "Checkout: half of the tasks are done",
        "| state | tasks |\n|---|---|\n| done | 4 |\n| in review | 2 |\n\nNothing is blocked.",
    ),
    ("A dependency is out of date", "`httpcore` has a security release. I can take it today, it is a one-line change."),
]
COMMENTS = [
    "First version is up, tests are green.",
    "Found an edge case: empty cart with a voucher.",
    "Refactored, no change in behaviour.",
]


DISCOVERIES = [
    ("rule", "Prices are integer cents from the cart to the receipt; only `format_price()` divides."),
    ("pattern", "Every step of the checkout is a pure function of the cart."),
    ("issue", "`total_price()` rounds per line, the provider rounds once: they differ by a cent for odd quantities."),
]
PATHS = ("README.md", "src/prices.py", "src/cart.py", "tests/test_prices.py")
"""Files of the project that the team reads."""


class Member:
    """A member of the team with its own token."""

    def __init__(self, url: str, name: str, seconds: float) -> None:
        self.url = url
        self.name = name
        self.ends = time.monotonic() + seconds
        self.random = random.Random(name)
        self._token = os.environ.pop(TOKEN_VARIABLE, "")

    def call(self, tool: str, **input: Any) -> Any:
        """Return the data of the response, or None when the call was rejected; the script continues."""
        body = json.dumps({"toolName": tool, "input": input}).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._token}"}
        request = urllib.request.Request(f"{self.url}/mcp/execute", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=70) as response:
                return json.load(response)["data"]
        except (urllib.error.HTTPError, urllib.error.URLError, OSError):
            return None

    def pause(self, min_seconds: float, max_seconds: float) -> None:
        """Wait for a random time."""
        time.sleep(max(0.0, min(self.random.uniform(min_seconds, max_seconds), self.ends - time.monotonic())))

    @property
    def has_time(self) -> bool:
        return time.monotonic() < self.ends


def run_supervisor(me: Member) -> None:
    """Plan the epics, then review tasks until the end."""
    epics: list[str] = []
    for title, tasks in EPICS.items():
        epic = me.call(
            "mcp__epic__create", title=title, description=f"**Goal:** {title.lower()}, measured, behind a flag."
        )
        ids: list[str] = []
        for name, priority, after in tasks:
            task = me.call(
                "mcp__task__create", title=name, epicId=epic["id"], priority=priority,
                description="Small steps, each with its test.", dependsOn=[ids[number - 1] for number in after],
            )  # fmt: skip
            ids.append(task["id"])
        epics.append(epic["id"])
        me.call("mcp__epic__assign", epicId=epic["id"], agentId="planner")
        me.pause(0.2, 0.5)
    me.call("mcp__system__log_decision", title="Two epics at once", body="Search has no dependency on checkout.")
    mails = list(MAILS)
    while me.has_time:
        listed = [me.call("mcp__task__list", state="REVIEW", epicId=epic) or {} for epic in epics]
        # The epic of the crew has a reviewer of its own.
        for task in [task for found in listed for task in found.get("tasks", [])]:
            if me.random.random() < 0.2:
                me.call(
                    "mcp__task__update_status", taskId=task["id"], state="IN_PROGRESS", comment="Please add a test."
                )
            else:
                me.call("mcp__task__update_status", taskId=task["id"], state="COMPLETED")
        if mails and me.random.random() < 0.3:
            subject, body = mails.pop(0)
            me.call("mcp__mail__send", toHuman=True, subject=subject, body=body)
        me.pause(1.5, 3.0)


def run_orchestrator(me: Member) -> None:
    """Assign the workers to the epics, and send them mail."""
    me.pause(1.5, 2.5)
    for at, name in enumerate(("builder-1", "builder-2", "builder-3", "builder-4")):
        me.call("mcp__epic__assign", epicId=f"epic-{max(1, at)}", agentId=name)
    me.call("mcp__mail__send", to=["builder-1", "builder-2", "builder-3", "builder-4"], subject="How we work",
            body="Claim one task, show it early, ask when unsure.")  # fmt: skip
    me.call("mcp__supervisor__create_agent", agentId="extra", type="WORKER")  # permission denied, and logged
    while me.has_time:
        _read_mail(me, 20)


def run_worker(me: Member) -> None:
    """Claim tasks, work on them and hand them in for review, one after the other."""
    me.pause(2.5, 4.0)
    questions = list(QUESTIONS) if me.name == "builder-1" else []
    while me.has_time:
        task = _next_task(me)
        if task is None:
            _read_mail(me, 4)
            continue
        if questions:
            subject, body, options = questions.pop(0)
            me.call("mcp__mail__ask", subject=subject, body=body, options=options, timeoutSeconds=0)
        _work_on(me, task)
        me.call("mcp__task__update_status", state="REVIEW", comment=me.random.choice(COMMENTS),
                branchName=f"{me.name}/{task}")  # fmt: skip


def run_silent_worker(me: Member) -> None:
    """Claim a task and go silent."""
    me.pause(2.5, 3.0)
    while me.has_time and _next_task(me) is None:
        me.pause(0.5, 1.0)


def run_crashing_worker(me: Member) -> None:
    """Make one call, then crash."""
    me.call("mcp__agent__get_status")
    sys.exit(3)


def _next_task(me: Member) -> str | None:
    """Return the current task, which may have come back from review, or claim the next one."""
    task = (me.call("mcp__agent__get_status") or {}).get("currentTaskId")
    if task is None:
        task = ((me.call("mcp__task__claim") or {}).get("task") or {}).get("id")
    return task


def _read_mail(me: Member, seconds: int) -> None:
    """Wait for mail and read it."""
    received = me.call("mcp__mail__wait", timeoutSeconds=int(max(1, min(seconds, me.ends - time.monotonic())))) or {}
    for mail in received.get("mails", []):
        me.call("mcp__mail__read", mailId=mail["id"])
    me.pause(0.3, 0.8)


def _work_on(me: Member, task: str) -> None:
    me.call("mcp__agent__get_task")
    me.call("context_search", query=me.random.choice(["price with tax", "total", "how are carts priced?"]))
    me.call("read_file", path=me.random.choice(PATHS))
    if me.random.random() < 0.3:
        type, content = me.random.choice(DISCOVERIES)
        me.call("record_discovery", type=type, content=content, files=["src/prices.py"])
    for _ in range(me.random.randint(1, 3)):
        me.pause(5.0, 9.0)
        if me.random.random() < 0.6:
            title, body = me.random.choice(DECISIONS)
            me.call("mcp__system__log_decision", title=title, body=body)
        if me.random.random() < 0.4:
            me.call("mcp__task__add_comment", taskId=task, body=me.random.choice(COMMENTS))
        if me.random.random() < 0.1:
            me.call("mcp__task__update_status", state="DONE")  # a mistake: rejected, and logged


def run_user(me: Member) -> None:
    """Fill a todo list."""
    for title in ("Read the decisions of the team", "Answer the question about payment", "Order coffee"):
        added = me.call("add_task", title=title) or {}
        me.pause(0.5, 1.0)
    me.call("complete_task", task_id=added.get("task", {}).get("id"))


SCRIPTS: dict[str, Callable[[Member], None]] = {
    "supervisor": run_supervisor,
    "orchestrator": run_orchestrator,
    "worker": run_worker,
    "silent_worker": run_silent_worker,
    "crashing_worker": run_crashing_worker,
    "user": run_user,
}


def main() -> None:
    """Follow one script until its time is up."""
    script, url, name, seconds = sys.argv[1:]
    SCRIPTS[script](Member(url, name, float(seconds)))


if __name__ == "__main__":
    main()
