"""People watch, answer and steer a run while it goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.loop.support import FILES, Project, until

DONE = [(f"make {name}", "completed") for name in FILES]


def test_what_is_said_to_a_run_stands_in_its_next_prompt(project: Project):
    run = project.start("patient")
    run.until("iteration_started")
    assert project.cli("say", "run", "Use tabs, please.").returncode == 0
    project.let_go()
    assert run.finish()[0] == 0
    told = ["operator:operator says: Use tabs, please." in facts["text"] for facts in project.journal("session/prompt")]
    assert told.count(True) == 1


def test_a_paused_run_waits_and_goes_on(project: Project):
    run = project.start("patient")
    run.until("iteration_started")
    assert "pauses after its current iteration" in project.cli("pause", "run").stdout
    project.let_go()
    run.until("paused")
    assert json.loads(project.cli("runs", "--json").stdout)["runs"][0]["state"] == "paused"
    assert project.cli("resume", "run").returncode == 0
    assert run.finish()[0] == 0
    assert project.tasks() == DONE


def test_a_stopped_run_ends_its_turn_and_can_be_taken_up_again(project: Project):
    run = project.start("loads", "--grace", "0.5s")
    until(lambda: project.journal("session/prompt"))
    assert project.cli("stop", "run").stdout == "run stops\n"
    code, out, _ = run.finish()
    assert code == 6
    assert json.loads(out.splitlines()[-1])["reason"] == "a person stopped it. Go on: shopfloor run --resume run"
    refused = project.cli("say", "nobody", "hello")
    assert (refused.returncode, refused.stderr.splitlines()[0]) == (1, "shopfloor: There is no run 'nobody'")
    refused = project.cli("pause", "run")
    assert refused.returncode == 1
    assert "shopfloor run --resume run" in refused.stderr
    assert project.resume().finish()[0] == 0
    assert project.tasks() == DONE


def test_a_person_is_asked_and_answers_at_any_door(project: Project):
    run = project.start("asks")
    question = "May the agent edit: write files?"

    number = run.until("permission_asked")["number"]
    assert question in project.cli("runs").stdout
    refused = project.cli("runs", "answer", str(number), "perhaps")
    assert (refused.returncode, "allow or always or deny" in refused.stderr) == (1, True)
    assert project.cli("runs", "answer", str(number), "allow").returncode == 0

    number = run.until("permission_asked")["number"]
    [request] = json.loads(project.cli("inbox", "--json").stdout)["requests"]
    assert (request["request"], request["run"], request["kind"]) == (number, "run", "permission")
    assert (request["question"], request["options"]) == (question, ["allow", "always", "deny"])
    [line] = [line for line in project.cli("inbox").stdout.splitlines() if question in line]
    assert line.startswith(f"request-{number} ")
    assert question in project.cli("inbox", "read", f"request-{number}").stdout
    assert project.cli("inbox", "answer", f"request-{number}", "always").stdout == f"request-{number} is answered\n"

    number = run.until("permission_asked")["number"]
    with project.floor() as floor:
        [waiting] = floor.call("desk", "inbox_waiting")["requests"]
        assert (
            floor.call("desk", "inbox_decide", {"request": waiting["request"], "answer": "allow"})["answer"] == "allow"
        )

    assert run.finish()[0] == 0
    assert [facts["outcome"]["optionId"] for facts in project.journal("permission")] == ["opt-5", "opt-3", "opt-5"]
    again = project.cli("inbox", "answer", "request-1", "deny")
    assert (again.returncode, "answered already" in again.stderr) == (1, True)
    assert project.cli("inbox").stdout == "Nothing waits for you.\n"
    assert project.cli("inbox", "read", "request-1").returncode == 1


def test_a_question_that_nobody_answers_is_denied_after_a_while(project: Project):
    ran = project.run("asks", "--permission-time", "0.2s", "--iterations", "2")
    assert ran.code == 3
    assert project.journal("permission") == [{"outcome": {"outcome": "selected", "optionId": "opt-9"}}]
    assert project.cli("runs").stdout.count("May the agent") == 0


def test_a_stop_drops_the_question(project: Project):
    run = project.start("asks")
    run.until("permission_asked")
    project.cli("stop", "run")
    assert run.finish()[0] == 6
    assert project.cli("runs").stdout.count("May the agent") == 0


def test_rules_answer_by_kind_and_path(project: Project):
    (project.root / "shopfloor.toml").write_text(
        '[[run_permissions]]\nkind = "edit"\nanswer = "allow"\n[[run_permissions]]\nanswer = "deny"\n'
    )
    assert project.run("asks", "--permissions", "rules").code == 0
    assert [facts["outcome"]["optionId"] for facts in project.journal("permission")] == ["opt-5"] * 3


def test_a_stuck_note_asks_a_person_whose_answer_is_told(project: Project):
    run = project.start("gets_stuck", "--no-progress", "1000", "--iterations", "1000")
    asked = run.until("asked")
    assert (asked["kind"], asked["question"]) == ("stuck", "which colour?")
    assert asked["how"] == f"shopfloor inbox answer request-{asked['number']} TEXT"
    listed = json.loads(project.cli("runs", "--json").stdout)["questions"]
    assert [(each["run"], each["text"], each["answers"]) for each in listed] == [("run", "which colour?", "a text")]
    [request] = json.loads(project.cli("inbox", "--json").stdout)["requests"]
    assert (request["kind"], request["question"], request["options"]) == ("stuck", "which colour?", [])
    with project.floor() as floor:
        assert floor.call("desk", "inbox_count")["waiting"] == 1
    assert project.cli("inbox", "answer", f"request-{request['request']}", "blue").returncode == 0
    assert run.finish()[0] == 0
    assert any("About 'which colour?': blue" in facts["text"] for facts in project.journal("session/prompt"))
    assert "blue it is" in project.notes()


def test_hooks_run_at_their_moments_and_can_talk_to_the_agent(project: Project):
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
    assert "hook:\nthe hook says hello" in project.journal("session/prompt")[0]["text"]


def test_a_failing_agent_calls_the_error_hook(project: Project):
    hook = [sys.executable, "-c", "import sys; open('errors.log', 'a').write(sys.stdin.read())"]
    (project.root / "shopfloor.toml").write_text(f"[hooks]\non_error = [{{command = {hook!r}}}]")
    assert project.run("dies_once").code == 0
    entries = [json.loads(line) for line in (project.root / "errors.log").read_text().splitlines()]
    assert [entry["failure"].splitlines()[0] for entry in entries] == [
        "the agent ended with exit code 4 during session/prompt"
    ]


def test_a_hook_that_hangs_is_ended(project: Project):
    hook = [sys.executable, "-c", "import time; time.sleep(1000)"]
    (project.root / "shopfloor.toml").write_text(f"[hooks]\nsession_start = [{{command = {hook!r}, seconds = 0.5}}]")
    ran = project.run("good")
    assert (ran.code, ran.named("hook")[0]["exit"]) == (0, None)


def test_each_iteration_is_committed_with_just_what_the_agent_changed(project: Project):
    git = _repository(project.root)
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


def test_without_a_repository_there_is_nothing_to_commit_to(project: Project):
    ran = project.run("good", "--commit")
    assert ran.code == 1
    assert "git status" in ran.err


def _repository(root: Path):
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True).stdout

    git("init", "--quiet")
    git("config", "user.name", "Tester")
    git("config", "user.email", "tester@example.invalid")
    (root / ".gitignore").write_text(".journal\n")
    git("add", ".")
    git("commit", "--quiet", "--message", "begin")
    return git


def test_a_command_of_a_task_must_pass_too(project: Project):
    run = project.start("patient", "--iterations", "6")
    run.until("iteration_started")
    assert project.cli("pause", "run").returncode == 0
    project.let_go()
    run.until("paused")
    assert project.cli("runs", "accept", "run", "TAS-2", f"{sys.executable} -c 'raise SystemExit(7)'").returncode == 0
    assert project.cli("resume", "run").returncode == 0
    code, out, _ = run.finish()
    assert code in (3, 4)
    assert "exit code 7" in out
    assert project.cli("runs", "accept", "run", "TAS-2").stdout == "TAS-2: no command\n"
    assert project.resume("--iterations", "20").finish()[0] == 0


@pytest.mark.parametrize(("answer", "ran"), [("allow", True), ("deny", False)])
def test_a_proposed_command_runs_only_when_a_person_approved_it(project: Project, answer: str, ran: bool):
    proof = project.root / "pro ved"
    run = project.start("proposes", verify=None)
    run.until("iteration_ended")
    [request] = json.loads(project.cli("inbox", "--json").stdout)["requests"]
    assert (request["kind"], request["options"]) == ("acceptance", ["allow", "deny"])
    assert request["question"] == "May this command prove TAS-1 done? touch 'pro ved'"
    assert not proof.exists()
    assert project.cli("inbox", "answer", f"request-{request['request']}", answer).returncode == 0
    project.let_go()
    assert run.finish()[0] == 0
    assert proof.exists() is ran
    told = "was approved and has to pass" if ran else "was not approved and does not count"
    assert any(f"The acceptance command of TAS-1 {told}." in f["text"] for f in project.journal("session/prompt"))


def test_a_proposed_command_that_nobody_answers_is_just_text(project: Project):
    project.let_go()
    assert project.run("proposes", verify=None).code == 0
    assert not (project.root / "pro ved").exists()
    assert project.cli("inbox").stdout == "Nothing waits for you.\n"


def test_several_runs_share_one_store(project: Project):
    first = project.start("slow", name="first")
    second = project.start("slow", name="second")
    assert (first.finish()[0], second.finish()[0]) == (0, 0)
    assert [title for title, _ in project.tasks("first")] == [title for title, _ in project.tasks("second")]
    rows = json.loads(project.cli("runs", "--json").stdout)["runs"]
    assert {(row["run"], row["state"], row["tasks"]) for row in rows} == {
        ("first", "completed", "3/3"), ("second", "completed", "3/3"),
    }  # fmt: skip


def test_one_process_at_a_time_drives_a_run(project: Project):
    run = project.start("stops_when_cancelled")
    run.until("iteration_started")
    code, _, err = project.resume().finish()
    assert (code, "under way in another process" in err) == (1, True)
    project.cli("stop", "run")
    assert run.finish()[0] == 6
