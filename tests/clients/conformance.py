"""The official MCP conformance suite, as a function."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from tests.clients import node

STRETCHED = Path(__file__).with_name("patience.cjs")
PATIENCE = "120000"  # milliseconds a scenario may take; only to end a run that hangs


@dataclass
class Outcome:
    """Checks by `scenario:check`; a check that ran more than once has passed only if it always did."""

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
    """What the suite finds at `url` in one revision of the protocol."""
    run = ["server", "--url", url, "--spec-version", revision, "--timeout", PATIENCE, "--output-dir", str(results)]
    done = node.run("conformance", *run, "--suite", "all", preload=STRETCHED)
    outcome = Outcome()
    reports = sorted(results.glob("server-*/checks.json"))
    for report in reports:
        outcome.add(_scenario(report.parent.name), json.loads(report.read_text()))
    if len(reports) != _announced(done.stdout):
        # A scenario that breaks down writes no report: it must not count as one without failures.
        raise RuntimeError(f"Not every scenario was reported:\n{done.stdout}\n{done.stderr}")
    return outcome


def _scenario(folder: str) -> str:
    return re.sub(r"^server-|-\d{4}-\d\d-\d\dT[\d-]+Z$", "", folder)


def _announced(stdout: str) -> int:
    match = re.search(r"\((\d+) scenarios\)", stdout)
    return int(match[1]) if match else -1
