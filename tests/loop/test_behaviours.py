"""Each manner of the test agent ends as described, within bounds, with nothing left running (see the fixture)."""

from __future__ import annotations

import json
import signal
import sys

import pytest

from tests.loop.support import FILES, PATIENCE, Project, Ran, until

DONE = [(f"make {name}", "completed") for name in FILES]
MADE = {name: f"content of {name}\n" for name in FILES}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, Ran]:
    """A project in which a good agent has done everything."""
    project = Project(tmp_path_factory.mktemp("good") / "project")
    return project, project.run("good", "--extra", "Be brief.")


def test_a_good_agent_goes_from_planning_to_verified_completion(good: tuple[Project, Ran]):
    project, ran = good
    assert (ran.code, ran.named("run_ended")[0]["state"]) == (0, "completed")
    assert project.tasks() == DONE
    assert project.made() == MADE
    assert [each.summary for each in project.iterations()] == [
        "planned 3 tasks", "did TAS-1", "did TAS-2", "did TAS-3",
    ]  # fmt: skip
    row = project.row()
    assert (row.state, row.process, row.iteration) == ("completed", None, 3)
    assert "all of 3 tasks are settled and 1 acceptance commands passed" in (row.reason or "")


def test_the_prompt_plans_first_and_then_carries_tasks_notes_and_history(good: tuple[Project, Ran]):
    project, _ = good
    first, second, *_, last = [facts["text"] for facts in project.journal("session/prompt")]
    assert "planning iteration" in first
    assert "There are no tasks yet." in first
    assert "Be brief." in first
    assert "planning iteration" not in second
    assert "TAS-1 [remaining, priority 2] make one.txt" in second
    assert "3 files are wanted" in second
    assert "Iteration 0: planned 3 tasks" in second
    assert "Iteration 2: did TAS-2" in last
    for section in ("## Rules", "## Workflow", "## If Stuck", "## Subagents"):
        assert section in first
    assert "shopfloor tool" not in first
    assert "shopfloor run" not in first


def test_the_agent_gets_its_tools_as_an_http_server_with_a_list_of_headers(good: tuple[Project, Ran]):
    project, _ = good
    servers = project.journal("session/new")[0]["mcpServers"]
    assert len(servers) == 1
    server = servers[0]
    assert (server["type"], server["name"]) == ("http", "shopfloor")
    assert server["url"].startswith("http://127.0.0.1:")
    assert server["url"].endswith("/mcp")
    assert isinstance(server["headers"], list)
    assert [sorted(header) for header in server["headers"]] == [["name", "value"]]


@pytest.mark.parametrize("behaviour", ["nonsense", "late", "huge", "dies_once", "leaves_children"])
def test_odd_agents_come_through_all_the_same(project: Project, behaviour: str):
    ran = project.run(behaviour)
    assert (ran.code, project.tasks(), project.made()) == (0, DONE, MADE)


def test_a_run_on_postgresql_goes_the_same_way(project: Project, postgres_database: str):
    (project.root / "shopfloor.toml").write_text(f'database = "{postgres_database}"\n')
    ran = project.run("dies_once")
    assert (ran.code, project.tasks(), project.made()) == (0, DONE, MADE)
    assert not (project.root / ".shopfloor" / "shopfloor.db").exists()


def test_an_agent_that_ignores_the_end_of_its_input_and_signals_is_ended(project: Project):
    ran = project.run("ignores_the_end", "--grace", "1s")
    assert (ran.code, project.tasks()) == (0, DONE)
    assert project.left_over() == []


def test_an_agent_that_dies_is_started_again_until_it_is_no_use(project: Project):
    ran = project.run("dies")
    assert ran.code == 5
    assert ran.reason.startswith(
        "the same failure came 4 times: the agent ended with exit code 3 during session/prompt"
    )
    assert "shopfloor run --resume run" in ran.reason
    assert [each.outcome for each in project.iterations()] == ["failed"] * 4


def test_an_agent_that_cannot_start_uses_up_no_iteration(project: Project):
    ran = project.run("dies_at_start")
    assert ran.code == 5
    assert "exit code 9" in ran.reason
    assert "no such model" in ran.reason
    assert project.iterations() == []


def test_a_command_that_does_not_exist_is_named(project: Project):
    run = project.popen("run", "--spec", "SPEC.md", "--headless", "--agent", "no-such-agent --acp")
    out, _ = run.communicate(timeout=PATIENCE)
    assert run.returncode == 5
    assert "no-such-agent: No such file or directory" in out


def test_an_agent_that_never_says_hello_is_given_up(project: Project):
    ran = project.run("hangs_at_start", "--handshake", "0.5s")
    assert ran.code == 5
    assert "did not answer initialize within 0.5 s" in ran.reason


def test_an_agent_of_another_protocol_is_given_up(project: Project):
    ran = project.run("speaks_another_version")
    assert ran.code == 5
    assert "version 99" in ran.reason


def test_an_agent_that_never_ends_its_turn_is_ended_after_its_time(project: Project):
    ran = project.run("hangs", "--iteration-time", "0.5s", "--no-progress", "1", "--grace", "0.5s")
    assert ran.code == 4
    assert [each.outcome for each in project.iterations()] == ["out_of_time"] * 2
    assert "the iteration took too long" in ran.reason


def test_after_a_cancel_any_stop_reason_counts_as_cancelled(project: Project):
    ran = project.run("stops_when_cancelled", "--iteration-time", "0.5s", "--iterations", "1", "--grace", "100s")
    assert ran.code == 3
    assert [each.outcome for each in project.iterations()] == ["out_of_time"]
    assert len(ran.named("agent_ready")) == 1


