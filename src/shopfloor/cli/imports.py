"""shopfloor import beads|taskmaster|vibe-kanban|markdown|speckit|jsonl"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from shopfloor.cli.options import AsJson, call_desk, command, create_app, open_shopfloor, spare_data_folder
from shopfloor.cli.output import format_count, print_result, shorten_line, to_printable
from shopfloor.errors import InvalidInput
from shopfloor.interchange import beads, markdown, speckit, taskmaster, vibe_kanban
from shopfloor.interchange.plan import Plan, PlanItem
from shopfloor.settings import Settings
from shopfloor.store.backups import import_file
from shopfloor.transports.server import lock_data_folder

if TYPE_CHECKING:
    from shopfloor.serving import Shopfloor

BATCH_ITEMS = 100
BATCH_DEPENDENCIES = 500
MAX_PROBLEMS_SHOWN = 20

T = TypeVar("T")

app = create_app("Import tasks from another tracker. Items that were imported before are skipped.")

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only report what would be imported.")]


@dataclass(slots=True)
class _Report:
    """The result of an import, or of a dry run."""

    source: str
    file: str
    dry_run: bool
    epics: int = 0
    tasks: int = 0
    comments: int = 0
    dependencies: int = 0
    known: int = 0
    problems: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "file": self.file,
            "dryRun": self.dry_run,
            "epics": self.epics,
            "tasks": self.tasks,
            "comments": self.comments,
            "dependencies": self.dependencies,
            "known": self.known,
            "problems": self.problems,
        }

    def to_text(self) -> str:
        verb = "Would import" if self.dry_run else "Imported"
        counts = [
            format_count(self.epics, "epic"),
            format_count(self.tasks, "task"),
            format_count(self.dependencies, "dependency", "dependencies"),
            format_count(self.comments, "comment"),
        ]
        lines = [f"{verb} {', '.join(counts[:-1])} and {counts[-1]} from {self.file}"]
        if self.known:
            were = "was" if self.known == 1 else "were"
            lines.append(f"{format_count(self.known, 'epic or task', 'epics and tasks')} {were} imported before")
        lines += [shorten_line(f"  ! {to_printable(each)}") for each in self.problems[:MAX_PROBLEMS_SHOWN]]
        if (more := len(self.problems) - MAX_PROBLEMS_SHOWN) > 0:
            lines.append(f"  ! {more} more: use --json")
        if not self.dry_run and self.tasks:
            lines.append("  See them: shopfloor task list")
        elif self.dry_run and self.tasks:
            lines.append("  Import them: the same command without --dry-run")
        return "\n".join(lines)


@command(app, "beads")
def import_beads(
    settings: Settings,
    file: Annotated[Path, typer.Argument(help="Issues as JSON lines.")] = Path(beads.DEFAULT_FILE),
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Import Beads issues. Issues of the type epic become epics."""
    with _name_file("beads", file, beads.DEFAULT_FILE):
        plan = beads.read_beads(file)
    _run_import(settings, "beads", file, plan, dry_run, as_json)


