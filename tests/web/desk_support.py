"""What the tests of the desk's pages share: a floor with a crew, the operator's browser, and a watchful eye on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect

from shopfloor.app import one_time_link
from shopfloor.domain.actors import OPERATOR, Kind, Principal
from shopfloor.repositories.work import Work
from shopfloor.usecases import loops
from tests.serving import Served, away

AXE = Path(__file__).parents[1] / "clients" / "node_modules" / "axe-core" / "axe.min.js"
PATIENCE = 30_000

PAGES = [
    "/floor", "/inbox", "/inbox?show=all", "/inbox/mail-1", "/boards", "/boards/epic/1", "/boards/epic/none",
    "/boards/loop/night", "/tasks/1", "/lists/lee", "/log", "/log?outcome=error", "/context", "/context?q=queue",
    "/figures", "/people",
]  # fmt: skip

HOSTILE = [
    "<script>window.__pwn=1</script>",
    "<img src=x onerror=window.__pwn=1>",
    "[x](javascript:window.__pwn=1)",
    '"><svg onload=window.__pwn=1>',
    "![x](http://198.51.100.7/p.png) [y](data:text/html,<script>window.__pwn=1</script>)",
    "</textarea></title></script><script>window.__pwn=1</script>",
    "{{ 7 * 7 }} ${7*7} <%= 7*7 %>",
    "a\u202eb\u2066c\u200bd\u0007e",
]


@dataclass
class Eye:
    """Sees everything that a page must not do."""

    origin: str
    wrong: list[str] = field(default_factory=list)

    def on(self, page: Page) -> None:
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.wrong.append(f"script failed: {error}"))
        page.on("request", self._asked)
        page.add_init_script(
            "addEventListener('securitypolicyviolation',"
            " (e) => console.error('CSP', e.violatedDirective, e.blockedURI, e.sourceFile))"
        )

    def _said(self, message: ConsoleMessage) -> None:
        expected = "the server responded with a status of 4" in message.text  # refusals that a test wants to see
        if message.type in ("error", "warning") and not expected:
            self.wrong.append(f"console: {message.text}")

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((self.origin, "data:", "blob:")):
            self.wrong.append(f"request off the machine: {request.url}")


@dataclass
class Desk:
    """A served floor, as those who test its pages use it."""

    server: Served
    eye: Eye

    @property
    def url(self) -> str:
        return self.server.url

    def ask(self, tool: str, /, **given: Any) -> Any:
        """A tool of the desk, called as the operator."""
        answer = away(lambda: self.server.floor.answer("desk", tool, given))
        assert answer.error is None, answer.body
        return answer.body

    def agent(self, name: str, tool: str, /, **given: Any) -> Any:
        body = away(lambda: self.server.floor.answer("factory", tool, given, name).body)
        assert body["success"], body
        return body["data"]

    def work(self, fn: Any) -> Any:
        return away(lambda: self.server.floor.floor.works.write(fn, OPERATOR))

    def execute(self, sql: str, **given: Any) -> int:
        return int(away(lambda: self.server.floor.floor.works.store.write(lambda c: c.execute(sql, **given))))

    def link(self, user: str | None = None) -> str:
        who = OPERATOR if user is None else Principal(Kind.USER, user)
        return f"{self.url}/enter?key={away(lambda: one_time_link(self.server.floor.floor, who))}"

    def enter(self, context: BrowserContext, user: str | None = None) -> Page:
        """A page of somebody who has come in by a link."""
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        expect.set_options(timeout=PATIENCE)
        self.eye.on(page)
        page.goto(self.link(user))
        page.wait_for_url(lambda url: "/enter" not in url)
        return page

    def open(self, page: Page, path: str) -> int:
        """Open a page, live where it can be; the status of the answer."""
        response = page.goto(self.url + path)
        assert response is not None
        if page.locator("main[data-live]").count():
            page.wait_for_selector('#live[data-state="live"]')
        return response.status


def populate(desk: Desk, text: str = "Use a queue") -> None:
    """Something on every page, with the same words everywhere."""
    floor = desk.server.floor
    for name, type in [("ada", "SUPERVISOR"), ("wim", "WORKER"), ("wyn", "WORKER")]:
        away(lambda name=name, type=type: floor.hire(name, type, None, with_token=True))  # type: ignore[misc]
    away(lambda: floor.add_user("lee"))
    short = text[:200]
    desk.agent("wim", "mcp__mail__send", toHuman=True, subject=short, body=text)
    desk.agent("wim", "mcp__mail__ask", subject=short, body=text, options=[short[:100], "no"], timeoutSeconds=0)
    desk.agent("ada", "mcp__epic__create", title=text, description=text)
    desk.agent("ada", "mcp__task__create", title=text, description=text, epicId="epic-1")
    desk.agent("ada", "mcp__task__create", title=f"Second: {text}", epicId="epic-1", dependsOn=["task-1"])
    desk.agent("ada", "mcp__task__assign", taskId="task-1", agentId="wim")
    desk.agent("wim", "mcp__task__add_comment", body=text)
    desk.agent("wim", "mcp__system__log_decision", title=text, body=text)
    away(lambda: floor.answer("factory", "mcp__supervisor__list_agents", {"type": text}, "wim"))
    away(lambda: floor.call("todo_direct", "add_task", {"user_id": "lee", "title": short}))
    away(lambda: floor.call("context", "record_discovery", {"type": "rule", "content": text}))

    def run(work: Work) -> None:
        loops.create(work, "night", spec=text, project=".", options='{"iterations": 5}')
        loops.add_tasks(work, "night", [loops.NewTask(content=text)])
        loops.ask_person(work, "night", "permission", text, ("allow once", "deny"))
        loops.begin_iteration(work, "night", 0, retold=False)
        loops.add_notes(work, "night", [("learning", text)])

    desk.work(run)
    away(floor.floor.works.store.flush)


@contextmanager
def looking(browser: Browser, **wants: Any) -> Iterator[BrowserContext]:
    """A browser of its own."""
    options = {"viewport": {"width": 1280, "height": 900}, "timezone_id": "Asia/Tokyo", "locale": "en-GB", **wants}
    context = browser.new_context(**options)
    try:
        yield context
    finally:
        context.close()