def test_a_flood_is_named_and_stopped(project: Project):
    ran = project.run("floods", "--iterations", "1")
    assert ran.code == 3
    [iteration] = project.iterations()
    assert (iteration.outcome, iteration.failure) == ("failed", "the agent sent more than 256 MiB in one turn")
    assert "Traceback" not in ran.err


def test_an_endless_line_is_named_and_stopped(project: Project):
    ran = project.run("endless_line", "--iterations", "1")
    assert ran.code == 3
    [iteration] = project.iterations()
    assert (iteration.outcome, iteration.failure) == ("failed", "the agent sent a line of more than 64 MiB")


def test_a_lie_about_completion_ends_no_run(project: Project):
    ran = project.run("lies")
    assert ran.code == 4
    assert "not verified" in ran.reason
    assert "exit code 1" in ran.reason
    said = project.journal("session-complete")
    assert not any(facts["good"] for facts in said)
    assert said[0]["said"].startswith("error: TAS-2 is remaining\n")
    assert said[-1]["said"].startswith("error: the session is not complete: ")
    assert "FileNotFoundError" in said[-1]["said"]
    assert "The work was checked and is not done yet" in project.journal("session/prompt")[-1]["text"]
    assert "Attention: the last 3 iterations" in project.journal("session/prompt")[-1]["text"]


def test_going_in_circles_is_no_progress(project: Project):
    ran = project.run("loops")
    assert ran.code == 4
    assert "no task has moved" in ran.reason
    prompts = [facts["text"] for facts in project.journal("session/prompt")]
    assert ["Attention: " in text for text in prompts] == [False] * (len(prompts) - 1) + [True]


@pytest.mark.parametrize(("behaviour", "reason"), [("refuses", "refusal"), ("runs_out_of_tokens", "max_tokens")])
def test_early_ends_are_repeated_only_so_often(project: Project, behaviour: str, reason: str):
    ran = project.run(behaviour)
    assert ran.code == 4
    assert f"the agent stopped early: {reason}" in ran.reason


def test_reported_usage_counts_against_the_budgets(project: Project):
    ran = project.run("uses_up", "--tokens", "1500")
    assert ran.code == 3
    assert ran.reason == (
        "the budget of 1500 tokens is used up (1800). Go on: shopfloor run --resume run --tokens 3600"
    )
    assert (project.row().tokens, project.row().cost) == (1800, 500_000)
    ended = project.resume("--tokens", "100000", "--cost", "0.6").finish()
    assert ended[0] == 3
    assert "the budget of 0.6 is used up (0.7500)" in ended[1]


def test_iterations_and_time_are_budgets(project: Project):
    assert project.run("good", "--iterations", "2").reason == (
        "the budget of 2 iterations is used up. Go on: shopfloor run --resume run --iterations 4"
    )
    code, out, _ = project.resume("--iterations", "50", "--time", "0.001s").finish()
    assert code == 3
    assert "s is used up. Go on: shopfloor run --resume run --time" in out
    code, out, _ = project.resume("--time", "1h").finish()
    assert (code, project.tasks()) == (0, DONE)


def test_file_requests_go_through_the_gate(project: Project):
    (project.root / ".env").write_text("SECRET=1\n")
    (project.root / "link").symlink_to("/etc/hostname")
    assert project.run("uses_files").code == 0
    files = project.journal("files")[0]
    assert files["read"] == {"content": "one\ntwo\nthree\n"}
    assert files["line"] == {"content": "two\n"}
    for refused in ("secret", "outside", "up", "link", "data"):
        assert files[refused]["code"] == -32000, refused
    assert files["missing"]["code"] == -32002


def test_unknown_requests_of_the_agent_are_refused_in_good_manner(project: Project):
    project.run("late")
    assert project.journal("unknown request")[0]["answer"]["code"] == -32601


def test_a_terminated_run_hears_its_agents_last_call(project: Project):
    run = project.start("last_call", "--grace", "100s")
    run.until("tool_call")
    run.process.send_signal(signal.SIGTERM)
    code, out, _ = run.finish()
    assert code == 0
    assert [facts["good"] for facts in project.journal("last call")] == [True]
    assert "my last words" in project.notes()
    assert json.loads(out.splitlines()[-1])["state"] == "stopped"
    assert project.left_over() == []


def test_an_interrupted_run_says_so(project: Project):
    run = project.start("stops_when_cancelled")
    run.until("iteration_started")
    until(lambda: project.journal("session/prompt"))
    run.process.send_signal(signal.SIGINT)
    assert run.finish()[0] == 130


def test_a_stop_does_not_wait_for_a_silent_agent(project: Project):
    run = project.start("hangs_at_start", "--handshake", "1h", "--grace", "0.5s")
    run.until("run_started")
    run.process.send_signal(signal.SIGTERM)
    assert run.finish()[0] == 0
    assert project.row().state == "stopped"


def test_a_stop_does_not_wait_for_a_verification(project: Project):
    run = project.start("good", verify=f"{sys.executable} -c 'import time; time.sleep(1000)'")
    until(lambda: project.journal("session/prompt")[3:])
    run.process.send_signal(signal.SIGTERM)
    assert run.finish()[0] == 0


def test_a_second_signal_does_not_wait(project: Project):
    run = project.start("hangs", "--grace", "1h")
    until(lambda: project.journal("session/prompt"))
    run.process.send_signal(signal.SIGTERM)
    until(lambda: project.journal("session/cancel"))
    run.process.send_signal(signal.SIGTERM)
    assert run.finish()[0] == 0
