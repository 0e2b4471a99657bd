"""Test a server against its own OpenAPI description with schemathesis."""

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

from tests.transports.server import HTTP, PATIENCE, Server, bearer
from tests.transports.team import LOG_DECISION, STATUS, Team

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
SEARCH_SETTINGS = settings(
    max_examples=40, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
EXECUTE = "POST /mcp/execute"
PROBES = ("GET /healthz", "GET /readyz")
USER_OPERATIONS = (
    "GET /metrics",
    "POST /api/chat",
    "GET /api/conversations",
    "GET /api/conversations/{id}",
    "DELETE /api/conversations/{id}",
)
MODES = {"valid": GenerationMode.POSITIVE, "invalid": GenerationMode.NEGATIVE}
INPUTS = st.fixed_dictionaries({}, optional={"title": st.text(), "body": st.text() | st.none(), "x": st.integers()})


@pytest.mark.parametrize("who", ["anonymous", "operator"])
@pytest.mark.parametrize("mode", MODES)
def test_open_server_matches_its_openapi_description(open_server: Server, who: str, mode: str):
    _check_operation(open_server, EXECUTE, MODES[mode], {} if who == "anonymous" else bearer(open_server.operator))


@pytest.mark.parametrize("who", [None, "user_a", "worker_a"])
@pytest.mark.parametrize("mode", MODES)
def test_closed_server_matches_its_openapi_description(team: Team, who: str | None, mode: str):
    _check_operation(team.server, EXECUTE, MODES[mode], team.headers(who))


@pytest.mark.parametrize("who", ["worker_a", "operator"])
def test_server_on_postgresql_matches_its_openapi_description(postgres_team: Team, who: str):
    _check_operation(postgres_team.server, EXECUTE, MODES["valid"], postgres_team.headers(who))


@pytest.mark.parametrize("operation", PROBES)
def test_probes_match_their_openapi_description(team: Team, operation: str):
    _check_operation(team.server, operation, MODES["valid"], {})


@pytest.mark.parametrize("who", [None, "user_a", "worker_a"])
@pytest.mark.parametrize("operation", USER_OPERATIONS)
def test_user_operations_match_their_openapi_description(team: Team, who: str | None, operation: str):
    _check_operation(team.server, operation, MODES["valid"], team.headers(who))


def _check_operation(server: Server, name: str, mode: GenerationMode, headers: dict[str, str]) -> None:
    method, path = name.split()
    operation: Any = schemathesis.openapi.from_url(f"{server.url}/openapi.json")[path][method]
    cases: Any = operation.as_strategy(mode)

    @SEARCH_SETTINGS
    @given(case=cases, tool=st.sampled_from([None, STATUS, LOG_DECISION]), input=st.none() | INPUTS)
    def check_response(case: Any, tool: str | None, input: dict[str, Any] | None) -> None:
        if mode is GenerationMode.POSITIVE and name == EXECUTE and isinstance(case.body, dict):
            # schemathesis would hardly ever guess the name of a tool.
            case.body |= {} if tool is None else {"toolName": tool}
            case.body |= {} if input is None else {"input": input}
        case.call_and_validate(headers=headers, checks=CHECKS, timeout=PATIENCE)

    check_response()
    assert HTTP.get(f"{server.url}/readyz").status_code == 200


def test_every_operation_of_the_description_is_tested(open_server: Server):
    described = HTTP.get(f"{open_server.url}/openapi.json").json()["paths"]
    assert {f"{method.upper()} {path}" for path, methods in described.items() for method in methods} == {
        EXECUTE,
        *PROBES,
        *USER_OPERATIONS,
    }
