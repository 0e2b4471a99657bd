"""Each behaviour of the test agent ends as described, within bounds, and leaves no process (see the fixture)."""

from __future__ import annotations

import json
import signal
import sys

import pytest

from tests.runner.support import FILES, PATIENCE, EndedRun, Project, wait_until
from tests.transports.attacks import attack

DONE = [(f"make {name}", "completed") for name in FILES]
MADE = {name: f"content of {name}\n" for name in FILES}


@pytest.fixture(scope="module")
def good_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, EndedRun]:
    """A project in which a good agent has done everything."""
    project = Project(tmp_path_factory.mktemp("good") / "project")
    return project, project.run("good", "--extra", "Be brief.")


def test_good_agent_plans_works_and_completes_with_verification(good_run: tuple[Project, EndedRun]):
    project, ran = good_run
    assert (ran.code, ran.list_events("run_ended")[0]["state"]) == (0, "completed")
    assert project.list_tasks() == DONE
    assert project.read_made_files() == MADE
    assert [each.summary for each in project.list_iterations()] == [
        "planned 3 tasks", "did TAS-1", "did TAS-2", "did TAS-3",
    ]  # fmt: skip
    row = project.read_run()
    assert (row.state, row.process, row.iteration) == ("completed", None, 3)
    assert "all of 3 tasks are settled and 1 acceptance command passed" in (row.reason or "")


def test_the_prompt_plans_first_and_then_carries_tasks_notes_and_history(good_run: tuple[Project, EndedRun]):
    project, _ = good_run
    first, second, *_, last = [facts["text"] for facts in project.read_journal("session/prompt")]
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


@attack("ACP-02")
def test_the_agent_gets_its_tools_as_an_http_server_with_a_list_of_headers(good_run: tuple[Project, EndedRun]):
    project, _ = good_run
    servers = project.read_journal("session/new")[0]["mcpServers"]
    assert len(servers) == 1
    server = servers[0]
    assert (server["type"], server["name"]) == ("http", "shopfloor")
    assert server["url"].startswith("http://127.0.0.1:")
    assert server["url"].endswith("/mcp")
    assert isinstance(server["headers"], list)
    assert [sorted(header) for header in server["headers"]] == [["name", "value"]]


@pytest.mark.parametrize("behaviour", ["nonsense", "late", "dies_once", "leaves_children"])
def test_unusual_agents_complete_their_run(project: Project, behaviour: str):
    ran = project.run(behaviour)
    assert (ran.code, project.list_tasks(), project.read_made_files()) == (0, DONE, MADE)


def test_an_agent_whose_texts_cannot_be_stored_completes_its_run(project: Project):
    ran = project.run("sends_unstorable_text", "--permissions", "allow")
    assert (ran.code, project.list_tasks(), project.read_made_files()) == (0, DONE, MADE)
    assert project.list_iterations()[0].failure == "the agent rejected session/prompt: trouble \ufffd \ufffd"
    assert "words \ufffd \ufffd" in project.run_command("runs", "transcript", "run").stdout
    assert "Text must not contain the NUL character" in project.read_journal("write")[0]["message"]


@attack("ACP-01")
def test_a_line_of_5_mb_from_the_agent_is_read(project: Project):
    ran = project.run("huge")
    assert (ran.code, project.list_tasks(), project.read_made_files()) == (0, DONE, MADE)


def test_a_run_works_the_same_on_postgresql(project: Project, postgres_database: str):
    (project.root / "shopfloor.toml").write_text(f'database = "{postgres_database}"\n')
    ran = project.run("dies_once")
    assert (ran.code, project.list_tasks(), project.read_made_files()) == (0, DONE, MADE)
    assert not (project.root / ".shopfloor" / "shopfloor.db").exists()


def test_agent_that_ignores_end_of_input_and_signals_is_killed(project: Project):
    ran = project.run("ignores_the_end", "--grace", "1s")
    assert (ran.code, project.list_tasks()) == (0, DONE)
    assert project.list_live_processes() == []


def test_an_agent_that_stays_after_the_end_of_its_input_is_signalled_at_once(project: Project):
    # Some agents do not end with their input. They used to get all of --grace at each end of a run.
    assert project.run("stays_after_the_end", "--grace", f"{2 * PATIENCE}s").code == 0


