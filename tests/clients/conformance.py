"""Run the official MCP conformance suite."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from tests.clients import node

LONG_TIMEOUTS = Path(__file__).with_name("patience.cjs")
TIMEOUT_MS = "120000"  # milliseconds per scenario; only ends a run that hangs


@dataclass
class Outcome:
    """Checks by `scenario:check`. A check that ran several times has passed only if it always did."""

    passed: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)

    def add(self, scenario: str, checks: list[dict[str, str]]) -> None:
        for check in checks:
            name = f"{scenario}:{check['id']}"
            if check["status"] in ("FAILURE", "WARNING"):
                self.failed[name] = check.get("errorMessage") or check["description"]
            elif check["status"] == "SUCCESS":
                self.passed.add(name)
        self.passed -= self.failed.keys()


def check_server(url: str, revision: str, results: Path) -> Outcome:
    """Run the suite against `url` in one revision of the protocol."""
    command = [
        "server",
        "--url",
        url,
        "--spec-version",
        revision,
        "--timeout",
        TIMEOUT_MS,
        "--output-dir",
        str(results),
    ]
    result = node.run("conformance", *command, "--suite", "all", preload=LONG_TIMEOUTS)
    outcome = Outcome()
    reports = sorted(results.glob("server-*/checks.json"))
    for report in reports:
        outcome.add(_parse_scenario(report.parent.name), json.loads(report.read_text()))
    if len(reports) != _count_scenarios(result.stdout):
        # A crashed scenario writes no report, and must not count as one without failures.
        raise RuntimeError(f"Not every scenario was reported:\n{result.stdout}\n{result.stderr}")
    return outcome


def _parse_scenario(folder: str) -> str:
    return re.sub(r"^server-|-\d{4}-\d\d-\d\dT[\d-]+Z$", "", folder)


def _count_scenarios(stdout: str) -> int:
    match = re.search(r"\((\d+) scenarios\)", stdout)
    return int(match[1]) if match else -1
