"""shopfloor watch: floor, inbox and loops on one screen, with keys to answer, pause and send a message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import DataTable, Footer, Header, Input, Static

from shopfloor.errors import ShopfloorError

Ask = Callable[[str, dict[str, Any]], dict[str, Any]]
Item = dict[str, Any]

STYLES = {
    "failed": "bold red", "silent": "yellow", "waiting": "cyan", "working": "green", "idle": "dim",
    "question": "yellow", "permission": "yellow", "stuck": "yellow", "alarm": "bold red", "mail": "",
    "active": "green", "pause": "yellow", "stop": "red", "completed": "green",
}  # fmt: skip


class Watch(App[None]):
    """A person at the desk, in a terminal."""

    TITLE = "Shopfloor"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #left { width: 3fr; } #right { width: 4fr; }
    DataTable { height: 1fr; border: round $primary; } DataTable:focus { border: round $accent; }
    #runs { height: 7; }
    #detail { height: auto; max-height: 10; padding: 0 1; border: round $secondary; }
    #line { display: none; } #line.asking { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "answer", "Answer or reply"),
        Binding("k", "acknowledge", "Acknowledge"),
        Binding("p", "pause", "Pause / go on"),
        Binding("s", "send", "Send a message"),
        Binding("r", "look", "Look again"),
        Binding("escape", "forget", "Back", show=False),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(self, ask: Ask, every: float | None = 1.0) -> None:
        super().__init__()
        self._ask = ask
        self._every = every
        self._inbox: list[Item] = []
        self._runs: list[Item] = []
        self._agents: list[Item] = []
        self._deed: Callable[[str], None] | None = None

    def compose(self) -> ComposeResult:
        yield Header()
        with Horizontal():
            with Vertical(id="left"):
                yield DataTable(id="agents", cursor_type="row")
                yield DataTable(id="runs", cursor_type="row")
            with Vertical(id="right"):
                yield DataTable(id="inbox", cursor_type="row")
                yield Static(id="detail")
        yield Input(id="line")
        yield Footer()

    def on_mount(self) -> None:
        """Give the tables their columns, and begin to look."""
        for name, title, columns in (
            ("agents", "Agents", ("agent", "state", "works on")),
            ("runs", "Loops", ("loop", "state", "iteration", "elapsed")),
            ("inbox", "Inbox", ("from", "kind", "subject")),
        ):
            table = self._table(name)
            table.border_title = title
            table.add_columns(*columns)
        self._table("inbox").focus()
        self.action_look()
        if self._every:
            self.set_interval(self._every, self.action_look)

    def action_look(self) -> None:
        """Look at everything again, beside the screen."""
        self.run_worker(self._look, thread=True, exclusive=True, group="look")

    def _look(self) -> None:
        try:
            floor, inbox = self._ask("floor_overview", {}), self._ask("inbox_waiting", {})
        except ShopfloorError as error:
            self.call_from_thread(self.notify, error.message, severity="error")
            return
        self.call_from_thread(self._show, floor, inbox)

    def _show(self, floor: Item, inbox: Item) -> None:
        self._agents, self._runs = floor["agents"], floor["runs"]
        self._inbox = [*inbox["requests"], *inbox["mails"]]
        counts = ", ".join(f"{count} {state}" for state, count in floor["counts"].items() if count)
        self.sub_title = f"{len(self._inbox)} wait for you" + (f" · {counts}" if counts else "")
        self._fill("agents", [(_plain(a["id"]), _state(a["state"]), _plain(_holds(a))) for a in self._agents])
        self._fill(
            "runs", [(_plain(r["run"]), _state(_run_state(r)), _iteration(r), f"{r['elapsed']} s") for r in self._runs]
        )
        self._fill("inbox", [(_plain(_sender(i)), _state(_kind(i)), _plain(_subject(i))) for i in self._inbox])
        self._detail()

    def _fill(self, name: str, rows: list[tuple[Text | str, ...]]) -> None:
        table = self._table(name)
        at = table.cursor_row
        table.clear()
        for row in rows:
            table.add_row(*row)
        if rows:
            table.move_cursor(row=min(at, len(rows) - 1))

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        """Show what is chosen in the inbox."""
        if event.data_table.id == "inbox":
            self._detail()

    def _detail(self) -> None:
        item = self._chosen("inbox", self._inbox)
        detail = self.query_one("#detail", Static)
        if item is None:
            detail.update(Text("Nothing waits for you."))
            return
        text = Text(_plain_lines(item.get("body") or item.get("question") or ""))
        options = _options(item)
        if options:
            text.append(
                "\n\n" + "   ".join(f"{at} {_plain(option).plain}" for at, option in enumerate(options, 1)), "bold"
            )
        detail.update(text)

    def action_answer(self) -> None:
        """Answer the chosen question, or reply to the chosen mail."""
        item = self._chosen("inbox", self._inbox)
        if item is None:
            return
        options = _options(item)
        what = f"Answer: {' or '.join(str(at) for at in range(1, len(options) + 1))}" if options else "Your answer"
        self._prompt(what, lambda text: self._do(*_answered(item, _picked(options, text))))

    def action_acknowledge(self) -> None:
        """The chosen mail is seen to."""
        item = self._chosen("inbox", self._inbox)
        if item is not None and "id" in item:
            self._do("inbox_ack", {"mailId": item["id"]})

    def action_pause(self) -> None:
        """Pause the chosen loop, or let it go on."""
        run = self._chosen("runs", self._runs)
        if run is not None and run["state"] == "active":
            self._do("run_steer", {"run": run["run"], "wanted": "go" if run["wanted"] == "pause" else "pause"})

    def action_send(self) -> None:
        """Say something to the chosen loop or agent, whichever table has the focus."""
        run = self._chosen("runs", self._runs)
        agent = self._chosen("agents", self._agents)
        if self._table("runs").has_focus and run is not None:
            self._prompt(f"To {run['run']}", lambda text: self._do("run_say", {"run": run["run"], "message": text}))
        elif agent is not None:
            self._prompt(
                f"To {agent['id']}",
                lambda text: self._do("inbox_write", {"agentId": agent["id"], "subject": text[:80], "body": text}),
            )

    def action_forget(self) -> None:
        """Leave the line without doing anything."""
        line = self.query_one("#line", Input)
        line.remove_class("asking")
        line.value = ""
        self._deed = None
        self._table("inbox").focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Do what the line was opened for."""
        deed, text = self._deed, event.value.strip()
        self.action_forget()
        if deed is not None and text:
            deed(text)

    def _prompt(self, what: str, deed: Callable[[str], None]) -> None:
        line = self.query_one("#line", Input)
        line.placeholder = what
        line.add_class("asking")
        line.focus()
        self._deed = deed

    def _do(self, tool: str, given: dict[str, Any]) -> None:
        def done() -> None:
            try:
                self._ask(tool, given)
            except ShopfloorError as error:
                self.call_from_thread(self.notify, error.message, severity="error")
            else:
                self.call_from_thread(self.notify, "Done")
            self._look()

        self.run_worker(done, thread=True, group="deeds")

    def _chosen(self, name: str, items: list[Item]) -> Item | None:
        at = self._table(name).cursor_row
        return items[at] if 0 <= at < len(items) else None

    def _table(self, name: str) -> DataTable[Any]:
        return self.query_one(f"#{name}", DataTable)