def test_an_agent_that_dies_is_restarted_until_it_keeps_failing(project: Project):
    ran = project.run("dies")
    assert ran.code == 5
    assert ran.reason.startswith(
        "the same failure occurred 4 times: the agent ended with exit code 3 during session/prompt"
    )
    assert "shopfloor run --resume run" in ran.reason
    assert [each.outcome for each in project.list_iterations()] == ["failed"] * 4
    assert [event["why"] for event in ran.list_events("waiting")][:3] == ["another attempt after a failure"] * 3


def test_an_agent_that_cannot_start_uses_up_no_iteration(project: Project):
    ran = project.run("dies_at_start")
    assert ran.code == 5
    assert "exit code 9" in ran.reason
    assert "no such model" in ran.reason
    assert project.list_iterations() == []


def test_a_run_without_an_acceptance_command_starts_with_a_warning(project: Project):
    ran = project.run("dies_at_start", verify=None)
    assert [event["text"] for event in ran.events if event["event"] == "warning"] == [
        "no acceptance command: only the agent decides that it is done; add --verify 'make test'"
    ]


def test_an_agent_without_a_handshake_ends_the_run(project: Project):
    ran = project.run("hangs_at_start", "--handshake", "0.5s")
    assert ran.code == 5
    assert "did not answer initialize within 0.5 s" in ran.reason


def test_an_agent_with_another_protocol_version_ends_the_run(project: Project):
    ran = project.run("speaks_another_version")
    assert ran.code == 5
    assert "version 99" in ran.reason


def test_agent_that_never_ends_its_turn_is_killed_at_the_time_limit(project: Project):
    ran = project.run("hangs", "--iteration-time", "0.5s", "--no-progress", "1", "--grace", "0.5s")
    assert ran.code == 4
    assert [each.outcome for each in project.list_iterations()] == ["out_of_time"] * 2
    assert "the iteration took too long" in ran.reason


def test_after_a_cancel_any_stop_reason_counts_as_cancelled(project: Project):
    ran = project.run("stops_when_cancelled", "--iteration-time", "0.5s", "--iterations", "1", "--grace", "100s")
    assert ran.code == 3
    assert [each.outcome for each in project.list_iterations()] == ["out_of_time"]
    assert len(ran.list_events("agent_ready")) == 1


def test_a_turn_above_the_size_limit_is_an_error(project: Project):
    ran = project.run("floods", "--iterations", "1")
    assert ran.code == 3
    [iteration] = project.list_iterations()
    assert (iteration.outcome, iteration.failure) == ("failed", "the agent sent more than 256 MiB in one turn")
    assert "Traceback" not in ran.err


def test_a_line_above_the_size_limit_is_an_error(project: Project):
    ran = project.run("endless_line", "--iterations", "1")
    assert ran.code == 3
    [iteration] = project.list_iterations()
    assert (iteration.outcome, iteration.failure) == ("failed", "the agent sent a line of more than 64 MiB")


def test_false_completion_claim_does_not_end_the_run(project: Project):
    ran = project.run("lies")
    assert ran.code == 4
    assert "not verified" in ran.reason
    assert "exit code 1" in ran.reason
    assert "The end of its output" not in ran.reason
    said = project.read_journal("session-complete")
    assert {facts["good"] for facts in said} == {False}
    assert said[0]["said"].startswith("error: TAS-2 is remaining\n")
    assert said[-1]["said"].startswith("error: the session is not complete: ")
    assert "FileNotFoundError" in said[-1]["said"]
    assert "The work was checked and is not done yet" in project.read_journal("session/prompt")[-1]["text"]
    assert "Attention: the last 3 iterations" in project.read_journal("session/prompt")[-1]["text"]


def test_repeating_earlier_states_is_not_progress(project: Project):
    ran = project.run("loops")
    assert ran.code == 4
    assert "no task has moved" in ran.reason
    prompts = [facts["text"] for facts in project.read_journal("session/prompt")]
    assert ["Attention: " in text for text in prompts] == [False] * (len(prompts) - 1) + [True]
    with project.open_server() as shopfloor:
        [mail] = shopfloor.call("desk", "inbox_list")["mails"]
    assert (mail["subject"], "shopfloor run --resume run" in mail["body"]) == ("Run run ended: stopped", True)


@pytest.mark.parametrize(("behaviour", "reason"), [("refuses", "refusal"), ("runs_out_of_tokens", "max_tokens")])
def test_early_ends_are_repeated_up_to_a_limit(project: Project, behaviour: str, reason: str):
    ran = project.run(behaviour)
    assert ran.code == 4
    assert f"the agent stopped early: {reason}" in ran.reason


