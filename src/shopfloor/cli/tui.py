"""The screen of shopfloor watch: inbox, tasks, agents, runs and crews, with the keys of the pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.events import DescendantFocus, Resize
from textual.screen import ModalScreen
from textual.suggester import SuggestFromList
from textual.widgets import DataTable, Header, Input, Static

from shopfloor.cli.output import (
    STYLE_BY_STATE,
    format_age,
    format_duration,
    format_iterations,
    measure,
    shorten,
    to_printable,
)
from shopfloor.errors import ShopfloorError

Ask = Callable[[str, dict[str, Any]], dict[str, Any]]
Item = dict[str, Any]

PRIORITIES = ("critical", "high", "normal", "low", "backlog")

PANES: dict[str, tuple[str, ...]] = {
    "inbox": ("from", "kind", "subject"),
    "tasks": ("task", "state", "assignee", "title"),
    "agents": ("agent", "state", "works on"),
    "runs": ("run", "state", "iterations", "elapsed"),
    "crews": ("crew", "state", "tasks", "workers", "elapsed"),
}
"""The tables by name, with their columns. The last column takes the remaining space."""

MAX_CREWS = 10
"""Maximum number of crews in the table, latest first."""

KEYS = (
    ("?", "keys", "Show all keys"),
    ("q", "quit", "Quit"),
    ("r", "reply", "Reply to a mail, or answer a question"),
    ("1-9", "answer", "Answer a question or a permission with this option"),
    ("e", "done", "Acknowledge a mail"),
    ("c", "create", "Write to an agent or a run; create a task"),
    ("s", "state", "Move a task to another state; stop a crew, or decide about its plan"),
    ("a", "assign", "Assign a task; set the number of workers of a crew"),
    ("p", "priority", "Set the priority of a task; pause or resume a run or a crew"),
    ("j k", "move", "Move down and up; so do the arrow keys"),
    ("tab", "pane", "Go to the next table"),
    ("F5", "refresh", "Read everything again"),
)
"""Key, label in the footer, and action. The footer shows as many as fit, in this order."""


class KeyList(ModalScreen[None]):
    """All keys and their actions."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,q,enter", "dismiss", show=False)]
    CSS = """
    KeyList { align: center middle; }
    KeyList Static { width: auto; max-width: 100%; height: auto; padding: 1 2; border: round $accent; background: $surface; }
    """

    def compose(self) -> ComposeResult:
        text = Text()
        for key, _, meaning in KEYS:
            text.append(f"{key:<5}", "bold").append(f"{meaning}\n")
        text.append("Press Esc, Enter or ? to close this list.", "dim")
        yield Static(text)


