"""What the tests of the desk share: a server with agents, the operator's browser, and a record of its problems."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request

from shopfloor.domain.crews import Role
from shopfloor.domain.principals import OPERATOR
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.usecases import crews, epics, iterations, merge_queue, notes, run_requests, run_tasks, runs, tasks
from tests.serving import ServedShopfloor, run_in_thread, serve_in_thread
from tests.transports.attacks import LISTS
from tests.web.support import open_context

AXE = Path(__file__).parents[1] / "clients" / "node_modules" / "axe-core" / "axe.min.js"

PAGES = [
    "/home", "/inbox", "/inbox?show=all", "/inbox/mail-1", "/tasks", "/boards/epic/1", "/boards/epic/none",
    "/runs", "/runs/night", "/agents", "/agents/builder", "/boards/epic/1?view=list", "/boards/epic/1?view=graph",
    "/tasks?view=all", "/tasks/1", "/lists/guest", "/activity", "/activity/calls", "/activity/calls?q=is:error",
    "/search?q=queue", "/inbox/request-1", "/knowledge", "/knowledge?q=queue",
    "/settings/metrics", "/settings/metrics?view=system", "/settings/access", "/settings/notifications", "/crews",
    "/crews/crew-night",
]  # fmt: skip

HOSTILE = [
    *LISTS["xss"],
    "![x](http://198.51.100.7/p.png) [y](data:text/html,<script>window.__pwn=1</script>)",
    "</textarea></title></script><script>window.__pwn=1</script>",
    "{{ 7 * 7 }} ${7*7} <%= 7*7 %>",
    "a\u202eb\u2066c\u200bd\u0007e",
]


@dataclass
class PageWatch:
    """Records everything that a page must not do."""

    origin: str
    problems: list[str] = field(default_factory=list)

    def attach(self, page: Page) -> None:
        page.on("console", self._record_console)
        page.on("pageerror", lambda error: self.problems.append(f"script failed: {error}"))
        page.on("request", self._record_request)
        page.add_init_script(
            "addEventListener('securitypolicyviolation',"
            " (e) => console.error('CSP', e.violatedDirective, e.blockedURI, e.sourceFile))"
        )

    def _record_console(self, message: ConsoleMessage) -> None:
        expected = "the server responded with a status of 4" in message.text  # errors that a test expects
        if message.type in ("error", "warning") and not expected:
            self.problems.append(f"console: {message.text}")

    def _record_request(self, request: Request) -> None:
        if not request.url.startswith((self.origin, "data:", "blob:")):
            self.problems.append(f"request to another site: {request.url}")


@dataclass
class Desk:
    """A running server, and what tests of its pages do with it."""

    server: ServedShopfloor
    watch: PageWatch

    @property
    def url(self) -> str:
        return self.server.url

    def ask(self, tool: str, /, **given: Any) -> Any:
        """Call a desk tool as the operator and return its response."""
        answer = run_in_thread(lambda: self.server.shopfloor.answer("desk", tool, given))
        assert answer.error is None, answer.body
        return answer.body

    def call_as(self, name: str, tool: str, /, **given: Any) -> Any:
        body = run_in_thread(lambda: self.server.shopfloor.answer("factory", tool, given, name).body)
        assert body["success"], body
        return body["data"]

    def write(self, fn: Any) -> Any:
        """Run a function with a unit of work."""
        return run_in_thread(lambda: self.server.shopfloor.engine.database.write(fn, OPERATOR))

    def execute(self, sql: str, **given: Any) -> int:
        return int(
            run_in_thread(lambda: self.server.shopfloor.engine.database.store.write(lambda c: c.execute(sql, **given)))
        )

    def create_link(self, user: str | None = None) -> str:
        link = run_in_thread(lambda: self.server.shopfloor.create_link(user))
        return f"{self.url}/enter?token={link['token']}"

    def sign_in(self, context: BrowserContext, user: str | None = None) -> Page:
        """Return a page of the operator, or of a user, signed in by a link."""
        page = context.new_page()
        self.watch.attach(page)
        page.goto(self.create_link(user))
        page.wait_for_url(lambda url: "/enter" not in url)
        return page

    def open_page(self, page: Page, path: str) -> int:
        """Open a page, wait until it is live if it can be, and return the status of the response."""
        response = page.goto(self.url + path)
        assert response is not None
        if page.locator("main[data-live]").count():
            page.wait_for_selector('#live[data-state="live"]')
        return response.status


@contextmanager
def serve_desk(project: Path) -> Iterator[Desk]:
    """Serve an empty project, and fail if one of its pages does what it must not."""
    (project / "queue.py").write_text("def queue():\n    '''A queue.'''\n")
    shopfloor = run_in_thread(lambda: Shopfloor(Settings(project=project, port=0, embeddings="off")).__enter__())
    with serve_in_thread(shopfloor) as server:
        desk = Desk(server, PageWatch(server.url))
        yield desk
        assert desk.watch.problems == []
    run_in_thread(shopfloor.close)


def populate(desk: Desk, text: str = "Use a queue") -> None:
    """Put something on every page, with the same text everywhere."""
    add_principals(desk)
    add_content(desk, text)
    desk.call_as("lead", "mcp__task__assign", taskId="task-1", agentId="builder")
    run_in_thread(desk.server.shopfloor.engine.database.store.flush)


def add_principals(desk: Desk) -> None:
    """Add three agents and a user."""
    shopfloor = desk.server.shopfloor
    for name, type in [("lead", "SUPERVISOR"), ("builder", "WORKER"), ("tester", "WORKER")]:
        run_in_thread(lambda name=name, type=type: shopfloor.create_agent(name, type))  # type: ignore[misc]
    run_in_thread(lambda: shopfloor.add_user("guest"))


def add_content(desk: Desk, text: str, run: str = "night") -> None:
    """Write this text as agents and as a run everywhere they can."""
    shopfloor = desk.server.shopfloor
    short = text[:200]
    desk.call_as("builder", "mcp__mail__send", toHuman=True, subject=short, body=text)
    desk.call_as("builder", "mcp__mail__ask", subject=short, body=text, options=[short[:100], "no"], timeoutSeconds=0)
    epic = desk.call_as("lead", "mcp__epic__create", title=text, description=text)["id"]
    task = desk.call_as("lead", "mcp__task__create", title=text, description=text, epicId=epic)["id"]
    desk.call_as("lead", "mcp__task__create", title=f"Second: {text}", epicId=epic, dependsOn=[task])
    desk.call_as("lead", "mcp__task__add_comment", taskId=task, body=text)
    desk.call_as("builder", "mcp__system__log_decision", title=text, body=text)
    run_in_thread(lambda: shopfloor.answer("factory", "mcp__supervisor__list_agents", {"type": text}, "builder"))
    run_in_thread(lambda: shopfloor.call("todo_direct", "add_task", {"user_id": "guest", "title": short}))
    run_in_thread(lambda: shopfloor.call("context", "record_discovery", {"type": "rule", "content": text}))

    def start_run(uow: UnitOfWork) -> None:
        options = '{"iterations": 5, "time": 7200.0, "tokens": 90000, "cost": 2.5}'
        runs.create_run(uow, run, spec=text, project=".", options=options)
        runs.drive_run(uow, run, options)
        run_tasks.add_tasks(uow, run, [run_tasks.NewTask(content=text)])
        run_requests.ask_person(uow, run, "permission", f"May the agent execute: {text}?", ("allow", "always", "deny"))
        iterations.begin_iteration(uow, run, 0, prompt_changed=False)
        notes.add_notes(uow, run, [("learning", text)])

    desk.write(start_run)

    def start_crew(uow: UnitOfWork) -> None:
        name, title = f"crew-{run}", " ".join(text.split())[:200]
        epic = epics.create_epic(uow, title, text, None, None).id
        facts = {"title": "", "spec": "", "project": ".", "branch": text, "base": "b", "options": "{}"}
        crews.create_crew(uow, name, epic=epic, workers=2, **facts)
        crew = crews.drive_crew(uow, name, "{}", None)
        task = tasks.create_task(uow, title=title, epic=epic, depends_on=(), priority=2)
        agent = f"{name}-worker-1"
        crews.ensure_agent(uow, crew, agent, Role.WORKER)
        crews.open_run(uow, crew, f"{name}.task", worker=agent, task=None, project=".", spec="", options="{}")
        merge_queue.add_merge(uow, crew, task.number, branch=text, commit="c", review=True)
        uow.merges.update(task.number, uow.now, output=text)
        uow.crews.update(name, uow.now, phase="approval", reason=text, report=text)

    desk.write(start_crew)
    run_in_thread(shopfloor.engine.database.store.flush)


def open_desk_context(browser: Browser, **options: Any) -> AbstractContextManager[BrowserContext]:
    """Open a browser context in another time zone than the server's."""
    return open_context(
        browser,
        **{"viewport": {"width": 1280, "height": 900}, "timezone_id": "Asia/Tokyo", "locale": "en-GB", **options},
    )
