"""What the team has got done, and what its agents used."""

from __future__ import annotations

from shopfloor.domain.principals import OPERATOR
from shopfloor.domain.times import DAY, HOUR
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import iterations, run_tasks, runs, usage
from tests.toolsets.desk.conftest import Desk


def _complete(desk: Desk, title: str, *, hours: int) -> None:
    number = desk("task_create", title=title)["number"]
    desk("task_assign", number=number, agentId="builder")
    desk("task_move", number=number, state="IN_PROGRESS")
    desk.shopfloor.pass_time(hours * HOUR)
    desk("task_complete", number=number)


def test_completed_tasks_and_cycle_times_are_counted_by_day_and_agent(desk: Desk) -> None:
    _complete(desk, "Paint", hours=1)
    desk.shopfloor.pass_time(DAY)
    _complete(desk, "Sand", hours=3)
    desk("task_complete", number=desk("task_create", title="Sweep")["number"])
    seen = desk("work_summary", days=3)
    assert sum(day["completed"] for day in seen["days"]) == seen["total"]["completed"] == 3
    assert len(seen["days"]) == 3
    assert seen["agents"][0]["agent"] == "builder"
    assert seen["agents"][0]["completed"] == 2
    assert seen["agents"][0]["cycleSeconds"] == 2 * 3600
    assert (seen["openTasks"], seen["failedTasks"], seen["complete"]) == (0, 0, True)
    desk.shopfloor.pass_time(30 * DAY)
    assert desk("work_summary")["total"] == {
        "completed": 0, "cycleSeconds": None, "retried": 0, "tokens": 0, "cost": 0,
    }  # fmt: skip


def test_a_second_attempt_counts_as_retried(desk: Desk) -> None:
    number = desk("task_create", title="Paint")["number"]
    desk("task_assign", number=number, agentId="builder")
    for state in ("IN_PROGRESS", "FAILED", "IN_PROGRESS", "REVIEW", "COMPLETED"):
        desk("task_move", number=number, state=state)
    assert desk("work_summary")["total"]["retried"] == 1


def test_usage_of_an_iteration_is_counted_for_its_run_task_and_day(desk: Desk) -> None:
    def work(uow: UnitOfWork) -> None:
        runs.create_run(uow, "night", spec="s", project=".", options="{}")
        runs.drive_run(uow, "night", "{}")
        run_tasks.add_tasks(uow, "night", [run_tasks.NewTask(content="Paint")])
        run_tasks.update_task(uow, "night", "TAS-1", "in_progress")
        iterations.begin_iteration(uow, "night", 0, prompt_changed=False)
        iterations.end_iteration(
            uow, "night", outcome="ended", failure=None, tokens=1200, cost=2_500_000, spent=1_000_000
        )

    desk.shopfloor.engine.database.write(work, OPERATOR)
    shown = desk("run_show", run="night")
    assert [(day["tokens"], day["cost"]) for day in shown["usage"]] == [(1200, 2.5)]
    assert (shown["rounds"][0]["tokens"], shown["rounds"][0]["cost"]) == (1200, 2.5)
    assert desk("task_show", number=1, kind="loop", board="night")["usage"] == {"tokens": 1200, "cost": 2.5}
    total = desk("work_summary")["total"]
    assert (total["tokens"], total["cost"]) == (1200, 2.5)


def test_agent_is_shown_with_its_work_mail_calls_tokens_and_usage(desk: Desk) -> None:
    epic = desk("epic_create", title="Redecorate")
    number = desk("task_create", title="Paint", epic=epic["number"])["number"]
    desk("task_assign", number=number, agentId="builder")
    desk.call_as_agent("lead", "mcp__epic__assign", epicId=epic["id"], agentId="builder")
    desk.call_as_agent("builder", "mcp__mail__send", toAgentId="lead", subject="Which colour?", body="White?")
    desk.call_as_agent("builder", "mcp__mail__send", toHuman=True, subject="Half is done", body="The rest tomorrow")
    desk("token_issue", agent="builder")
    desk.shopfloor.engine.database.write(
        lambda uow: usage.record_usage(uow, 900, 1_000_000, agent="builder", task=number), OPERATOR
    )
    desk.flush_log()
    seen = desk("agent_show", name="builder")
    assert seen["status"]["taskTitle"] == "Paint"
    assert seen["status"]["leaseExpiresAt"] is not None
    assert [task["number"] for task in seen["tasks"]] == [number]
    assert seen["status"]["epicTitle"] == "Redecorate"
    assert [(mail["subject"], mail["to"], mail["isForHuman"]) for mail in seen["sent"]] == [
        ("Half is done", ["human"], True),
        ("Which colour?", ["lead"], False),
    ]
    assert any(call["tool"] == "mcp__mail__send" for call in seen["calls"])
    assert [token["state"] for token in seen["tokens"]] == ["valid"]
    assert [(day["tokens"], day["cost"]) for day in seen["usage"]] == [(900, 1.0)]
    assert seen["unread"] == 1
    assert desk("task_show", number=number)["usage"] == {"tokens": 900, "cost": 1.0}
