"""The page of a crew: its plan is approved there, it is steered, and its work is reviewed and merged."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from shopfloor.domain.tasks import State
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import crew_plans, crews, merge_queue
from tests.web.desk_support import Desk


def test_a_crew_is_approved_assigned_scaled_and_paused_on_its_page(populated: Desk, operator: Page) -> None:
    def ask(uow: UnitOfWork) -> None:
        crew_plans.finish_planning(uow, uow.crews.get("crew-night"), "crew-night.task", ask=True)

    populated.write(ask)
    populated.open_page(operator, "/runs")
    operator.get_by_role("link", name="Crews").click()
    operator.get_by_role("link", name="crew-night").click()
    expect(operator.get_by_role("heading", name="crew-night")).to_be_visible()
    operator.get_by_role("button", name="Approve the plan").click()
    expect(operator.get_by_role("button", name="Approve the plan")).to_have_count(0, timeout=180_000)
    tasks = operator.get_by_role("region", name="Tasks and merge queue")
    tasks.get_by_role("combobox").select_option("crew-night-worker-1")
    expect(operator.get_by_role("status")).to_contain_text("Assigned to crew-night-worker-1", timeout=180_000)
    expect(operator.get_by_role("link", name="Last transcript")).to_have_attribute(
        "href", "/runs/crew-night.task/transcript"
    )
    operator.get_by_role("button", name="One more worker").click()
    operator.get_by_role("button", name="Pause").click()
    expect(operator.get_by_role("button", name="Resume")).to_be_visible(timeout=180_000)
    populated.open_page(operator, "/runs/crew-night.task")
    expect(
        operator.get_by_role("complementary", name="Properties").get_by_role("link", name="crew-night")
    ).to_have_count(2)
    expect(operator.get_by_text("No tasks planned yet.")).to_have_count(0)
    shown = populated.write(lambda uow: uow.crews.get("crew-night"))
    assert (shown.phase, shown.wanted, shown.workers) == ("work", "pause", 3)
    [task] = populated.write(lambda uow: crews.list_tasks(uow, uow.crews.get("crew-night")))
    assert task.assignee == "crew-night-worker-1"


def test_the_question_that_a_crew_waits_for_is_answered_on_its_page(populated: Desk, operator: Page) -> None:
    worker = "crew-night-worker-1"

    def begin(uow: UnitOfWork) -> int:
        [task] = crews.list_tasks(uow, uow.crews.update("crew-night", uow.now, phase="work"))
        uow.tasks.transition(task, State.IN_PROGRESS, uow.now, assignee=worker, attempts=1)
        return task.number

    number = populated.write(begin)
    populated.open_page(operator, "/crews/crew-night")
    facts = {"subject": "Which colour?", "body": "The page needs one.", "options": ["Red", "Blue"]}
    populated.call_as(worker, "mcp__mail__ask", **facts, timeoutSeconds=0)
    populated.call_as(worker, "mcp__task__update_status", taskId=f"task-{number}", state="BLOCKED")
    asked = operator.get_by_role("region", name=f"Question of {worker}")
    expect(asked.get_by_text("The page needs one.")).to_be_visible(timeout=180_000)
    expect(asked.get_by_label("Answer to Which colour?")).to_be_visible()
    asked.get_by_role("button", name="Blue").click()
    expect(asked).to_have_count(0, timeout=180_000)
    assert populated.write(lambda uow: uow.tasks.get(number)).state == "IN_PROGRESS"


def test_a_crew_is_merged_and_its_work_reviewed_on_the_pages(populated: Desk, operator: Page, tmp_path: Path) -> None:
    git = _create_repository(tmp_path / "repository")
    branch = "shopfloor-crew/crew-night/epic"
    git("checkout", "--quiet", "-b", branch)
    (tmp_path / "repository" / "one.txt").write_text("first line\n")
    git("add", "--all")
    git("commit", "--quiet", "--message=task-1: one")
    commit = git("rev-parse", "HEAD")
    git("checkout", "--quiet", "main")
    git("branch", "--move", branch, "work")
    git("branch", branch, "main")

    def hand_over(uow: UnitOfWork) -> int:
        crew = uow.crews.get("crew-night")
        [task] = crews.list_tasks(uow, crew)
        facts = {"project": str(tmp_path / "repository"), "branch": branch, "phase": "work"}
        crew = uow.crews.update("crew-night", uow.now, **facts)
        changes = {"assignee": "crew-night-worker-1", "attempts": 1, "branch_name": "work"}
        uow.tasks.transition(task, State.REVIEW, uow.now, **changes)
        merge_queue.add_merge(uow, crew, task.number, branch="work", commit=commit, review=True)
        return task.number

    number = populated.write(hand_over)
    sent = populated.call_as(
        "crew-night-worker-1", "mcp__mail__send", toHuman=True, subject=f"About task-{number}", body="x"
    )
    populated.open_page(operator, f"/inbox/{sent['mailId']}")
    context = operator.get_by_label("Context")
    expect(context.get_by_role("link", name="Use a queue").first).to_have_attribute("href", f"/tasks/{number}")
    context.get_by_text("one.txt").click()
    expect(context.get_by_text("+first line")).to_be_visible()
    populated.open_page(operator, "/crews/crew-night")
    tasks = operator.get_by_role("region", name="Tasks and merge queue")
    tasks.get_by_role("link", name="Use a queue").click()
    changes = operator.get_by_role("region", name="Changes")
    expect(changes.get_by_text("one.txt")).to_be_visible()
    expect(changes.get_by_text("+first line")).to_be_visible()
    operator.get_by_role("button", name="Approve").click()
    expect(operator.get_by_role("region", name="Review")).to_have_count(0, timeout=180_000)
    assert populated.write(lambda uow: uow.merges.find(number)).state == "queued"
    git("branch", "--force", branch, "work")
    populated.open_page(operator, "/crews/crew-night")
    operator.on("dialog", lambda dialog: dialog.accept())
    operator.get_by_role("button", name="Merge the verified work into main").click()
    expect(operator.get_by_role("button", name="Merge the verified work into main")).to_have_count(0, timeout=180_000)
    assert git("rev-parse", "main") == commit
    message = operator.get_by_label("Message to crew-night-worker-1")
    expect(message).to_have_count(0)


def _create_repository(folder: Path) -> Callable[..., str]:
    folder.mkdir()

    def git(*words: str) -> str:
        identity = ("-c", "user.name=Test", "-c", "user.email=test@example.invalid")
        done = subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    git("init", "--quiet", "--initial-branch=main")
    git("commit", "--quiet", "--allow-empty", "--message=Begin")
    return git
