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


_SECURITY: list[Json] = [{}, {"bearer": []}]
_ID: Json = {"type": "string", "pattern": "^conv-[1-9][0-9]{0,17}$"}
_KEPT: Json = {"conversationId": _ID, "title": {"type": "string"}, "createdAt": _TIMESTAMP, "updatedAt": _TIMESTAMP}
_MESSAGE: Json = {
    "type": "object",
    "required": ["role", "text", "toolCalls", "error", "createdAt"],
    "properties": {
        "role": {"enum": ["user", "assistant"]},
        "text": {"type": "string"},
        "toolCalls": {"type": "array"},
        "error": {"type": ["string", "null"]},
        "createdAt": _TIMESTAMP,
    },
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
            "/metrics": {"get": _metrics()},
            "/api/chat": {"post": _chat()},
            "/api/conversations": {"get": _conversations()},
            "/api/conversations/{id}": {"get": _conversation(), "delete": _forgotten()},
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
        "security": _SECURITY,
        "requestBody": {"required": True, "content": {"application/json": {"schema": request}}},
        "responses": {
            "200": _response("The tool's answer", _SUCCESS),
            **_refusals(*_REFUSALS),
        },
    }


def _metrics() -> Json:
    page: Json = {
        "description": "The figures of this replica",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
    return {
        "summary": "Figures for Prometheus",
        "security": _SECURITY,
        "responses": {"200": page} | _refusals("401", "403", "421"),
    }


def _chat() -> Json:
    said: Json = {
        "type": "object",
        "additionalProperties": False,
        "required": ["message"],
        "properties": {
            "message": {"type": "string", "minLength": 1, "maxLength": 4000, "pattern": "\\S"},
            "conversationId": {**_ID, "description": "To go on with a conversation; left out, a new one begins."},
        },
    }
    answered: Json = {
        "type": "object",
        "required": ["conversationId", "response", "toolCalls"],
        "properties": {
            "conversationId": {"type": ["string", "null"]},
            "response": {"type": "string"},
            "toolCalls": {"type": "array"},
            "error": {"type": "string", "description": "Why the turn failed, or CHAT_OFF."},
        },
    }
    answer = _response("What the assistant says and did; with Accept: text/event-stream, as it happens", answered)
    answer["content"]["text/event-stream"] = {"schema": {"type": "string"}}
    return {
        "summary": "Say something to the assistant of the todo list",
        "security": _SECURITY,
        "requestBody": {"required": True, "content": {"application/json": {"schema": said}}},
        "responses": {"200": answer} | _refusals(*_REFUSALS),
    }


def _conversations() -> Json:
    cursor: Json = {
        "name": "cursor",
        "in": "query",
        "schema": {"type": "string", "pattern": "^[0-9]{1,18}\\.[0-9]{1,18}$"},
    }
    listed: Json = {
        "type": "object",
        "required": ["conversations"],
        "properties": {
            "conversations": {"type": "array", "items": {"type": "object", "required": [*_KEPT], "properties": _KEPT}},
            "nextCursor": {"type": "string"},
        },
    }
    return {
        "summary": "The own conversations, the latest first",
        "security": _SECURITY,
        "parameters": [{**cursor, "description": "nextCursor of the answer before."}],
        "responses": {"200": _response("A page of them", listed)} | _refusals("401", "403", "421", "422", "429", "503"),
    }


def _conversation() -> Json:
    whole: Json = {**_KEPT, "asked": {"type": "array"}, "messages": {"type": "array", "items": _MESSAGE}}
    body: Json = {"type": "object", "required": [*whole], "properties": whole}
    return _on_one("What was said in a conversation", body)


def _forgotten() -> Json:
    properties: Json = {"conversationId": _ID, "deleted": {"const": True}}
    return _on_one("Delete a conversation", {"type": "object", "required": [*properties], "properties": properties})


def _on_one(summary: str, body: Json) -> Json:
    return {
        "summary": summary,
        "security": _SECURITY,
        "parameters": [{"name": "id", "in": "path", "required": True, "schema": _ID}],
        "responses": {"200": _response(summary, body)}
        | _refusals("401", "403", "404", "409", "415", "421", "422", "429", "503"),
    }


def _probe(summary: str, statuses: dict[str, str]) -> Json:
    body: Json = {"type": "object", "required": ["status"], "properties": {"status": {"type": "string"}}}
    return {
        "summary": summary,
        "responses": {status: _response(text, body) for status, text in statuses.items()} | _refusals("403", "421"),
    }


def _refusals(*statuses: str) -> Json:
    return {status: _response(_REFUSALS[status], _REFUSAL) for status in statuses}


def _response(text: str, schema: Json) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": schema}}}
