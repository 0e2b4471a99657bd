"""The crew of `shopfloor demo`: scripted agents, each a process of its own that makes real calls. No model is asked.

python -m shopfloor.cli.crew ROLE URL NAME SECONDS, with the key in the environment.
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

KEY = "DEMO_KEY"

EPICS = {
    "Checkout in one page": [
        ("Sketch the single page", 1, ()),
        ("Price and tax endpoint", 0, ()),
        ("Address form with completion", 2, (1,)),
        ("Payment step behind a flag", 0, (2,)),
        ("Receipts by mail", 2, (4,)),
        ("Keyboard and screen reader pass", 1, (3,)),
        ("Load test at 500 orders a minute", 1, (4, 5)),
        ("Switch the flag on", 0, (6, 7)),
    ],
    "Docs that answer": [
        ("List the questions of the last month", 2, ()),
        ("One page per question", 2, (1,)),
        ("Examples that are tested", 1, (1,)),
        ("A search box that works offline", 3, (2,)),
        ("Remove what nobody reads", 4, (2, 3)),
        ("Tell support where it is", 2, (4,)),
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
    ("One endpoint, not two", "Tax depends on the address, so both come in the same answer."),
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
        "Tests pass; the flag is off for everybody.",
        ["yes", "wait for review"],
    ),
    (
        "Which provider first?",
        "Both sandboxes work. I would begin with the cheaper one.",
        ["the cheaper one", "the faster one"],
    ),
]
LETTERS = [
    (
        "Checkout: half of the tasks are done",
        "| what | how many |\n|---|---|\n| done | 4 |\n| in review | 2 |\n\nNothing is blocked.",
    ),
    ("A dependency is out of date", "`httpcore` has a security release. I can take it today, it is a one-line change."),
]
COMMENTS = [
    "First version is up, tests are green.",
    "Found an edge case: empty cart with a voucher.",
    "Refactored, no change in behaviour.",
]


FOUND = [
    ("rule", "Prices are integer cents from the cart to the receipt; only `show()` divides."),
    ("pattern", "Every step of the checkout is a pure function of the cart."),
    ("issue", "`total()` rounds per line, the provider rounds once: they differ by a cent for odd quantities."),
]
FILES = {
    "SPEC.md": "# Make the nightly reports fast\n\nNo report takes longer than a second.\n",
    "README.md": "# Shop\n\nA small shop, to see a floor at work.\n\n## Checkout\n\nOne page, in integer cents.\n",
    "src/prices.py": '"""Prices, in cents."""\n\n\ndef with_tax(price: int, rate: int) -> int:\n    """The price with its tax, rounded half up."""\n    return (price * (100 + rate) + 50) // 100\n\n\ndef show(price: int) -> str:\n    return f"{price // 100}.{price % 100:02d}"\n',
    "src/cart.py": 'from prices import with_tax\n\n\ndef total(lines: list[tuple[int, int]], rate: int) -> int:\n    """What a cart costs: each line is a price and how many."""\n    return sum(with_tax(price, rate) * many for price, many in lines)\n',
    "tests/test_prices.py": "from prices import with_tax\n\n\ndef test_tax_is_rounded_half_up():\n    assert with_tax(150, 19) == 179\n",
}
"""The project that the crew works on."""


class Member:
    """One of the crew, with its own key."""

    def __init__(self, url: str, name: str, seconds: float) -> None:
        self.url = url
        self.name = name
        self.ends = time.monotonic() + seconds
        self.chance = random.Random(name)  # nosec B311: a script, not a secret
        self._key = os.environ.pop(KEY, "")

    def call(self, tool: str, **input: Any) -> Any:
        """The data of the answer; None when the call was refused, which a script goes on from."""
        body = json.dumps({"toolName": tool, "input": input}).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._key}"}
        request = urllib.request.Request(f"{self.url}/mcp/execute", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=70) as answer:  # nosec B310: the floor that started this
                return json.load(answer)["data"]
        except (urllib.error.HTTPError, urllib.error.URLError, OSError):
            return None

    def pause(self, least: float, most: float) -> None:
        """Think for a moment."""
        time.sleep(max(0.0, min(self.chance.uniform(least, most), self.ends - time.monotonic())))

    @property
    def goes_on(self) -> bool:
        return time.monotonic() < self.ends


def supervisor(me: Member) -> None:
    """Plans the epics, then reviews until the end."""
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
        me.call("mcp__epic__assign", epicId=epic["id"], agentId="planner")
        me.pause(0.2, 0.5)
    me.call("mcp__system__log_decision", title="Two epics at once", body="Search has no dependency on checkout.")
    letters = list(LETTERS)
    while me.goes_on:
        for task in (me.call("mcp__task__list", state="REVIEW") or {}).get("tasks", []):
            if me.chance.random() < 0.2:
                me.call(
                    "mcp__task__update_status", taskId=task["id"], state="IN_PROGRESS", comment="Please add a test."
                )
            else:
                me.call("mcp__task__update_status", taskId=task["id"], state="COMPLETED")
        if letters and me.chance.random() < 0.3:
            subject, body = letters.pop(0)
            me.call("mcp__mail__send", toHuman=True, subject=subject, body=body)
        me.pause(1.5, 3.0)


def orchestrator(me: Member) -> None:
    """Spreads the workers over the epics, and writes to them."""
    me.pause(1.5, 2.5)
    for at, name in enumerate(("builder-1", "builder-2", "builder-3", "builder-4")):
        me.call("mcp__epic__assign", epicId=f"epic-{max(1, at)}", agentId=name)
    me.call("mcp__mail__send", to=["builder-1", "builder-2", "builder-3", "builder-4"], subject="How we work",
            body="Claim one task, show it early, ask when unsure.")  # fmt: skip
    me.call("mcp__supervisor__create_agent", agentId="extra", type="WORKER")  # denied, and in the log
    while me.goes_on:
        _read_mail(me, 20)


def worker(me: Member) -> None:
    """Claims, works, shows, one task after the other."""
    me.pause(2.5, 4.0)
    questions = list(QUESTIONS) if me.name == "builder-1" else []
    while me.goes_on:
        task = _next_task(me)
        if task is None:
            _read_mail(me, 4)
            continue
        _work_on(me, task)
        if questions:
            subject, body, options = questions.pop(0)
            me.call("mcp__mail__ask", subject=subject, body=body, options=options, timeoutSeconds=0)
        me.call("mcp__task__update_status", state="REVIEW", comment=me.chance.choice(COMMENTS),
                branchName=f"{me.name}/{task}")  # fmt: skip


def sleeper(me: Member) -> None:
    """Takes a task, and is never heard of again."""
    me.pause(2.5, 3.0)
    while me.goes_on and _next_task(me) is None:
        me.pause(0.5, 1.0)


def crasher(me: Member) -> None:
    """Says hello, and ends without a word."""
    me.call("mcp__agent__get_status")
    sys.exit(3)


def _next_task(me: Member) -> str | None:
    """What it has in hand, sent back to it perhaps, or else the next one that is ready."""
    held = (me.call("mcp__agent__get_status") or {}).get("currentTaskId")
    if held is None:
        held = ((me.call("mcp__task__claim") or {}).get("task") or {}).get("id")
    return held


def _read_mail(me: Member, seconds: int) -> None:
    """Wait for mail, and read what came."""
    came = me.call("mcp__mail__wait", timeoutSeconds=int(max(1, min(seconds, me.ends - time.monotonic())))) or {}
    for mail in came.get("mails", []):
        me.call("mcp__mail__read", mailId=mail["id"])
    me.pause(0.3, 0.8)


def _work_on(me: Member, task: str) -> None:
    me.call("mcp__agent__get_task")
    me.call("context_search", query=me.chance.choice(["price with tax", "total", "how are carts priced?"]))
    me.call("read_file", path=me.chance.choice(list(FILES)))
    if FOUND and me.chance.random() < 0.3:
        type, content = me.chance.choice(FOUND)
        me.call("record_discovery", type=type, content=content, files=["src/prices.py"])
    for _ in range(me.chance.randint(1, 3)):
        me.pause(5.0, 9.0)
        if me.chance.random() < 0.6:
            title, body = me.chance.choice(DECISIONS)
            me.call("mcp__system__log_decision", title=title, body=body)
        if me.chance.random() < 0.4:
            me.call("mcp__task__add_comment", taskId=task, body=me.chance.choice(COMMENTS))
        if me.chance.random() < 0.1:
            me.call("mcp__task__update_status", state="DONE")  # a mistake, refused and in the log


def user(me: Member) -> None:
    """A person with a list."""
    for title in ("Read what the crew decided", "Answer the question about payment", "Order coffee"):
        added = me.call("add_task", title=title) or {}
        me.pause(0.5, 1.0)
    me.call("complete_task", task_id=added.get("task", {}).get("id"))


ROLES: dict[str, Callable[[Member], None]] = {
    "supervisor": supervisor,
    "orchestrator": orchestrator,
    "worker": worker,
    "sleeper": sleeper,
    "crasher": crasher,
    "user": user,
}


def main() -> None:
    """Play one role until its time is up."""
    role, url, name, seconds = sys.argv[1:]
    ROLES[role](Member(url, name, float(seconds)))


if __name__ == "__main__":
    main()
