"""What the tests of the desk's pages share: a floor with a crew, the operator's browser, and a watchful eye on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request

from shopfloor.app import one_time_link
from shopfloor.domain.actors import OPERATOR, Kind, Principal
from shopfloor.repositories.work import Work
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.usecases import loops
from tests.serving import Served, away, served
from tests.web.support import looking

AXE = Path(__file__).parents[1] / "clients" / "node_modules" / "axe-core" / "axe.min.js"

PAGES = [
    "/floor", "/inbox", "/inbox?show=all", "/inbox/mail-1", "/boards", "/boards/epic/1", "/boards/epic/none",
    "/boards/loop/night", "/tasks/1", "/lists/guest", "/log", "/log?outcome=error", "/context", "/context?q=queue",
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


@contextmanager
def opened(project: Path) -> Iterator[Desk]:
    """A floor with nobody on it, and an eye on its pages."""
    (project / "queue.py").write_text("def queue():\n    '''A queue.'''\n")
    floor = away(lambda: Shopfloor(Settings(project=project, port=0, embeddings="off")).__enter__())
    with served(floor) as server:
        desk = Desk(server, Eye(server.url))
        yield desk
        assert desk.eye.wrong == []
    away(floor.close)


def populate(desk: Desk, text: str = "Use a queue") -> None:
    """Something on every page, with the same words everywhere."""
    hire(desk)
    fill(desk, text)
    desk.agent("lead", "mcp__task__assign", taskId="task-1", agentId="builder")
    away(desk.server.floor.floor.works.store.flush)


def hire(desk: Desk) -> None:
    """A crew, and a user with a list."""
    floor = desk.server.floor
    for name, type in [("lead", "SUPERVISOR"), ("builder", "WORKER"), ("tester", "WORKER")]:
        away(lambda name=name, type=type: floor.hire(name, type, None, with_token=True))  # type: ignore[misc]
    away(lambda: floor.add_user("guest"))


def fill(desk: Desk, text: str, run: str = "night") -> None:
    """What the crew says and does, all of it in these words."""
    floor = desk.server.floor
    short = text[:200]
    desk.agent("builder", "mcp__mail__send", toHuman=True, subject=short, body=text)
    desk.agent("builder", "mcp__mail__ask", subject=short, body=text, options=[short[:100], "no"], timeoutSeconds=0)
    epic = desk.agent("lead", "mcp__epic__create", title=text, description=text)["id"]
    task = desk.agent("lead", "mcp__task__create", title=text, description=text, epicId=epic)["id"]
    desk.agent("lead", "mcp__task__create", title=f"Second: {text}", epicId=epic, dependsOn=[task])
    desk.agent("lead", "mcp__task__add_comment", taskId=task, body=text)
    desk.agent("builder", "mcp__system__log_decision", title=text, body=text)
    away(lambda: floor.answer("factory", "mcp__supervisor__list_agents", {"type": text}, "builder"))
    away(lambda: floor.call("todo_direct", "add_task", {"user_id": "guest", "title": short}))
    away(lambda: floor.call("context", "record_discovery", {"type": "rule", "content": text}))

    def begin(work: Work) -> None:
        loops.create(
            work, run, spec=text, project=".", options='{"iterations": 5, "time": 7200.0, "tokens": 90000, "cost": 2.5}'
        )
        loops.add_tasks(work, run, [loops.NewTask(content=text)])
        loops.ask_person(work, run, "permission", text, ("allow once", "deny"))
        loops.begin_iteration(work, run, 0, retold=False)
        loops.add_notes(work, run, [("learning", text)])

    desk.work(begin)
    away(floor.floor.works.store.flush)


def at_the_desk(browser: Browser, **wants: Any) -> AbstractContextManager[BrowserContext]:
    """A browser of its own, far from the server's zone."""
    return looking(
        browser, **{"viewport": {"width": 1280, "height": 900}, "timezone_id": "Asia/Tokyo", "locale": "en-GB", **wants}
    )
