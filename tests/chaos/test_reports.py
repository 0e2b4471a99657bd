"""The soak, the growth and the capacity in their shortest forms, and the table of promises."""

from __future__ import annotations

import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor

from chaos import report
from chaos.capacity import AGENT_COUNTS, compute_capacity
from chaos.growth import measure_growth
from chaos.ledger import Findings
from chaos.report import DOCS, draw_growth, format_chaos, format_growth, format_soak
from chaos.scenarios import SCENARIOS
from chaos.sealing import format_sealing, measure_sealing
from chaos.soak import Sample, Soak, read_core_waits, run_soak
from chaos.takeover import Takeover, format_takeover


def test_soak_samples_the_server_and_reports_no_problem(tmp_path):
    soak = run_soak(tmp_path, seconds=4, agents=4, interval=1)
    assert soak.calls > 0
    assert soak.failed == 0
    assert soak.integrity == "ok"
    assert max(sample.wal_bytes for sample in soak.samples) < 64 * 1024 * 1024


def build_soak(p99: list[float], core_wait: list[float]) -> Soak:
    samples = [Sample(n * 10.0, 100, 10, 0, 50, *pair) for n, pair in enumerate(zip(p99, core_wait, strict=True), 1)]
    return Soak(agents=1, integrity="ok", samples=samples)


def test_soak_judges_p99_by_the_samples_of_a_quiet_machine():
    steady, grown = [20.0] * 20, [20.0] * 10 + [90.0] * 10
    assert build_soak(steady, [0.0] * 20).list_problems() == []
    assert build_soak(grown, [0.0] * 20).list_problems() == ["p99 grew"]
    assert build_soak(grown, [0.0] * 10 + [0.8] * 10).list_problems() == [
        "p99 is unknown: the machine was busy with other work"
    ]
    assert build_soak([20.0, 900.0] * 10, [0.0, 0.8] * 10).list_problems() == []


def test_wait_for_a_core_is_known_for_every_thread():
    with ThreadPoolExecutor(3) as pool:
        pool.submit(int).result()
        assert read_core_waits(os.getpid()).keys() >= {str(thread.native_id) for thread in threading.enumerate()}


def test_soak_report_has_a_row_for_each_fifth():
    lines = format_soak(build_soak([20.0, 900.0] * 10, [0.0, 0.8] * 10))
    assert lines[5:10] == [f"| {m} | 0 | 10 | 0.0 | 460 | 20 | 2 of 4 |" for m in ("0.7", "1.3", "2.0", "2.7", "3.3")]
    assert lines[-1] == "No problem was found."


def test_takeover_report_has_the_median_and_the_longest():
    assert format_takeover([Takeover("kill the leader", [1.0, 3.0, 1.2])])[-1] == "| kill the leader | 3 | 1.2 | 3.0 |"


def test_growth_measures_every_call_and_job(tmp_path):
    figures = measure_growth(tmp_path, 1_000, lambda text: None)
    assert {"send mail", "overview", "job: open calls, nothing due"} <= set(figures)
    assert all(set(row) == {1_000} for row in figures.values())
    assert "| send mail |" in "\n".join(format_growth(figures))
    assert draw_growth(figures).count("<polyline") == sum(not name.startswith("job:") for name in figures)


def test_report_replaces_its_section_only(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "DOCS", tmp_path)
    page = tmp_path / "reliability.md"
    page.write_text("before\n<!-- run: chaos -->\nold\n<!-- end -->\nafter\n")
    table = format_chaos([("kill server", 3, Findings(9, 1, 0, 0, 0, 0, 0, 0))])
    report.replace_section("chaos", table)
    assert page.read_text().startswith("before\n<!-- run: chaos -->\n\n| fault | rounds | acknowledged |")
    assert "| kill server | 3 | 9 | 1 | 0 |" in page.read_text()
    assert page.read_text().endswith("<!-- end -->\nafter\n")
    assert "old" not in page.read_text()


def test_result_of_one_scenario_replaces_its_own_row(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "DOCS", tmp_path)
    page = tmp_path / "reliability.md"
    found = Findings(9, 1, 0, 0, 0, 0, 0, 0)
    page.write_text("\n".join(format_chaos([("kill server", 3, found), ("kill replica", 3, found)])))
    report.replace_chaos_rows([("kill server", 200, Findings(70, 2, 0, 0, 0, 0, 0, 0))])
    assert page.read_text().splitlines()[2:] == [
        "| kill server | 200 | 70 | 2 | 0 | 0 | 0 | 0 | 0 | 0 |",
        "| kill replica | 3 | 9 | 1 | 0 | 0 | 0 | 0 | 0 | 0 |",
    ]


def test_cost_of_seals_is_measured(tmp_path):
    cost = measure_sealing(tmp_path, "SQLite", "", rounds=2, calls=3)
    [(without, with_seals)] = cost.pairs
    assert (without.seals_ms < with_seals.seals_ms, cost.share > 0) == (True, True)
    assert format_sealing([cost])[-1].startswith("| SQLite | ")


def test_capacity_grows_with_agents():
    needs = [compute_capacity(agents) for agents in AGENT_COUNTS]
    assert [need.agents for need in needs] == sorted(need.agents for need in needs)
    assert [need.server_cores for need in needs] == sorted(need.server_cores for need in needs)
    assert all(need.replicas >= need.server_cores for need in needs)


def test_every_proof_in_the_table_of_promises_exists():
    text = (DOCS / "reliability.md").read_text("utf-8")
    named = re.findall(r"`(tests/[\w/.]+)`", text)
    assert named
    assert [path for path in named if not (DOCS.parent / path).exists()] == []
    scenarios = {scenario.name for scenario in SCENARIOS}
    named_together = re.findall(r"scenarios? \*([a-z ]+)\*(?: and \*([a-z ]+)\*)?", text)
    assert {name for names in named_together for name in names if name} <= scenarios
