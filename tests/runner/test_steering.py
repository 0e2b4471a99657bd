"""Users watch and steer a run in progress, and answer its questions."""

from __future__ import annotations

import json
import sys

import pytest

from tests.runner.support import FILES, Project, create_repository, wait_until

DONE = [(f"make {name}", "completed") for name in FILES]


def test_a_message_to_a_run_is_in_its_next_prompt(project: Project):
    run = project.start("patient")
    run.wait_for_event("iteration_started")
    assert project.run_command("say", "run", "Use tabs, please.").returncode == 0
    project.release_agent()
    assert run.finish()[0] == 0
    included = [
        "operator:operator says: Use tabs, please." in facts["text"] for facts in project.read_journal("session/prompt")
    ]
    assert included.count(True) == 1


def test_a_paused_run_waits_until_it_is_resumed(project: Project):
    run = project.start("patient")
    run.wait_for_event("iteration_started")
    assert "pauses after its current iteration" in project.run_command("pause", "run").stdout
    project.release_agent()
    run.wait_for_event("paused")
    assert json.loads(project.run_command("runs", "--json").stdout)["runs"][0]["state"] == "paused"
    assert project.run_command("resume", "run").returncode == 0
    assert run.finish()[0] == 0
    assert project.list_tasks() == DONE


def test_a_stopped_run_ends_its_turn_and_can_be_resumed(project: Project):
    run = project.start("loads", "--grace", "0.5s")
    wait_until(lambda: project.read_journal("session/prompt"))
    assert project.run_command("stop", "run").stdout == "run stops\n"
    code, out, _ = run.finish()
    assert code == 6
    assert json.loads(out.splitlines()[-1])["reason"] == "a person stopped it. Continue: shopfloor run --resume run"
    failed = project.run_command("say", "missing", "hello")
    assert (failed.returncode, failed.stderr.splitlines()[0]) == (1, "shopfloor: Run 'missing' not found")
    failed = project.run_command("pause", "run")
    assert failed.returncode == 1
    assert "shopfloor run --resume run" in failed.stderr
    assert project.resume().finish()[0] == 0
    assert project.list_tasks() == DONE


def test_user_answers_a_permission_request_by_command_or_desk(project: Project):
    run = project.start("asks")
    question = "May the agent edit: write files?"

    number = run.wait_for_event("permission_asked")["number"]
    assert question in project.run_command("runs").stdout
    listed = project.run_command("inbox").stdout
    assert f"Answer: shopfloor inbox answer request-{number} allow | always | deny" in listed
    assert "permission" in listed
    failed = project.run_command("runs", "answer", str(number), "perhaps")
    assert (failed.returncode, "allow or always or deny" in failed.stderr) == (1, True)
    assert project.run_command("runs", "answer", str(number), "allow").returncode == 0

    number = run.wait_for_event("permission_asked")["number"]
    [request] = json.loads(project.run_command("inbox", "--json").stdout)["requests"]
    assert (request["request"], request["run"], request["kind"]) == (number, "run", "permission")
    assert (request["question"], request["options"]) == (question, ["allow", "always", "deny"])
    [line] = [line for line in project.run_command("inbox").stdout.splitlines() if question in line]
    assert line.startswith(f"request-{number} ")
    assert question in project.run_command("inbox", "read", f"request-{number}").stdout
    assert (
        project.run_command("inbox", "answer", f"request-{number}", "allow").stdout
        == f"request-{number} answered: allow\n"
    )

    number = run.wait_for_event("permission_asked")["number"]
    with project.open_server() as shopfloor:
        [waiting] = shopfloor.call("desk", "inbox_list")["requests"]
        assert (
            shopfloor.call("desk", "inbox_decide", {"request": waiting["request"], "answer": "always"})["answer"]
            == "always"
        )

    assert run.finish()[0] == 0
    assert [facts["outcome"]["optionId"] for facts in project.read_journal("permission")] == ["opt-5", "opt-5", "opt-3"]
    again = project.run_command("inbox", "answer", "request-1", "deny")
    assert (again.returncode, "already answered" in again.stderr) == (1, True)
    assert project.run_command("inbox").stdout == "Nothing is waiting for you.\n"
    assert project.run_command("inbox", "read", "request-1").returncode == 1


