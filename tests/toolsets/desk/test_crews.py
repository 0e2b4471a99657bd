"""What a crew has changed, and the merge of its branch into the project."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shopfloor.domain.crews import MergeState, Role
from shopfloor.domain.runs import RunState
from shopfloor.domain.tasks import State, Task
from shopfloor.domain.times import SECOND
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import crew_plans, crews, epics, iterations, merge_queue, tasks
from tests.operator_access import write_as_operator
from tests.toolsets.desk.conftest import Desk

BRANCH = "shopfloor-crew/team/epic"


class Repository:
    """The project's repository, with the branch of the crew `team` and the branch of its task."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "user.name", "Test")
        self.git("config", "user.email", "test@example.invalid")
        self.git("config", "commit.gpgsign", "false")
        (folder / ".gitignore").write_text("floor.db*\n.shopfloor\nworktree\n")
        self.commit({"log.txt": "begin\n"}, "Begin")
        self.git("branch", BRANCH)

    def git(self, *words: str, folder: Path | None = None) -> str:
        done = subprocess.run(["git", *words], cwd=folder or self.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def commit(self, files: dict[str, str], message: str, folder: Path | None = None) -> str:
        for name, text in files.items():
            ((folder or self.folder) / name).write_text(text)
        self.git("add", "--all", folder=folder)
        self.git("commit", "--quiet", f"--message={message}", folder=folder)
        return self.git("rev-parse", "HEAD", folder=folder)

    def commit_on(self, branch: str, files: dict[str, str], message: str) -> str:
        """Commit files on a branch, and return to main."""
        self.git("checkout", "--quiet", branch)
        commit = self.commit(files, message)
        self.git("checkout", "--quiet", "main")
        return commit


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


@pytest.fixture
def team(desk: Desk, repository: Repository) -> int:
    """Create a crew with one task, which its worker has begun, and return the number of the task."""
    check = [sys.executable, "-c", "import pathlib, sys; sys.exit(pathlib.Path('wrong.txt').exists())"]
    options = json.dumps({"verify": [check], "worker": [{"verify_time": 60.0}]})

    def create(uow: UnitOfWork) -> int:
        epic = epics.create_epic(uow, "Files", "", None, None).id
        facts = {"title": "", "spec": "", "project": str(repository.folder), "branch": BRANCH, "base": "b"}
        crews.create_crew(uow, "team", epic=epic, workers=1, options=options, **facts)
        task = tasks.create_task(uow, title="one", epic=epic, depends_on=(), priority=2)
        crew = crews.drive_crew(uow, "team", options, None)
        crews.ensure_agent(uow, crew, "team-worker-1", Role.WORKER)
        folder = str(repository.folder / "worktree")
        facts = {"project": folder, "spec": "", "options": "{}"}
        crews.open_run(uow, crew, f"team.task-{task.number}", worker="team-worker-1", task=task.number, **facts)
        return task.number

    number = write_as_operator(desk.shopfloor, create)
    desk.call_as_agent("team-worker-1", "mcp__task__claim")
    return number


def test_the_time_of_a_crew_advances_between_two_accounts(desk: Desk, team: int) -> None:
    def account(spent: int, *, halted: bool) -> None:
        def touch(uow: UnitOfWork) -> None:
            crews.touch_agents(uow, uow.crews.get("team"), ["team-worker-1"], spent * SECOND, halted=halted)

        write_as_operator(desk.shopfloor, touch)

    account(5, halted=False)
    desk.shopfloor.pass_time(7 * SECOND)
    assert desk("crew_show", crew="team")["elapsed"] == 12
    account(7, halted=True)
    desk.shopfloor.pass_time(7 * SECOND)
    assert desk("crew_show", crew="team")["elapsed"] == 12


def test_the_open_questions_of_blocked_tasks_are_shown_with_their_crew(desk: Desk, team: int) -> None:
    facts = {"subject": "Which colour?", "body": "Red or blue", "options": ["red", "blue"], "timeoutSeconds": 0}
    asked = desk.call_as_agent("team-worker-1", "mcp__mail__ask", **facts)
    assert desk("crew_show", crew="team")["openQuestions"] == []
    desk.call_as_agent("team-worker-1", "mcp__task__update_status", taskId=f"task-{team}", state="BLOCKED")
    [shown] = desk("crew_show", crew="team")["openQuestions"]
    assert shown.pop("deadline").endswith("Z")
    assert shown == {
        "mailId": asked["ticket"],
        "agentId": "team-worker-1",
        "subject": "Which colour?",
        "body": "Red or blue",
        "options": ["red", "blue"],
    }
    desk("inbox_answer", mailId=asked["ticket"], answer="red")
    assert desk("crew_show", crew="team")["openQuestions"] == []


def test_a_reply_to_plain_mail_continues_a_blocked_task(desk: Desk, team: int) -> None:
    facts = {"subject": "A colour is missing", "body": "Which one?", "toHuman": True}
    sent = desk.call_as_agent("team-worker-1", "mcp__mail__send", **facts)["mailId"]
    desk.call_as_agent("team-worker-1", "mcp__task__update_status", taskId=f"task-{team}", state="BLOCKED")
    desk("inbox_reply", mailId=sent, body="Blue")
    shown = desk("task_show", number=team)
    assert shown["state"] == "IN_PROGRESS"
    assert "A colour is missing: Blue" in str(shown["comments"])


def test_a_crew_is_merged_by_a_fast_forward(desk: Desk, repository: Repository, team: int) -> None:
    tip = repository.commit_on(BRANCH, {"one.txt": "1\n"}, "task-1: one")
    compared = {"crew": "team", "isHere": True, "projectBranch": "main"}
    assert desk("crew_compare", crew="team") == {**compared, "commits": 1, "behind": 0}
    assert desk("crew_merge_branch", crew="team") == {
        "crew": "team",
        "branch": BRANCH,
        "commit": tip,
        "unfinished": [f"task-{team}"],
    }
    assert repository.git("rev-parse", "main") == tip
    assert (repository.folder / "one.txt").read_text() == "1\n"
    assert desk("crew_compare", crew="team") == {**compared, "commits": 0, "behind": 0}
    assert desk("crew_merge_branch", crew="team") == {
        "crew": "team",
        "branch": BRANCH,
        "commit": None,
        "unfinished": [f"task-{team}"],
    }


def test_a_merge_into_a_project_that_has_moved_is_verified_first(desk: Desk, repository: Repository, team: int) -> None:
    tip = repository.commit_on(BRANCH, {"one.txt": "1\n"}, "task-1: one")
    moved = repository.commit({"two.txt": "2\n"}, "Two")
    assert desk("crew_compare", crew="team")["behind"] == 1
    merged = desk("crew_merge_branch", crew="team")["commit"]
    assert repository.git("rev-parse", "main") == merged
    assert repository.git("rev-parse", f"{merged}^1", f"{merged}^2").split() == [moved, tip]
    assert sorted(repository.git("ls-files").split()) == [".gitignore", "log.txt", "one.txt", "two.txt"]
    assert repository.git("worktree", "list").count("\n") == 0


def test_a_merge_that_fails_its_verification_leaves_the_project_alone(
    desk: Desk, repository: Repository, team: int
) -> None:
    repository.commit_on(BRANCH, {"one.txt": "1\n"}, "task-1: one")
    moved = repository.commit({"wrong.txt": "\n"}, "Wrong")
    answer = desk.answer("crew_merge_branch", crew="team")
    assert "fails with exit code 1 after the merge" in answer.body["error"]
    assert answer.body["hint"] == f"Merge {BRANCH} by hand, and resolve what is in the way"
    assert repository.git("rev-parse", "main") == moved
    assert repository.git("status", "--porcelain") == ""
    assert repository.git("worktree", "list").count("\n") == 0


def test_a_merge_with_a_conflict_leaves_the_project_alone(desk: Desk, repository: Repository, team: int) -> None:
    repository.commit_on(BRANCH, {"log.txt": "crew\n"}, "task-1: one")
    moved = repository.commit({"log.txt": "person\n"}, "Person")
    assert "CONFLICT (content): Merge conflict in log.txt" in desk.expect_error("crew_merge_branch", crew="team")
    assert repository.git("rev-parse", "main") == moved
    assert repository.git("status", "--porcelain") == ""


def test_a_merge_does_not_overwrite_uncommitted_changes(desk: Desk, repository: Repository, team: int) -> None:
    repository.commit_on(BRANCH, {"log.txt": "crew\n"}, "task-1: one")
    (repository.folder / "log.txt").write_text("mine\n")
    answer = desk.answer("crew_merge_branch", crew="team")
    assert "log.txt" in answer.body["error"]
    assert answer.body["hint"] == "Commit or set aside the changes in the project, then merge again"
    assert (repository.folder / "log.txt").read_text() == "mine\n"


def test_a_merge_is_rejected_where_the_project_is_not(desk: Desk, repository: Repository, team: int) -> None:
    repository.git("branch", "--move", BRANCH, "elsewhere")
    assert "is not on this machine" in desk.expect_error("crew_merge_branch", crew="team")
    assert desk("crew_compare", crew="team")["isHere"] is False


def test_the_changes_of_a_task_are_shown_from_its_worktree_to_its_merge(
    desk: Desk, repository: Repository, team: int
) -> None:
    worktree = repository.folder / "worktree"
    repository.git("worktree", "add", "--quiet", "-b", "shopfloor-crew/team/task-1", str(worktree), BRANCH)
    (worktree / "new file.txt").write_text("new\n")
    (worktree / "log.txt").write_text("begin\nmore\n")
    (worktree / ".env").write_text("KEY=value-of-a-person\n")
    shown = desk("task_changes", number=team)
    assert (shown["source"], shown["truncated"]) == ("worktree", False)
    counts = [(file["path"], file["added"], file["removed"]) for file in shown["files"]]
    assert counts == [(".env", 1, 0), ("log.txt", 1, 0), ("new file.txt", 1, 0)]
    texts = [file["diff"] for file in shown["files"]]
    assert texts[0] == ""
    assert texts[1].endswith("@@ -1 +1,2 @@\n begin\n+more")
    assert "+new" in texts[2]
    # Reading must not touch the index of the agent that works there.
    assert repository.git("diff", "--cached", "--name-only", folder=worktree) == ""
    (worktree / ".env").unlink()
    commit = repository.commit({}, "work", folder=worktree)

    def hand_over(uow: UnitOfWork) -> None:
        merge_queue.add_merge(uow, uow.crews.get("team"), team, branch="b", commit=commit, review=True)

    write_as_operator(desk.shopfloor, hand_over)
    desk.call_as_agent("team-worker-1", "mcp__task__update_status", state="REVIEW")
    shown = desk("task_changes", number=team)
    assert (shown["source"], [file["path"] for file in shown["files"]]) == ("queue", ["log.txt", "new file.txt"])
    assert desk("task_show", number=team)["merge"]["state"] == "review"
    merged = repository.commit_on(BRANCH, {"log.txt": "begin\nmore\n"}, f"task-{team}: one")
    write_as_operator(
        desk.shopfloor,
        lambda uow: uow.merges.update(team, uow.now, state=MergeState.MERGED, merged_commit=merged),
    )
    shown = desk("task_changes", number=team)
    assert (shown["source"], [file["path"] for file in shown["files"]]) == ("merged", ["log.txt"])


def test_changes_are_read_from_the_repository_of_the_worktree_and_not_from_one_inside_it(
    desk: Desk, repository: Repository, team: int
) -> None:
    worktree, trap = repository.folder / "worktree", repository.folder.parent / "trap"
    project = repository.folder / "app"
    project.mkdir()
    (project / "a.txt").write_text("a\n")
    repository.commit({}, "App")
    repository.git("branch", "--force", BRANCH)
    repository.git("worktree", "add", "--quiet", "-b", "shopfloor-crew/team/task-1", str(worktree), BRANCH)

    def move(uow: UnitOfWork) -> None:
        uow.crews.update("team", uow.now, project=str(project))
        uow.runs.update(f"team.task-{team}", uow.now, project=str(worktree / "app"))

    write_as_operator(desk.shopfloor, move)
    (worktree / "app" / "a.txt").write_text("b\n")
    # The project is a folder of its repository, where an agent makes another one.
    repository.git("init", "--quiet", folder=worktree / "app")
    repository.git("config", "filter.evil.clean", f"touch {trap}; cat", folder=worktree / "app")
    (worktree / "app" / ".gitattributes").write_text("* filter=evil\n")
    shown = desk("task_changes", number=team)
    assert [file["path"] for file in shown["files"]] == ["app/.gitattributes", "app/a.txt"]
    assert not trap.exists()


def test_a_branch_name_of_an_agent_is_no_option_of_git(desk: Desk, repository: Repository, team: int) -> None:
    target = repository.folder / "written"
    for name in (f"--output={target}", "no-such-branch"):

        def set_branch(uow: UnitOfWork, name: str = name) -> None:
            uow.tasks.update(team, uow.now, branch_name=name)

        write_as_operator(desk.shopfloor, set_branch)
        assert desk("task_changes", number=team) == {"source": "none", "truncated": False, "files": []}
    assert not target.exists()


def test_a_person_sends_reviewed_work_back_or_approves_it(desk: Desk, repository: Repository, team: int) -> None:
    tip = repository.git("rev-parse", BRANCH)

    def hand_over(uow: UnitOfWork) -> None:
        merge_queue.add_merge(uow, uow.crews.get("team"), team, branch="b", commit=tip, review=True)

    write_as_operator(desk.shopfloor, hand_over)
    desk.call_as_agent("team-worker-1", "mcp__task__update_status", state="REVIEW")
    desk("task_move", number=team, state="IN_PROGRESS", comment="Add a test")
    shown = desk("task_show", number=team)
    assert (shown["state"], shown["merge"]["state"], shown["merge"]["output"]) == (
        "IN_PROGRESS",
        "returned",
        "Add a test",
    )
    write_as_operator(desk.shopfloor, hand_over)
    desk.call_as_agent("team-worker-1", "mcp__task__update_status", state="REVIEW")
    desk("task_complete", number=team)
    shown = desk("task_show", number=team)
    assert (shown["state"], shown["merge"]["state"]) == ("REVIEW", "queued")
    assert shown["merge"]["approvedBy"] == "operator:operator"


def test_work_that_is_returned_too_often_fails_and_a_person_is_alerted(
    desk: Desk, repository: Repository, team: int
) -> None:
    tip = repository.git("rev-parse", BRANCH)

    def return_work(output: str, *, conflict: bool = False) -> tuple[str, int]:
        def give_back(uow: UnitOfWork) -> int:
            crew = uow.crews.get("team")
            merge_queue.add_merge(uow, crew, team, branch="b", commit=tip, review=False)
            facts: dict[str, Any] = {"attempts": 2, "conflict": conflict, "hint": "Try it again"}
            uow.tasks.transition(uow.tasks.get(team), State.REVIEW, uow.now)
            return merge_queue.return_merge(uow, crew, team, output, **facts).attempts

        attempts = write_as_operator(desk.shopfloor, give_back)
        return desk("task_show", number=team)["state"], attempts

    # A conflict is no failure of the work: another task was merged meanwhile.
    assert return_work("it conflicts", conflict=True) == ("IN_PROGRESS", 0)
    assert return_work("`make test` failed") == ("IN_PROGRESS", 1)
    assert [mail["subject"] for mail in desk("inbox_list")["mails"]] == []
    assert return_work("`make test` failed\nThe end of its output") == ("FAILED", 2)
    [mail] = desk("inbox_list")["mails"]
    shown = desk("inbox_show", mailId=mail["id"])
    assert (shown["subject"], shown["importance"]) == (f"task-{team} failed: one", "high")
    assert shown["body"] == ("it was returned 2 times, the last time because: `make test` failed\n\nTry it again")


def test_a_task_that_a_worker_gives_back_is_free_again_and_in_the_log(desk: Desk, team: int) -> None:
    def give_back(uow: UnitOfWork) -> tuple[Task, list[str]]:
        uow.tasks.transition(uow.tasks.get(team), State.IN_PROGRESS, uow.now, assignee="builder", held_at=uow.now)
        task = crews.return_task(uow, team, "builder", "the agent died", attempts=5, final=False, hint="")
        rows = uow.decisions.list_page(limit=5, before=None, task=team)
        return task, [f"{row.actor}: {row.reasoning}" for row in rows if row.kind == "recovery"]

    returned, rows = write_as_operator(desk.shopfloor, give_back)
    assert (returned.state, returned.assignee, returned.held_at) == (State.PENDING, None, None)
    assert rows == ["operator:operator: the agent died"]


def test_an_approved_plan_sets_the_acceptance_commands_that_it_proposes(desk: Desk, team: int) -> None:
    proposal = "Write it.\nAcceptance command: test -f 'two words.txt'"

    def plan(uow: UnitOfWork) -> int:
        crew = uow.crews.get("team")
        task = tasks.create_task(uow, title="two", description=proposal, epic=crew.epic, depends_on=(), priority=2)
        crew_plans.finish_planning(uow, crew, f"team.task-{team}", ask=True)
        return task.number

    number = write_as_operator(desk.shopfloor, plan)

    def read_command() -> str | None:
        return write_as_operator(desk.shopfloor, lambda uow: uow.tasks.get(number).acceptance)

    # The word of an agent runs nothing.
    assert read_command() is None
    desk("crew_approve_plan", crew="team")
    assert json.loads(read_command() or "") == ["test", "-f", "two words.txt"]


def test_the_board_of_an_epic_shows_what_is_left_of_the_budgets_of_its_crews(desk: Desk, team: int) -> None:
    def use(uow: UnitOfWork) -> None:
        uow.crews.update("team", uow.now, options=json.dumps({"tokens": 1000, "cost": 2.5, "iterations": 9}))
        run = f"team.task-{team}"
        iterations.begin_iteration(uow, run, 0, prompt_changed=False)
        used: dict[str, Any] = {"tokens": 400, "cost": 500_000, "spent": SECOND}
        iterations.end_iteration(uow, run, outcome="ended", failure=None, **used)

    write_as_operator(desk.shopfloor, use)
    epic = desk("crew_show", crew="team")["epicId"].removeprefix("epic-")
    [shown] = desk("board_show", kind="epic", board=epic)["crews"]
    assert (shown["crew"], shown["remaining"]) == ("team", {"tokens": 600, "cost": 2.0, "iterations": 8})
    [worker] = desk("crew_show", crew="team")["workers"]
    assert (worker["agentId"], worker["tokens"], worker["cost"]) == ("team-worker-1", 400, 0.5)


def test_a_further_crew_of_an_epic_continues_on_the_branch_of_one_that_was_stopped(desk: Desk, team: int) -> None:
    def start_another(uow: UnitOfWork) -> tuple[str, str]:
        stopped = uow.crews.get("team")
        crews.finish_crew(uow, stopped, RunState.STOPPED, "a person stopped it", "")
        facts = {"title": "", "spec": "", "branch": "shopfloor-crew/more/epic", "base": "head", "options": "{}"}
        more = crews.create_crew(uow, "more", epic=stopped.epic, workers=1, project=stopped.project, **facts)
        other = crews.create_crew(uow, "other", epic=stopped.epic, workers=1, project="/elsewhere", **facts)
        assert other.branch == "shopfloor-crew/more/epic"
        return more.branch, more.base

    assert desk("task_show", number=team)["state"] == "IN_PROGRESS"
    assert write_as_operator(desk.shopfloor, start_another) == (BRANCH, "head")
    # Its workers can take the task at once, and not when the lease of the worker that had it ends.
    shown = desk("task_show", number=team)
    assert (shown["state"], shown.get("assigneeId")) == ("PENDING", None)
    assert "team has ended, and more continues its epic" in str(shown["comments"])