def _answered(item: Item, text: str) -> tuple[str, dict[str, Any]]:
    if "request" in item:
        return "inbox_decide", {"request": item["request"], "answer": text}
    if item.get("question", {}).get("state") == "OPEN":
        return "inbox_answer", {"mailId": item["id"], "answer": text}
    return "inbox_reply", {"mailId": item["id"], "body": text}


def _picked(options: list[str], text: str) -> str:
    return options[int(text) - 1] if text.isdigit() and 0 < int(text) <= len(options) else text


def _options(item: Item) -> list[str]:
    if "request" in item:
        return list(item["options"])
    question = item.get("question") or {}
    return list(question.get("options", ())) if question.get("state") == "OPEN" else []


def _kind(item: Item) -> str:
    if "request" in item:
        return str(item["kind"])
    if (item.get("question") or {}).get("state") == "OPEN":
        return "question"
    return "alarm" if "escalation" in item else "mail"


def _sender(item: Item) -> str:
    return str(item["run"] if "request" in item else item["from"])


def _subject(item: Item) -> str:
    return str(item["question"] if "request" in item else item["subject"])[:80]


def _holds(agent: Item) -> str:
    if agent["task"]:
        return f"task-{agent['task']} {agent['taskTitle'] or ''}"
    return f"epic-{agent['epic']}" if agent["epic"] else ""


def _run_state(run: Item) -> str:
    return str(run["wanted"] if run["state"] == "active" and run["wanted"] != "go" else run["state"])


def _iteration(run: Item) -> str:
    return f"{run['iteration']} of {run['iterations']}" if run["iterations"] else str(run["iteration"])


def _state(state: str) -> Text:
    return Text(state, STYLES.get(state, ""))


def _plain(text: str) -> Text:
    """Text of agents must not steer the terminal, nor be taken for markup."""
    return Text("".join(char if char.isprintable() else "�" for char in text))


def _plain_lines(text: str) -> str:
    return "\n".join("".join(char if char.isprintable() else "�" for char in line) for line in text.split("\n"))
