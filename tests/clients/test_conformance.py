"""The official conformance suite against a server with its fixtures, put on HTTP by Shopfloor's own gate and endpoint."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from tests.clients.conformance import Outcome, check_server
from tests.clients.serving import serving

LISTED: dict[str, dict[str, str]] = yaml.safe_load(Path(__file__).with_name("expected_failures.yaml").read_text())
WITH_LISTED = [revision for revision in LISTED if LISTED[revision]]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, str], Outcome]]:
    """What the suite finds, by mount and revision. The runs mostly wait, so they wait at the same time."""

    def found(mount: str, revision: str) -> Outcome:
        with serving(mount) as url:
            return check_server(url, revision, tmp_path_factory.mktemp(f"{mount}-{revision}"))

    wanted = [("ours", revision) for revision in LISTED] + [("sessions", revision) for revision in WITH_LISTED]
    with ThreadPoolExecutor(len(wanted)) as hands:
        runs: dict[tuple[str, str], Future[Outcome]] = {one: hands.submit(found, *one) for one in wanted}
        yield lambda mount, revision: runs[mount, revision].result()


@pytest.mark.parametrize("revision", LISTED)
def test_no_check_fails_beyond_the_written_list(outcomes: Callable[[str, str], Outcome], revision: str) -> None:
    outcome = outcomes("ours", revision)
    unexpected = {check: why for check, why in outcome.failed.items() if check not in LISTED[revision]}
    stale = LISTED[revision].keys() - outcome.failed.keys()
    assert (unexpected, stale) == ({}, set())
    assert len(outcome.passed) > 30


@pytest.mark.parametrize("revision", WITH_LISTED)
def test_every_listed_check_passes_once_the_server_keeps_sessions(
    outcomes: Callable[[str, str], Outcome], revision: str
) -> None:
    outcome = outcomes("sessions", revision)
    assert {check: why for check, why in outcome.failed.items() if check in LISTED[revision]} == {}


@pytest.mark.parametrize("revision", LISTED)
def test_every_listed_check_has_its_reason(revision: str) -> None:
    assert all(len(reason.split()) > 5 for reason in LISTED[revision].values())