@command(app, "taskmaster")
def import_taskmaster(
    settings: Settings,
    file: Annotated[Path, typer.Argument(help="The tasks.json.")] = Path(taskmaster.DEFAULT_FILE),
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Import Task Master tasks. Tags become epics, subtasks become tasks."""
    with _name_file("taskmaster", file, taskmaster.DEFAULT_FILE):
        plan = taskmaster.read_taskmaster(file)
    _run_import(settings, "taskmaster", file, plan, dry_run, as_json)


@command(app, "vibe-kanban")
def import_vibe_kanban(
    settings: Settings,
    file: Annotated[Path, typer.Argument(help="The db.sqlite in Vibe Kanban's data folder.")],
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Import Vibe Kanban tasks. Projects become epics."""
    _run_import(settings, "vibe-kanban", file, vibe_kanban.read_vibe_kanban(file), dry_run, as_json)


@command(app, "markdown")
def import_markdown(
    settings: Settings,
    file: Annotated[Path, typer.Argument(help="A file with checklists.")],
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Import the checklists in a Markdown file. Headings become epics."""
    _run_import(settings, "markdown", file, markdown.read_markdown(file), dry_run, as_json)


@command(app, "speckit")
def import_speckit(
    settings: Settings,
    file: Annotated[Path, typer.Argument(help="The tasks.md of a feature.")],
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Import the tasks of a Spec Kit feature, in the order of its phases."""
    _run_import(settings, "speckit", file, speckit.read_speckit(file), dry_run, as_json)


@command(app, "jsonl")
def import_jsonl(
    settings: Settings,
    file: Annotated[Path, typer.Argument(help="File that shopfloor export jsonl wrote, compressed or not.")],
    as_json: AsJson = False,
) -> None:
    """Import a whole store into an empty database: everything in one transaction, or nothing.

    Use it to move from SQLite to PostgreSQL: name the new database with --database. An export of an older schema is
    migrated.
    """
    settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    with lock_data_folder(settings):
        rows = import_file(file, settings.database_url)
        with open_shopfloor(settings) as shopfloor:
            call_desk(shopfloor, "export_note_import", file=str(file.absolute()), rows=sum(rows.values()))
    count = format_count(sum(rows.values()), "row")
    print_result({"rows": rows}, as_json, f"Imported {count} from {file}. The index is built again in the background")


@contextmanager
def _name_file(command: str, file: Path, default: str) -> Iterator[None]:
    """Add the next step to the error about a default file that does not exist."""
    try:
        yield
    except InvalidInput as error:
        if file == Path(default) and not file.exists():
            error.hint = f"Name the file: shopfloor import {command} FILE"
        raise


def _run_import(settings: Settings, source: str, file: Path, plan: Plan, dry_run: bool, as_json: bool) -> None:
    if dry_run:
        with spare_data_folder(settings) as spared, open_shopfloor(spared) as shopfloor:
            report = _preview(shopfloor, source, file, plan)
    else:
        with open_shopfloor(settings) as shopfloor:
            report = _import_plan(shopfloor, source, file, plan)
    print_result(report.to_json(), as_json, report.to_text())


def _preview(shopfloor: Shopfloor, source: str, file: Path, plan: Plan) -> _Report:
    known: dict[str, str] = {}
    for batch in _batches(plan.items, BATCH_ITEMS):
        known |= call_desk(shopfloor, "import_find", source=source, ids=[item.id for item in batch])["known"]
    new = [item for item in plan.items if item.id not in known]
    tasks = {item.id for item in plan.tasks}
    pairs = [(item.id, blocker) for item in new for blocker in item.depends_on]
    missing = [
        f"{task} depends on {blocker}, which is not in the file" for task, blocker in pairs if blocker not in tasks
    ]
    return _Report(
        source,
        str(file),
        dry_run=True,
        epics=sum(item.kind == "epic" for item in new),
        tasks=sum(item.kind == "task" for item in new),
        comments=sum(len(item.comments) for item in new),
        dependencies=len(pairs) - len(missing),
        known=len(plan.items) - len(new),
        problems=[*plan.warnings, *missing],
    )


def _import_plan(shopfloor: Shopfloor, source: str, file: Path, plan: Plan) -> _Report:
    report = _Report(source, str(file), dry_run=False, problems=list(plan.warnings))
    # Each batch is one transaction. An interrupted import can be repeated: imported items are recognized by their id.
    for batch in _batches([*plan.epics, *plan.tasks], BATCH_ITEMS):
        done = call_desk(shopfloor, "import_items", source=source, items=[_to_json(item) for item in batch])
        for item, one in zip(batch, done["items"], strict=True):
            report.comments += one["comments"]
            if one["outcome"] == "created":
                report.epics += item.kind == "epic"
                report.tasks += item.kind == "task"
            elif one["outcome"] == "rejected":
                report.problems.append(f"{item.id} was not imported: {one['reason']}")
            else:
                report.known += 1
    pairs = [{"task": item.id, "blocker": blocker} for item in plan.tasks for blocker in item.depends_on]
    for pairs_batch in _batches(pairs, BATCH_DEPENDENCIES):
        done = call_desk(shopfloor, "import_items", source=source, dependencies=pairs_batch)
        report.dependencies += done["dependencies"]
        report.problems += [
            f"{each['task']} does not wait for {each['blocker']}: {each['reason']}"
            for each in done["rejectedDependencies"]
        ]
    closed = [item.id for item in plan.epics if item.state in ("COMPLETED", "CANCELLED")]
    for closed_batch in _batches(closed, BATCH_ITEMS):
        call_desk(shopfloor, "import_items", source=source, closedEpics=closed_batch)
    return report


def _to_json(item: PlanItem) -> dict[str, Any]:
    comments = [
        {"id": each.id, "author": each.author, "body": each.body, "createdAt": each.created_at}
        for each in item.comments
    ]
    return {
        "id": item.id,
        "kind": item.kind,
        "title": item.title,
        "description": item.description,
        "state": item.state if item.kind == "task" else "PENDING",
        "priority": item.priority,
        "epic": item.epic,
        "completedAt": item.completed_at,
        "comments": comments if item.kind == "task" else [],
    }


def _batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[at : at + size] for at in range(0, len(items), size))