class Watch(App[None]):
    """The desk in a terminal."""

    TITLE = "Shopfloor"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012 - declared as an attribute of each app
    CSS = """
    #panes { layout: grid; grid-size: 2 3; grid-columns: 4fr 3fr; grid-rows: 1fr 1fr 1fr; height: 1fr; }
    #tasks { row-span: 2; }
    .-narrow #panes { layout: vertical; }
    .-narrow DataTable { display: none; } .-narrow DataTable.current { display: block; }
    #strip { display: none; height: 1; } .-narrow #strip { display: block; }
    DataTable { height: 1fr; border: round $primary; } DataTable:focus { border: round $accent; }
    #detail { height: auto; max-height: 10; padding: 0 1; border: round $secondary; }
    #line { display: none; } #line.asking { display: block; }
    #keys { height: 1; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "move(1)", show=False),
        Binding("k", "move(-1)", show=False),
        Binding("tab", "next_pane(1)", show=False, priority=True),
        Binding("shift+tab", "next_pane(-1)", show=False, priority=True),
        Binding("r", "reply", show=False),
        Binding("e", "acknowledge", show=False),
        Binding("c", "create", show=False),
        Binding("s", "state", show=False),
        Binding("a", "assign", show=False),
        Binding("p", "priority_or_pause", show=False),
        Binding("f5", "refresh_all", show=False),
        Binding("question_mark", "keys", show=False),
        Binding("escape", "cancel", show=False),
        Binding("q", "quit", show=False),
        *(Binding(str(digit), f"answer({digit})", show=False) for digit in range(1, 10)),
    ]

    def __init__(self, ask: Ask, every: float | None = 1.0) -> None:
        super().__init__()
        self._ask = ask
        self._refresh_seconds = every
        self._items: dict[str, dict[str, Item]] = {name: {} for name in PANES}
        self._pane = "inbox"
        self._submit_action: Callable[[str], None] | None = None
        # The item that the input line is about. Its text stays on the screen while other items come and go.
        self._subject: tuple[str, Item] | None = None

    def compose(self) -> ComposeResult:
        yield Header()
        yield Static(id="strip")
        with Container(id="panes"):
            # Row by row: what needs an answer, who works, open tasks, runs, and crews.
            for name in ("inbox", "agents", "tasks", "runs", "crews"):
                yield DataTable(id=name, cursor_type="row")
        yield Static(id="detail")
        yield Input(id="line")
        yield Static(id="keys")

    def on_mount(self) -> None:
        """Add the columns of the tables, and start to refresh them."""
        for name, columns in PANES.items():
            table = self._table(name)
            table.border_title = name.capitalize()
            for column in columns:
                table.add_column(column, key=column)
        self._focus_pane("inbox")
        self.action_refresh_all()
        if self._refresh_seconds:
            self.set_interval(self._refresh_seconds, self.action_refresh_all)

    def on_resize(self, event: Resize) -> None:
        """Fit keys and tables to the new width."""
        keys = Text()
        for key, word, _ in KEYS:
            entry = f" {key} {word} "
            if measure(keys.plain) + measure(entry) <= event.size.width:
                keys.append(f" {key} ", "bold").append(f"{word} ")
        self.query_one("#keys", Static).update(keys)
        self.call_after_refresh(self._draw_tables)

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """Make the focused table the current one."""
        if isinstance(event.widget, DataTable) and event.widget.id is not None:
            self._pane = event.widget.id
            for name in PANES:
                self._table(name).set_class(name == self._pane, "current")
            self._update_strip()
            self._update_detail()

    def action_refresh_all(self) -> None:
        """Reload everything, on a thread."""
        # A refresh that takes longer than the interval is replaced by the next one, so they cannot pile up.
        self.run_worker(self._read_all, thread=True, exclusive=True, group="refresh")

    def _read_all(self) -> None:
        try:
            overview, inbox, tasks = (
                self._ask("floor_overview", {}),
                self._ask("inbox_list", {}),
                self._ask("task_list", {}),
            )
            # Details are read only for crews at work: those of other crews do not change.
            crews = [
                self._ask("crew_show", {"crew": crew["crew"]}) if crew["driven"] else crew
                for crew in self._ask("crew_list", {"limit": MAX_CREWS})["crews"]
            ]
        except ShopfloorError as error:
            self.call_from_thread(self.notify, error.message, severity="error")
            return
        self.call_from_thread(self._update_items, overview, inbox, tasks, crews)

    def _update_items(self, overview: Item, inbox: Item, tasks: Item, crews: Sequence[Item]) -> None:
        self._items = {
            "inbox": {_inbox_key(item): item for item in (*inbox["requests"], *inbox["mails"])},
            "tasks": {task["id"]: task for task in tasks["tasks"]},
            "agents": {agent["id"]: agent for agent in overview["agents"]},
            "runs": {run["run"]: run for run in overview["runs"]},
            "crews": {crew["crew"]: crew for crew in crews},
        }
        counts = ", ".join(f"{count} {state}" for state, count in overview["counts"].items() if count)
        self.sub_title = f"{len(self._items['inbox'])} need you" + (f" · {counts}" if counts else "")
        self._draw_tables()

    def _draw_tables(self) -> None:
        for name, describe in (
            ("inbox", _describe_inbox_item),
            ("tasks", _describe_task),
            ("agents", _describe_agent),
            ("runs", _describe_run),
            ("crews", _describe_crew),
        ):
            self._fill_table(name, {key: describe(item) for key, item in self._items[name].items()})
        self._update_strip()
        self._update_detail()

    def _fill_table(self, name: str, rows: dict[str, tuple[str, ...]]) -> None:
        table = self._table(name)
        # The selection follows the item: a new mail above it must not move another item under the cursor.
        selected, at = self._find_selected_key(name), table.cursor_row
        columns = PANES[name]
        widths = [
            max(measure(text) for text in (column, *(row[index] for row in rows.values())))
            for index, column in enumerate(columns)
        ]
        # A cell has one space on each side. A long table has a scroll bar, which takes two columns.
        space = table.size.width - 2 - 2 * len(columns)
        widths = _fit(widths, space) if table.size.width else widths
        table.clear()
        for column, width in zip(table.ordered_columns, widths, strict=True):
            column.auto_width = False
            column.width = width
        for key, row in rows.items():
            cells = [
                Text(shorten(text, width), STYLE_BY_STATE.get(text, "") if column in ("state", "kind") else "")
                for column, text, width in zip(columns, row, widths, strict=True)
            ]
            table.add_row(*cells, key=key)
        if rows:
            found = list(rows).index(selected) if selected in rows else min(at, len(rows) - 1)
            table.move_cursor(row=max(found, 0))

    def _update_strip(self) -> None:
        """Show the names of the tables on a narrow screen, which shows one of them."""
        strip = Text()
        for name in PANES:
            strip.append(f" {name.capitalize()} {len(self._items[name])} ", "reverse" if name == self._pane else "dim")
        self.query_one("#strip", Static).update(strip)

    def on_data_table_row_highlighted(self, _: DataTable.RowHighlighted) -> None:
        """Show the selected item."""
        # A table that is filled during shutdown reports its row when the screen is already gone.
        if self.screen_stack:
            self._update_detail()

    def _update_detail(self) -> None:
        pane, item = self._subject or (self._pane, self._find_selected(self._pane))
        detail = self.query_one("#detail", Static)
        if item is None:
            detail.update(Text("Nothing needs you." if pane == "inbox" else f"No {pane}."))
            return
        text = Text(_describe_details(pane, item))
        options = _list_options(item) if pane == "inbox" else []
        if options:
            text.append(
                "\n\n" + "   ".join(f"{at} {to_printable(option)}" for at, option in enumerate(options, 1)), "bold"
            )
        detail.update(text)

    # Moving around

    def action_move(self, by: int) -> None:
        """Move the selection in the current table."""
        table = self._table(self._pane)
        table.move_cursor(row=max(0, min(table.cursor_row + by, table.row_count - 1)))

    def action_next_pane(self, by: int) -> None:
        """Go to the next or the previous table."""
        names = list(PANES)
        self._focus_pane(names[(names.index(self._pane) + by) % len(names)])

    def _focus_pane(self, name: str) -> None:
        # A table that is hidden on a narrow screen cannot get the focus, so show it first.
        for each in PANES:
            self._table(each).set_class(each == name, "current")
        self._pane = name
        self._table(name).focus()

    def action_keys(self) -> None:
        """Show all keys."""
        self.push_screen(KeyList())

    # The inbox

    def action_reply(self) -> None:
        """Answer the selected question, or reply to the selected mail."""
        item = self._find_selected("inbox")
        if self._pane != "inbox" or item is None:
            return
        options = _list_options(item)
        what = f"Answer: {' or '.join(str(at) for at in range(1, len(options) + 1))}" if options else "Your answer"

        def submit(text: str) -> None:
            if text.isdigit() and 0 < int(text) <= len(options):
                text = options[int(text) - 1]
            self._send_answer(item, text)

        self._prompt(what, submit, item)

    def action_answer(self, number: int) -> None:
        """Answer the selected question with one of its options."""
        item = self._find_selected("inbox")
        if self._pane == "inbox" and item is not None and number <= len(_list_options(item)):
            self._send_answer(item, _list_options(item)[number - 1])

    def _send_answer(self, item: Item, text: str) -> None:
        if "request" in item:
            self._call_tool("inbox_decide", {"request": item["request"], "answer": text}, f"Answered: {text}")
        elif item.get("question", {}).get("state") == "OPEN":
            self._call_tool("inbox_answer", {"mailId": item["id"], "answer": text}, f"Answered: {text}")
        else:
            self._call_tool("inbox_reply", {"mailId": item["id"], "body": text}, f"Replied to {item['from']}")

    def action_acknowledge(self) -> None:
        """Acknowledge the selected mail."""
        item = self._find_selected("inbox")
        if self._pane == "inbox" and item is not None and "id" in item:
            self._call_tool("inbox_ack", {"mailId": item["id"]}, f"Acknowledged {item['id']}")

    # Tasks, runs and agents

    def action_state(self) -> None:
        """Move the selected task, or steer the selected crew: ask for one of the states it can move to now."""
        if self._pane == "crews":
            self._steer_crew()
            return

        def ask(task: Item) -> None:
            moves = [state.lower().replace("_", " ") for state in task["moves"]]
            if task["canComplete"] and "completed" not in moves:
                moves.append("completed")
            if not moves:
                self.notify(f"{task['id']} cannot be moved now")
                return

            def submit(text: str) -> None:
                state = _choose(text, moves)
                if state is None:
                    self.notify(f"{task['id']} cannot go to {text}", severity="error")
                elif state == "completed":
                    self._call_tool("task_complete", {"number": task["number"]}, f"{task['id']}: completed")
                else:
                    given = {"number": task["number"], "state": state.upper().replace(" ", "_")}
                    self._call_tool("task_move", given, f"{task['id']}: {state}")

            self._prompt(f"{task['id']} to: {_number(moves)}", submit, task, moves)

        self._with_current_task(ask)

    def _steer_crew(self) -> None:
        crew = self._find_selected("crews")
        if crew is None:
            return
        name = crew["crew"]
        if not crew["driven"]:
            self.notify(f"No process drives {name}. Continue it: shopfloor crew resume {name}", markup=False)
            return
        calls: dict[str, tuple[str, Item]] = {"stop": ("crew_stop", {})}
        if crew["phase"] == "approval":
            calls["approve the plan"] = ("crew_approve_plan", {"approve": True})
            calls["reject the plan"] = ("crew_approve_plan", {"approve": False})

        def submit(text: str) -> None:
            word = _choose(text, list(calls))
            if word is None:
                self.notify(f"{name} cannot {text}", severity="error", markup=False)
                return
            tool, given = calls[word]
            self._call_tool(tool, {"crew": name, **given}, f"{name}: {word}")

        self._prompt(f"{name}: {_number(list(calls))}", submit, crew, list(calls))

    def action_assign(self) -> None:
        """Assign the selected task to an agent that can take tasks now; set the number of workers of a crew."""
        crew = self._find_selected("crews")
        if self._pane == "crews" and crew is not None:

            def scale(text: str) -> None:
                if not (text.isascii() and text.isdigit()):
                    self.notify(f"'{text}' is not a number of workers", severity="error", markup=False)
                    return
                given = {"crew": crew["crew"], "workers": int(text)}
                self._call_tool("crew_scale", given, f"{crew['crew']} has {text} workers")

            self._prompt(f"Workers of {crew['crew']}, now {crew['wantedWorkers']}", scale, crew)
            return

        def ask(task: Item) -> None:
            names = task["assignees"]
            if not names:
                self.notify(f"{task['id']} cannot be assigned now: no agent takes it")
                return

            def submit(text: str) -> None:
                name = _choose(text, names) or text
                given = {"number": task["number"], "agentId": name}
                self._call_tool("task_assign", given, f"Assigned {task['id']} to {name}")

            self._prompt(f"{task['id']} to: {_number(names[:9])}", submit, task, names)

        self._with_current_task(ask)

    def action_priority_or_pause(self) -> None:
        """Set the priority of the selected task; pause or resume the selected run or crew."""
        item, task = self._find_selected(self._pane), self._find_selected("tasks")
        if self._pane in ("runs", "crews") and item is not None and item["state"] == "active":
            kind = self._pane.removesuffix("s")
            resumes = item["wanted"] == "pause"
            self._call_tool(
                f"{kind}_resume" if resumes else f"{kind}_pause",
                {kind: item[kind]},
                f"{'Resumed' if resumes else 'Paused'} {item[kind]}",
            )
        elif self._pane == "tasks" and task is not None:

            def submit(text: str) -> None:
                word = _choose(text, PRIORITIES, first=0)
                if word is None:
                    self.notify(f"'{text}' is not a priority", severity="error")
                    return
                given = {"number": task["number"], "priority": PRIORITIES.index(word)}
                self._call_tool("task_edit", given, f"{task['id']}: {word}")

            self._prompt(f"Priority: {_number(PRIORITIES, first=0)}", submit, task, PRIORITIES)

    def action_create(self) -> None:
        """Create a task, or write to the selected run or agent."""
        item = self._find_selected(self._pane)
        if self._pane == "tasks":
            self._prompt(
                "Title of the new task",
                lambda text: self._call_tool("task_create", {"title": text}, f"Created: {text}"),
            )
        elif self._pane == "runs" and item is not None:
            name = item["run"]
            self._prompt(
                f"To {name}",
                lambda text: self._call_tool("run_say", {"run": name, "message": text}, f"Sent to {name}"),
                item,
            )
        elif self._pane == "agents" and item is not None:
            name = item["id"]
            self._prompt(
                f"To {name}",
                lambda text: self._call_tool(
                    "inbox_write", {"agentId": name, "subject": text[:80], "body": text}, f"Sent to {name}"
                ),
                item,
            )

    def _with_current_task(self, use: Callable[[Item], None]) -> None:
        """Load the selected task with its possible actions, and use it on the screen's own thread."""
        selected = self._find_selected("tasks")
        if self._pane != "tasks" or selected is None:
            return

        def load() -> None:
            try:
                task = self._ask("task_show", {"number": selected["number"]})
            except ShopfloorError as error:
                self.call_from_thread(self.notify, error.message, severity="error")
                return
            self.call_from_thread(use, task)

        self.run_worker(load, thread=True, group="calls")

    # The input line

    def action_cancel(self) -> None:
        """Close the input line."""
        line = self.query_one("#line", Input)
        line.remove_class("asking")
        line.value = ""
        self._submit_action = self._subject = None
        self._focus_pane(self._pane)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Run the action that the input line was opened for."""
        on_submit, text = self._submit_action, event.value.strip()
        self.action_cancel()
        if on_submit is not None and text:
            on_submit(text)

    def _prompt(
        self, what: str, on_submit: Callable[[str], None], item: Item | None = None, words: Sequence[str] = ()
    ) -> None:
        line = self.query_one("#line", Input)
        line.placeholder = what
        line.suggester = SuggestFromList(words, case_sensitive=False) if words else None
        line.add_class("asking")
        line.focus()
        self._submit_action = on_submit
        self._subject = None if item is None else (self._pane, item)

    def _call_tool(self, tool: str, given: dict[str, Any], done: str) -> None:
        """Call a tool on a thread, and report the result."""

        def call() -> None:
            try:
                self._ask(tool, given)
            except ShopfloorError as error:
                message = error.message if error.hint is None else f"{error.message}\n{error.hint}"
                self.call_from_thread(self.notify, message, severity="error", markup=False)
            else:
                self.call_from_thread(self.notify, to_printable(done), markup=False)
            self._read_all()

        self.run_worker(call, thread=True, group="calls")

    def _find_selected(self, name: str) -> Item | None:
        key = self._find_selected_key(name)
        return None if key is None else self._items[name].get(key)

    def _find_selected_key(self, name: str) -> str | None:
        table = self._table(name)
        if not 0 <= table.cursor_row < table.row_count:
            return None
        return table.coordinate_to_cell_key((table.cursor_row, 0)).row_key.value  # type: ignore[arg-type]

    def _table(self, name: str) -> DataTable[Any]:
        # Not query_one: it searches the screen in front, which may be the list of keys.
        return self.screen_stack[0].query_one(f"#{name}", DataTable)


def _inbox_key(item: Item) -> str:
    return f"request-{item['request']}" if "request" in item else str(item["id"])


def _describe_inbox_item(item: Item) -> tuple[str, ...]:
    kind = "alarm" if "escalation" in item else "mail"
    if "request" in item:
        return to_printable(item["run"]), item["kind"], to_printable(item["question"])
    if (item.get("question") or {}).get("state") == "OPEN":
        kind = "question"
    return to_printable(str(item.get("from"))), kind, to_printable(str(item.get("subject")))


def _describe_task(task: Item) -> tuple[str, ...]:
    return (
        task["id"],
        task["state"].lower().replace("_", " "),
        to_printable(task["assignee"] or "-"),
        to_printable(task["title"]),
    )


def _describe_agent(agent: Item) -> tuple[str, ...]:
    work = f"epic-{agent['epic']}" if agent["epic"] else ""
    if agent["task"]:
        work = f"task-{agent['task']} {agent['taskTitle'] or ''}"
    return to_printable(agent["id"]), agent["state"], to_printable(work)


def _describe_run(run: Item) -> tuple[str, ...]:
    return to_printable(run["run"]), run["status"], format_iterations(run), format_duration(run["elapsed"])


def _describe_crew(crew: Item) -> tuple[str, ...]:
    tasks = f"{crew['taskCounts'].get('COMPLETED', 0)} of {sum(crew['taskCounts'].values())}"
    elapsed = format_duration(crew["elapsed"])
    return to_printable(crew["crew"]), crew["status"], tasks, str(crew["wantedWorkers"]), elapsed


def _describe_crew_details(crew: Item) -> str:
    """Describe a crew: its usage, and one line for each agent."""
    lines = [f"{crew['epicId']} · {crew['tokens']} tokens · cost {crew['cost']:.2f} · branch {crew['branch']}"]
    if crew["reason"]:
        lines.append(crew["reason"])
    for worker in crew.get("workers", ()):
        facts = [worker["task"], worker["waiting"] and f"waits {worker['waiting']}"]
        if worker["run"] is not None:
            facts.append(format_duration(worker["elapsed"]))
        facts.append(f"{worker['tokens']} tokens" if worker["tokens"] else None)
        lines.append(" · ".join([f"{worker['agentId']}: {worker['status']}", *filter(None, facts)]))
    return "\n".join(lines)


def _describe_details(pane: str, item: Item) -> str:
    match pane:
        case "inbox":
            text = item.get("body") or item.get("question") or ""
        case "tasks":
            blocked = f" · blocked by {item['waitsFor']}" if item["waitsFor"] else ""
            text = f"{item['title']}\n{PRIORITIES[item['priority']]} priority · created {format_age(item['createdAt'])}{blocked}"
        case "agents":
            last = item["lastCall"]
            said = "" if last is None else f"\nlast call: {last['tool']} ({last['outcome']})"
            text = f"{item['type'].lower()} · active {format_age(item['lastActiveAt'])}{said}"
        case "crews":
            text = _describe_crew_details(item)
        case _:
            text = item["reason"] or item["waiting"] or f"started {format_age(item['startedAt'])}"
    return "\n".join(to_printable(line) for line in str(text).split("\n"))


def _list_options(item: Item) -> list[str]:
    if "request" in item:
        return list(item["options"])
    question = item.get("question") or {}
    return list(question.get("options", ())) if question.get("state") == "OPEN" else []


def _number(words: Sequence[str], first: int = 1) -> str:
    return "  ".join(f"{at} {to_printable(word)}" for at, word in enumerate(words, first))


def _choose(text: str, words: Sequence[str], first: int = 1) -> str | None:
    """Return the choice that the text names, abbreviates or numbers, or None."""
    if text.isascii() and text.isdigit() and 0 <= int(text) - first < len(words):
        return words[int(text) - first]
    begun = [word for word in words if word.casefold().startswith(text.casefold())]
    return next((word for word in words if word.casefold() == text.casefold()), begun[0] if len(begun) == 1 else None)


def _fit(widths: list[int], space: int) -> list[int]:
    """Return the widths with the last one as wide as the space allows, and the widest of the others cut if
    necessary."""
    *others, last = widths
    minimum = min(last, 12)
    while others and sum(others) + minimum > space and max(others) > 6:
        others[others.index(max(others))] -= 1
    return [*others, max(1, space - sum(others))]
