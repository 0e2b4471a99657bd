"""Run the official conformance suite against its fixtures behind Shopfloor's gate and endpoint."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from tests.clients.conformance import Outcome, check_server
from tests.clients.serving import serving

EXPECTED_FAILURES: dict[str, dict[str, str]] = yaml.safe_load(
    Path(__file__).with_name("expected_failures.yaml").read_text()
)
REVISIONS_WITH_FAILURES = [revision for revision in EXPECTED_FAILURES if EXPECTED_FAILURES[revision]]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, str], Outcome]]:
    """Return the outcome by mount and revision. The runs mostly wait, so they run concurrently."""

    def run_suite(mount: str, revision: str) -> Outcome:
        with serving(mount) as url:
            return check_server(url, revision, tmp_path_factory.mktemp(f"{mount}-{revision}"))

    mounts = [("ours", revision) for revision in EXPECTED_FAILURES] + [
        ("sessions", revision) for revision in REVISIONS_WITH_FAILURES
    ]
    with ThreadPoolExecutor(len(mounts)) as executor:
        runs: dict[tuple[str, str], Future[Outcome]] = {one: executor.submit(run_suite, *one) for one in mounts}
        yield lambda mount, revision: runs[mount, revision].result()


@pytest.mark.parametrize("revision", EXPECTED_FAILURES)
def test_only_listed_conformance_checks_fail(outcomes: Callable[[str, str], Outcome], revision: str) -> None:
    outcome = outcomes("ours", revision)
    unexpected = {check: why for check, why in outcome.failed.items() if check not in EXPECTED_FAILURES[revision]}
    stale = EXPECTED_FAILURES[revision].keys() - outcome.failed.keys()
    assert (unexpected, stale) == ({}, set())
    assert len(outcome.passed) > 30


@pytest.mark.parametrize("revision", REVISIONS_WITH_FAILURES)
def test_listed_checks_pass_with_sessions(outcomes: Callable[[str, str], Outcome], revision: str) -> None:
    outcome = outcomes("sessions", revision)
    assert {check: why for check, why in outcome.failed.items() if check in EXPECTED_FAILURES[revision]} == {}


@pytest.mark.parametrize("revision", EXPECTED_FAILURES)
def test_every_listed_check_has_a_reason(revision: str) -> None:
    assert all(len(reason.split()) > 5 for reason in EXPECTED_FAILURES[revision].values())
