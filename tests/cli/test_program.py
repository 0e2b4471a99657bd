"""Run the program in processes of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workbench import PATIENCE

SHOPFLOOR = str(Path(sys.executable).with_name("shopfloor"))


@pytest.fixture
def start(tmp_path):
    """Return a function that starts the program in an empty project."""

    def start_program(*arguments, program=(SHOPFLOOR,)):
        return subprocess.Popen(
            [*program, *arguments],
            cwd=tmp_path,
            env={name: value for name, value in os.environ.items() if not name.startswith("SHOPFLOOR_")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start_program


@pytest.fixture
def run(start):
    def run_program(*arguments, **options):
        process = start(*arguments, **options)
        out, err = process.communicate(timeout=PATIENCE)
        return process.returncode, out, err

    return run_program


def test_script_and_module_are_the_same_program(run):
    code, out, err = run("--help")
    assert (code, err) == (0, "")
    module = run("--help", program=(sys.executable, "-m", "shopfloor"))
    assert module == (code, out.replace("Usage: shopfloor", "Usage: python -m shopfloor"), err)


@pytest.mark.parametrize("program", [(SHOPFLOOR,), (sys.executable, "-m", "shopfloor")])
def test_python_files_of_the_project_are_never_imported(run, tmp_path, program):
    for name in ("queue", "json", "typer", "apsw", "pip"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('run by mistake')\n")
    assert run("agent", "list", "--json", program=program)[::2] == (0, "")


def test_help_imports_no_heavy_libraries(run):
    script = (
        "import sys, shopfloor, shopfloor.cli\n"
        "heavy = {'uvicorn', 'starlette', 'mcp', 'psycopg', 'apsw', 'jwt', 'cryptography', 'numpy', 'onnxruntime', 'pydantic', 'rich'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    assert run(program=(sys.executable, "-c", script))[1] == "[]\n"


def test_error_is_one_line_and_a_hint_with_exit_code_1(run):
    assert run("agent", "show", "ghost") == (
        1,
        "",
        "shopfloor: Agent 'ghost' does not exist.\n  List the agents: shopfloor agent list\n",
    )


def test_unknown_variable_is_a_warning(run, start, tmp_path):
    script = "import os; os.environ['SHOPFLOOR_TOKEN'] = 'x'; from shopfloor.cli import main; main()"
    code, out, err = run("agent", "list", "--json", program=(sys.executable, "-c", script))
    assert (code, json.loads(out)[0]["id"]) == (0, "local")
    assert err == "Ignoring SHOPFLOOR_TOKEN, which is not a setting\n"


def test_concurrent_commands_on_an_empty_project_succeed(start):
    names = [f"agent-{number}" for number in range(4)]
    processes = [start("agent", "add", name, "--no-token", "--json") for name in names]
    outcomes = [(process.communicate(timeout=PATIENCE), process.returncode) for process in processes]
    assert [(json.loads(out)["id"], err, code) for (out, err), code in outcomes] == [(name, "", 0) for name in names]


def test_closed_pipe_causes_no_traceback(start, run):
    process = start("tools", "--json")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert "Traceback" not in process.stderr.read()
    process.wait(PATIENCE)
    process.stderr.close()


def test_unicode_can_be_printed_to_an_ascii_terminal(run, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    code, out, err = run("call", "factory", "mcp__system__log_decision", '{"ä": "→"}')
    assert (code, "Traceback" in err) == (1, False)
    assert "INVALID_INPUT" in out
