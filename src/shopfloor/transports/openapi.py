"""The description of the HTTP surface, as OpenAPI."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from shopfloor.app import Floor
from shopfloor.toolkit import Json

_TIMESTAMP = {"type": "string"}
_SUCCESS: Json = {
    "type": "object",
    "required": ["success", "data", "timestamp"],
    "properties": {
        "success": {"const": True},
        "data": {},
        "timestamp": _TIMESTAMP,
        "notice": {"type": "string"},
    },
}
_REFUSAL: Json = {
    "type": "object",
    "required": ["success", "error"],
    "properties": {
        "success": {"const": False},
        "error": {
            "type": "object",
            "required": ["code", "message", "details"],
            "properties": {"code": {"type": "string"}, "message": {"type": "string"}, "details": {"type": "object"}},
        },
        "timestamp": _TIMESTAMP,
        "notice": {"type": "string"},
    },
}
_REFUSALS = {
    "400": "The body is not JSON, or not of this shape",
    "401": "A credential is needed",
    "403": "Not allowed",
    "404": "No such tool, agent or thing",
    "409": "The idempotency key was used for other input, or the agent is in the wrong state",
    "413": "The body is too large",
    "415": "Only application/json is accepted",
    "421": "This host is not served here",
    "422": "The input does not fit the tool",
    "429": "Too many calls a minute; see Retry-After",
    "500": "An unexpected error, with a reference",
    "503": "Busy; see Retry-After",
}


def description(floor: Floor) -> Json:
    """The OpenAPI document of this floor, with its tools by name."""
    names = sorted(tool for toolset in floor.profile for tool in toolset.tools)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Shopfloor", "version": version("shopfloor")},
        "paths": {
            "/mcp/execute": {"post": _execute(names)},
            "/healthz": {"get": _probe("The process is alive", {"200": "Alive"})},
            "/readyz": {"get": _probe("The floor can serve", {"200": "Ready", "503": "Not yet, or no longer"})},
        },
        "components": {"securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}},
    }


def _execute(names: list[str]) -> Json:
    request: Json = {
        "type": "object",
        "additionalProperties": False,
        "required": ["toolName"],
        "properties": {
            "agentId": {"type": "string", "minLength": 1, "description": "Who calls; must match the credential."},
            "toolName": {"type": "string", "minLength": 1, "examples": names[:1], "description": "The tool to call."},
            "input": {"type": "object", "description": "The arguments of the tool."},
            "idempotencyKey": {"type": "string", "minLength": 1, "maxLength": 255},
        },
    }
    return {
        "operationId": "execute",
        "summary": "Call one tool",
        "security": [{}, {"bearer": []}],
        "requestBody": {"required": True, "content": {"application/json": {"schema": request}}},
        "responses": {
            "200": _response("The tool's answer", _SUCCESS),
            **{status: _response(text, _REFUSAL) for status, text in _REFUSALS.items()},
        },
    }


def _probe(summary: str, statuses: dict[str, str]) -> Json:
    body: Json = {"type": "object", "required": ["status"], "properties": {"status": {"type": "string"}}}
    gate = {status: _response(_REFUSALS[status], _REFUSAL) for status in ("403", "421")}
    return {
        "summary": summary,
        "responses": {status: _response(text, body) for status, text in statuses.items()} | gate,
    }


def _response(text: str, schema: Json) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": schema}}}