def test_unanswered_permission_request_is_denied_at_its_timeout(project: Project):
    ran = project.run("asks", "--permission-time", "0.2s", "--iterations", "2")
    assert ran.code == 3
    assert project.read_journal("permission") == [{"outcome": {"outcome": "selected", "optionId": "opt-9"}}]
    assert project.run_command("runs").stdout.count("May the agent") == 0


def test_stop_withdraws_the_permission_request(project: Project):
    run = project.start("asks")
    run.wait_for_event("permission_asked")
    project.run_command("stop", "run")
    assert run.finish()[0] == 6
    assert project.run_command("runs").stdout.count("May the agent") == 0


def test_rules_answer_by_kind_and_path(project: Project):
    (project.root / "shopfloor.toml").write_text(
        '[[run_permissions]]\nkind = "edit"\nanswer = "allow"\n[[run_permissions]]\nanswer = "deny"\n'
    )
    assert project.run("asks", "--permissions", "rules").code == 0
    assert [facts["outcome"]["optionId"] for facts in project.read_journal("permission")] == ["opt-5"] * 3


def test_the_answer_to_a_stuck_note_is_in_the_next_prompt(project: Project):
    run = project.start("gets_stuck", "--no-progress", "1000", "--iterations", "1000")
    asked = run.wait_for_event("asked")
    assert (asked["kind"], asked["question"]) == ("stuck", "which colour?")
    assert asked["how"] == f"shopfloor inbox answer request-{asked['number']} TEXT"
    listed = json.loads(project.run_command("runs", "--json").stdout)["questions"]
    assert [(each["run"], each["text"], each["answers"]) for each in listed] == [("run", "which colour?", "a text")]
    [request] = json.loads(project.run_command("inbox", "--json").stdout)["requests"]
    assert (request["kind"], request["question"], request["options"]) == ("stuck", "which colour?", [])
    with project.open_server() as shopfloor:
        assert shopfloor.call("desk", "inbox_count")["waiting"] == 1
    assert project.run_command("inbox", "answer", f"request-{request['request']}", "blue").returncode == 0
    assert run.finish()[0] == 0
    assert any("About 'which colour?': blue" in facts["text"] for facts in project.read_journal("session/prompt"))
    assert "blue it is" in project.list_notes()


def test_hooks_run_on_their_events_and_can_send_text_to_the_agent(project: Project):
    script = project.root / "hook.py"
    script.write_text(
        "import json, os, sys\n"
        "facts = json.load(sys.stdin)\n"
        "open('hooks.log', 'a').write(facts['event'] + ' ' + os.environ.get('LOOP_TASK', '-') + '\\n')\n"
        "print('the hook says hello')\n"
        "sys.exit(3 if facts['event'] == 'post_iteration' else 0)\n"
    )
    moments = ("session_start", "pre_iteration", "post_iteration", "on_task_complete", "session_end")
    lines = ["[hooks]"]
    lines += [f"{moment} = [{{command = [{sys.executable!r}, 'hook.py'], to_agent = true}}]" for moment in moments]
    (project.root / "shopfloor.toml").write_text("\n".join(lines))
    assert project.run("good").code == 0
    log = (project.root / "hooks.log").read_text().splitlines()
    assert log[:3] == ["session_start -", "pre_iteration -", "post_iteration -"]
    assert [line for line in log if line.startswith("on_task")] == [f"on_task_complete TAS-{n}" for n in (1, 2, 3)]
    assert log[-1] == "session_end -"
    assert "hook:\nthe hook says hello" in project.read_journal("session/prompt")[0]["text"]


def test_failing_agent_runs_the_error_hook(project: Project):
    hook = [sys.executable, "-c", "import sys; open('errors.log', 'a').write(sys.stdin.read())"]
    (project.root / "shopfloor.toml").write_text(f"[hooks]\non_error = [{{command = {hook!r}}}]")
    assert project.run("dies_once").code == 0
    entries = [json.loads(line) for line in (project.root / "errors.log").read_text().splitlines()]
    assert [entry["failure"].splitlines()[0] for entry in entries] == [
        "the agent ended with exit code 4 during session/prompt"
    ]