def test_reported_usage_counts_against_the_budgets(project: Project):
    ran = project.run("uses_up", "--tokens", "1700")
    assert ran.code == 3
    assert ran.reason == (
        "the budget of 1700 tokens is used up (1800). Continue: shopfloor run --resume run --tokens 3600"
    )
    assert (project.read_run().tokens, project.read_run().cost) == (1800, 500_000)
    ended = project.resume("--tokens", "100000", "--cost", "0.6").finish()
    assert ended[0] == 3
    assert "the budget of 0.6 is used up (0.7500)" in ended[1]


def test_iterations_and_time_have_budgets(project: Project):
    assert project.run("good", "--iterations", "2").reason == (
        "the budget of 2 iterations is used up. Continue: shopfloor run --resume run --iterations 4"
    )
    code, out, _ = project.resume("--iterations", "50", "--time", "0.001s").finish()
    assert code == 3
    assert "s is used up. Continue: shopfloor run --resume run --time" in out
    code, out, _ = project.resume("--time", "1h").finish()
    assert (code, project.list_tasks()) == (0, DONE)


def test_file_requests_pass_the_path_gate(project: Project):
    (project.root / ".env").write_text("SECRET=1\n")
    (project.root / "link").symlink_to("/etc/hostname")
    assert project.run("uses_files", "--permissions", "allow").code == 0
    files = project.read_journal("files")[0]
    assert files["read"] == {"content": "one\ntwo\nthree\n"}
    assert files["line"] == {"content": "two\n"}
    for refused in ("secret", "outside", "up", "link", "data"):
        assert files[refused]["code"] == -32000, refused
    # Gemini reads a file before it writes it, and takes every error for fatal: a missing file reads as empty.
    assert files["missing"] == {"content": ""}


def test_unknown_requests_of_the_agent_get_a_protocol_error(project: Project):
    project.run("late")
    assert project.read_journal("unknown request")[0]["answer"]["code"] == -32601


@attack("LIF-02")
def test_a_terminated_run_still_serves_its_agents_last_call(project: Project):
    run = project.start("last_call", "--grace", "100s")
    run.wait_for_event("tool_call")
    run.process.send_signal(signal.SIGTERM)
    code, out, _ = run.finish()
    assert code == 143
    assert [facts["good"] for facts in project.read_journal("last call")] == [True]
    assert "my last words" in project.list_notes()
    assert json.loads(out.splitlines()[-1])["state"] == "stopped"
    assert project.list_live_processes() == []


@pytest.mark.parametrize(
    ("sign", "code", "why"),
    [(signal.SIGINT, 130, "it was interrupted"), (signal.SIGHUP, 129, "its terminal was closed")],
)
def test_interrupted_run_reports_its_reason(project: Project, sign: signal.Signals, code: int, why: str):
    hook = [sys.executable, "-c", "import sys; open('ended.json', 'w').write(sys.stdin.read())"]
    (project.root / "shopfloor.toml").write_text(f"[hooks]\nsession_end = [{{command = {hook!r}}}]")
    run = project.start("stops_when_cancelled")
    run.wait_for_event("iteration_started")
    wait_until(lambda: project.read_journal("session/prompt"))
    run.process.send_signal(sign)
    assert run.finish()[0] == code
    assert json.loads((project.root / "ended.json").read_text())["state"] == "stopped"
    assert (project.read_run().reason or "").startswith(why)


def test_a_stop_does_not_wait_for_a_silent_agent(project: Project):
    run = project.start("hangs_at_start", "--handshake", "1h", "--grace", "0.5s")
    run.wait_for_event("run_started")
    run.process.send_signal(signal.SIGTERM)
    assert run.finish()[0] == 143
    assert project.read_run().state == "stopped"


def test_a_stop_does_not_wait_for_a_verification(project: Project):
    # It passes quickly before the run begins, when there is no file yet.
    script = "import pathlib, time; pathlib.Path('three.txt').exists() and time.sleep(1000)"
    run = project.start("good", verify=f'{sys.executable} -c "{script}"')
    wait_until(lambda: project.read_journal("session/prompt")[3:])
    run.process.send_signal(signal.SIGTERM)
    assert run.finish()[0] == 143


def test_a_second_signal_does_not_wait(project: Project):
    run = project.start("hangs", "--grace", "1h")
    wait_until(lambda: project.read_journal("session/prompt"))
    run.process.send_signal(signal.SIGTERM)
    wait_until(lambda: project.read_journal("session/cancel"))
    run.process.send_signal(signal.SIGTERM)
    assert run.finish()[0] == 143
