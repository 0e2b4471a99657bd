"""schemathesis against the description that a server gives of itself: no answer fails, and none is undocumented."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from tests.doors.server import HTTP, PATIENCE, Server, bearer
from tests.doors.team import LOG_DECISION, STATUS, Team

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
    unsupported_method,
    allow_header_conformance,
]
SEARCH = settings(
    max_examples=40, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
EXECUTE = "POST /mcp/execute"
PROBES = ("GET /healthz", "GET /readyz")
PEOPLES = (
    "GET /metrics",
    "POST /api/chat",
    "GET /api/conversations",
    "GET /api/conversations/{id}",
    "DELETE /api/conversations/{id}",
)
MODES = {"fitting": GenerationMode.POSITIVE, "unfitting": GenerationMode.NEGATIVE}
INPUTS = st.fixed_dictionaries({}, optional={"title": st.text(), "body": st.text() | st.none(), "x": st.integers()})


@pytest.mark.parametrize("who", ["nobody", "operator"])
@pytest.mark.parametrize("mode", MODES)
def test_an_open_floor_answers_as_it_says(open_floor: Server, who: str, mode: str):
    _search(open_floor, EXECUTE, MODES[mode], {} if who == "nobody" else bearer(open_floor.operator))


@pytest.mark.parametrize("who", [None, "user_a", "worker_a"])
@pytest.mark.parametrize("mode", MODES)
def test_a_closed_floor_answers_as_it_says(team: Team, who: str | None, mode: str):
    _search(team.server, EXECUTE, MODES[mode], team.headers(who))


@pytest.mark.parametrize("who", ["worker_a", "operator"])
def test_a_floor_on_postgresql_answers_as_it_says(postgres_team: Team, who: str):
    _search(postgres_team.server, EXECUTE, MODES["fitting"], postgres_team.headers(who))


@pytest.mark.parametrize("operation", PROBES)
def test_a_probe_answers_as_it_says(team: Team, operation: str):
    _search(team.server, operation, MODES["fitting"], {})


@pytest.mark.parametrize("who", [None, "user_a", "worker_a"])
@pytest.mark.parametrize("operation", PEOPLES)
def test_what_people_use_answers_as_it_says(team: Team, who: str | None, operation: str):
    _search(team.server, operation, MODES["fitting"], team.headers(who))


def _search(server: Server, name: str, mode: GenerationMode, headers: dict[str, str]) -> None:
    method, path = name.split()
    operation: Any = schemathesis.openapi.from_url(f"{server.url}/openapi.json")[path][method]
    cases: Any = operation.as_strategy(mode)

    @SEARCH
    @given(case=cases, tool=st.sampled_from([None, STATUS, LOG_DECISION]), input=st.none() | INPUTS)
    def answered(case: Any, tool: str | None, input: dict[str, Any] | None) -> None:
        if mode is GenerationMode.POSITIVE and name == EXECUTE and isinstance(case.body, dict):
            # Left to itself it would hardly ever guess the name of a tool.
            case.body |= {} if tool is None else {"toolName": tool}
            case.body |= {} if input is None else {"input": input}
        case.call_and_validate(headers=headers, checks=CHECKS, timeout=PATIENCE)

    answered()
    assert HTTP.get(f"{server.url}/readyz").status_code == 200


def test_every_operation_is_searched(open_floor: Server):
    described = HTTP.get(f"{open_floor.url}/openapi.json").json()["paths"]
    assert {f"{method.upper()} {path}" for path, methods in described.items() for method in methods} == {
        EXECUTE,
        *PROBES,
        *PEOPLES,
    }