def test_hanging_hook_is_killed(project: Project):
    hook = [sys.executable, "-c", "import time; time.sleep(1000)"]
    (project.root / "shopfloor.toml").write_text(f"[hooks]\nsession_start = [{{command = {hook!r}, seconds = 0.5}}]")
    ran = project.run("good")
    assert (ran.code, ran.list_events("hook")[0]["exit"]) == (0, None)


def test_each_iteration_is_committed_with_only_the_changes_of_the_agent(project: Project):
    git = create_repository(project.root)
    (project.root / "mine.txt").write_text("staged by a person\n")
    git("add", "mine.txt")
    (project.root / "other.txt").write_text("not staged\n")
    assert project.run("good", "--commit").code == 0
    subjects = git("log", "--format=%s", "--reverse").splitlines()
    assert subjects == ["begin", "run: iteration 1", "run: iteration 2", "run: iteration 3"]
    assert git("show", "--name-only", "--format=", "HEAD").split() == ["three.txt"]
    assert "did TAS-3" in git("log", "-1", "--format=%b")
    left = git("status", "--porcelain").splitlines()
    assert "A  mine.txt" in left
    assert "?? other.txt" in left


def test_without_a_repository_no_commit_is_made(project: Project):
    ran = project.run("good", "--commit")
    assert ran.code == 1
    assert "not a git repository" in ran.err


def test_acceptance_command_of_a_task_must_pass(project: Project):
    run = project.start("patient", "--iterations", "6")
    run.wait_for_event("iteration_started")
    assert project.run_command("pause", "run").returncode == 0
    project.release_agent()
    run.wait_for_event("paused")
    assert (
        project.run_command("runs", "accept", "run", "TAS-2", f"{sys.executable} -c 'raise SystemExit(7)'").returncode
        == 0
    )
    assert project.run_command("resume", "run").returncode == 0
    code, out, _ = run.finish()
    assert code in (3, 4)
    assert "exit code 7" in out
    assert project.run_command("runs", "accept", "run", "TAS-2").stdout == "TAS-2: no command\n"
    assert project.resume("--iterations", "20").finish()[0] == 0


@pytest.mark.parametrize(("answer", "ran"), [("allow", True), ("deny", False)])
def test_proposed_command_runs_only_after_approval(project: Project, answer: str, ran: bool):
    proof = project.root / "pro ved"
    run = project.start("proposes", verify=None)
    run.wait_for_event("iteration_ended")
    [request] = json.loads(project.run_command("inbox", "--json").stdout)["requests"]
    assert (request["kind"], request["options"]) == ("acceptance", ["allow", "deny"])
    assert request["question"] == "May this command prove TAS-1 done? touch 'pro ved'"
    assert not proof.exists()
    assert project.run_command("inbox", "answer", f"request-{request['request']}", answer).returncode == 0
    project.release_agent()
    assert run.finish()[0] == 0
    assert proof.exists() is ran
    verdict = "was approved and has to pass" if ran else "was not approved and does not count"
    assert any(
        f"The acceptance command of TAS-1 {verdict}." in f["text"] for f in project.read_journal("session/prompt")
    )


def test_proposed_command_without_an_answer_never_runs(project: Project):
    project.release_agent()
    assert project.run("proposes", verify=None).code == 0
    assert not (project.root / "pro ved").exists()
    assert project.run_command("inbox").stdout == "Nothing is waiting for you.\n"


def test_several_runs_share_one_store(project: Project):
    first = project.start("slow", name="first")
    second = project.start("slow", name="second")
    assert (first.finish()[0], second.finish()[0]) == (0, 0)
    assert [title for title, _ in project.list_tasks("first")] == [title for title, _ in project.list_tasks("second")]
    rows = json.loads(project.run_command("runs", "--json").stdout)["runs"]
    assert {(row["run"], row["state"], row["tasks"]) for row in rows} == {
        ("first", "completed", "3/3"), ("second", "completed", "3/3"),
    }  # fmt: skip


def test_one_process_at_a_time_drives_a_run(project: Project):
    run = project.start("stops_when_cancelled")
    run.wait_for_event("iteration_started")
    code, _, err = project.resume().finish()
    assert (code, "driven by another process" in err) == (1, True)
    project.run_command("stop", "run")
    assert run.finish()[0] == 6
