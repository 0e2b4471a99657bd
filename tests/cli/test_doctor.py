"""The doctor finds what is wrong, and says how to fix it."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from shopfloor.domain.times import DAY, HOUR
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.store import open_store
from shopfloor.store.migrate import load_migrations
from shopfloor.usecases import seals
from tests.transports.server import serving


@pytest.fixture(autouse=True)
def _home(monkeypatch, tmp_path_factory):
    """A home folder without configs of clients."""
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.setenv("SHOPFLOOR_PORT", "0")


@pytest.fixture
def doctor(run):
    """Return a function that runs the doctor and returns its findings by check."""

    def examine(code=0, *arguments):
        found, out, err = run("doctor", "--json", *arguments)
        assert (found, err) == (code, "")
        return {each["check"]: each for each in json.loads(out)["findings"]}

    return examine


def change(project, action):
    with Shopfloor(Settings(project=project)) as shopfloor:
        return action(shopfloor)


def execute(project, sql):
    change(project, lambda shopfloor: shopfloor.engine.database.store.write(lambda conn: conn.execute(sql)))


def execute_directly(project, sql):
    file = project / ".shopfloor" / "shopfloor.db"
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as database:
        database.execute(sql)


def test_sound_project_has_no_problems(doctor, run, project):
    run("agent", "add", "builder", "--no-token")
    findings = doctor()
    assert {each["level"] for check, each in findings.items() if check != "git"} == {"ok"}
    assert findings.keys() >= {"data folder", "disk", "port", "schema", "integrity", "wal", "statistics", "clock"}
    assert findings.keys() >= {"dead letters", "open calls", "seals"}
    assert findings["server"]["message"] == "none runs for this project"


def test_server_of_this_project_is_named(doctor, run, project):
    run("agent", "add", "builder", "--no-token")
    with serving(project) as server:
        assert doctor()["server"]["message"] == f"the server of this project is at {server.url}"


def test_project_without_a_data_folder_stays_without(doctor, project):
    findings = doctor()
    data = project / ".shopfloor"
    assert findings["data folder"]["message"] == f"{data} does not exist yet"
    assert findings["schema"]["message"] == f"there is no database yet at {data / 'shopfloor.db'}"
    assert "integrity" not in findings
    assert not data.exists()


def test_dead_letters_are_a_problem_with_its_fix(doctor, run, project):
    run("agent", "add", "builder", "--no-token")
    execute(project, "INSERT INTO delivery (workspace, event, subscriber, due_at, dead_at) VALUES (1, 1, 'x', 0, 1)")
    found = doctor(1)["dead letters"]
    assert (found["level"], found["message"]) == ("problem", "1 deliveries were abandoned")
    assert "dead_letter_retry_all" in found["fix"]
    code, out, _ = run("doctor")
    assert code == 1
    assert "To do:\n  dead letters: Retry: shopfloor call desk dead_letter_retry_all" in out


def test_older_schema_is_a_problem(doctor, project):
    open_store(f"sqlite://{project}/.shopfloor/shopfloor.db", version=len(load_migrations("sqlite")) - 1).close()
    assert doctor(1)["schema"]["fix"] == "shopfloor migrate"


def test_damaged_database_is_a_problem(doctor, run, project):
    run("agent", "add", "builder", "--no-token")
    file = project / ".shopfloor" / "shopfloor.db"
    file.write_bytes(b"not a database" * 1000)
    assert doctor(1)["schema"]["level"] == "problem"


def test_data_folder_that_others_can_read_is_a_warning(doctor, run, project):
    run("agent", "add", "builder", "--no-token")
    (project / "shared").mkdir(mode=0o755)
    found = doctor(0, "--data", "shared")["data folder"]
    assert (found["level"], found["fix"]) == ("warning", f"chmod 700 {project / 'shared'}")


class _OtherProgram(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


def test_port_of_another_program_is_a_problem(doctor, project):
    with HTTPServer(("127.0.0.1", 0), _OtherProgram) as other:
        thread = threading.Thread(target=other.serve_forever)
        thread.start()
        found = doctor(1, "--port", str(other.server_port))["port"]
        other.shutdown()
        thread.join()
    assert found["fix"] == "Choose another port: shopfloor serve --port N"


def test_row_from_the_future_is_a_problem_of_the_clock(doctor, run, project):
    run("agent", "add", "builder", "--no-token")
    execute(project, f"UPDATE decision SET created_at = created_at + {DAY}")
    assert "later than now" in doctor(1)["clock"]["message"]


def test_log_that_is_not_sealed_any_more_is_a_warning(doctor, run, project):
    run("agent", "add", "builder", "--no-token")
    change(project, lambda shopfloor: seals.seal_log(shopfloor.engine.database, 1))
    execute(project, f"UPDATE decision SET created_at = created_at - {2 * HOUR} WHERE id > 1")
    assert doctor()["seals"]["level"] == "warning"


def test_calls_that_a_dead_process_left_open_are_a_warning(doctor, run, project):
    run("agent", "add", "builder", "--no-token")
    # Not with `execute`, which opens a server: that would close the call.
    execute_directly(project, "UPDATE decision SET process = 999 WHERE id = 1")
    found = doctor()["open calls"]
    assert (found["level"], found["message"]) == ("warning", "1 were left by dead processes")
    assert found["fix"] == "Start a server: shopfloor serve"


def test_missing_statistics_are_a_warning(doctor, run, project):
    run("agent", "add", "builder", "--no-token")
    execute_directly(project, "DELETE FROM sqlite_stat1")
    assert doctor()["statistics"]["level"] == "warning"


@pytest.mark.parametrize(
    ("check", "limit", "value"),
    [
        ("wal", "shopfloor.toolsets.desk.doctor.MAX_WAL_BYTES", -1),
        ("disk", "shopfloor.cli.doctor.MIN_FREE_BYTES", 2**63),
    ],
)
def test_store_that_outgrows_a_limit_is_a_warning_with_its_fix(doctor, run, monkeypatch, check, limit, value):
    run("agent", "add", "builder", "--no-token")
    monkeypatch.setattr(limit, value)
    found = doctor()[check]
    assert (found["level"], bool(found["fix"])) == ("warning", True)
