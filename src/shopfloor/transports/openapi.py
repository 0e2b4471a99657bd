"""The OpenAPI description of the HTTP routes."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from shopfloor.engine import Engine
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
_ERROR: Json = {
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
_ERRORS = {
    "400": "The body is not JSON, or not of this shape",
    "401": "A credential is needed",
    "403": "Not allowed",
    "404": "The tool, agent or resource does not exist",
    "409": "The idempotency key was used for other input, or the agent is in the wrong state",
    "413": "The body is too large",
    "415": "Only application/json is accepted",
    "421": "This host is not served here",
    "422": "The input does not fit the tool",
    "429": "Too many calls per minute; see Retry-After",
    "500": "An unexpected error, with a reference",
    "503": "Busy; see Retry-After",
}


# Also without a credential: until the first one is issued, a server on loopback is open to its own machine.
_SECURITY: list[Json] = [{}, {"bearer": []}]
_ID: Json = {"type": "string", "pattern": "^conv-[1-9][0-9]{0,17}$"}
_CONVERSATION: Json = {
    "conversationId": _ID,
    "title": {"type": "string"},
    "createdAt": _TIMESTAMP,
    "updatedAt": _TIMESTAMP,
}
_CONFIRMATION: Json = {
    "type": "object",
    "description": "What happens when the next message carries this id as confirmationId.",
    "required": ["id", "question", "tasks"],
    "properties": {
        "id": {"type": "string"},
        "question": {"type": "string"},
        "tasks": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["taskId", "title"],
                "properties": {"taskId": {"type": "integer"}, "title": {"type": "string"}},
            },
        },
    },
}
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


def _conversation_operation(summary: str, properties: Json) -> Json:
    body: Json = {"type": "object", "required": [*properties], "properties": properties}
    return {
        "summary": summary,
        "security": _SECURITY,
        "parameters": [{"name": "id", "in": "path", "required": True, "schema": _ID}],
        "responses": {"200": _json_response(summary, body)}
        | _error_responses("401", "403", "404", "409", "415", "421", "422", "429", "503"),
    }


def _describe_probe(summary: str, statuses: dict[str, str]) -> Json:
    body: Json = {"type": "object", "required": ["status"], "properties": {"status": {"type": "string"}}}
    return {
        "summary": summary,
        "responses": {status: _json_response(text, body) for status, text in statuses.items()}
        | _error_responses("403", "421"),
    }


def _error_responses(*statuses: str) -> Json:
    return {status: _json_response(_ERRORS[status], _ERROR) for status in statuses}


def _json_response(text: str, schema: Json) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": schema}}}


_METRICS: Json = {
    "summary": "Metrics for Prometheus",
    "security": _SECURITY,
    "responses": {
        "200": {
            "description": "The metrics of this replica",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
        **_error_responses("401", "403", "421"),
    },
}
_CHAT_MESSAGE: Json = {
    "type": "object",
    "additionalProperties": False,
    "required": ["message"],
    "properties": {
        "message": {"type": "string", "minLength": 1, "maxLength": 4000, "pattern": "\\S"},
        "conversationId": {**_ID, "description": "The conversation to continue; without it, a new one begins."},
        "confirmationId": {
            "type": "string",
            "minLength": 1,
            "maxLength": 64,
            "description": "The id of the pending confirmation, to carry it out.",
        },
    },
}
_CHAT_ANSWER: Json = {
    "type": "object",
    "required": ["conversationId", "response", "toolCalls"],
    "properties": {
        "conversationId": {"type": ["string", "null"]},
        "response": {"type": "string"},
        "toolCalls": {"type": "array"},
        "confirmation": _CONFIRMATION,
        "error": {"type": "string", "description": "Why the turn failed, or CHAT_OFF."},
    },
}
_CHAT: Json = {
    "summary": "Send a message to the todo assistant",
    "security": _SECURITY,
    "requestBody": {"required": True, "content": {"application/json": {"schema": _CHAT_MESSAGE}}},
    "responses": {
        "200": {
            "description": "What the assistant says and did; with Accept: text/event-stream, as it happens",
            "content": {
                "application/json": {"schema": _CHAT_ANSWER},
                "text/event-stream": {"schema": {"type": "string"}},
            },
        },
        **_error_responses(*_ERRORS),
    },
}
_CONVERSATION_PAGE: Json = {
    "type": "object",
    "required": ["conversations"],
    "properties": {
        "conversations": {
            "type": "array",
            "items": {"type": "object", "required": [*_CONVERSATION], "properties": _CONVERSATION},
        },
        "nextCursor": {"type": "string"},
    },
}
_CONVERSATIONS: Json = {
    "summary": "Your conversations, latest first",
    "security": _SECURITY,
    "parameters": [
        {
            "name": "cursor",
            "in": "query",
            "schema": {"type": "string", "pattern": "^[0-9]{1,18}\\.[0-9]{1,18}$"},
            "description": "nextCursor of the previous response.",
        }
    ],
    "responses": {
        "200": _json_response("A page of conversations", _CONVERSATION_PAGE),
        **_error_responses("401", "403", "421", "422", "429", "503"),
    },
}
_CONVERSATION_OPERATIONS: Json = {
    "get": _conversation_operation(
        "The messages of a conversation",
        {
            **_CONVERSATION,
            "confirmation": {"oneOf": [_CONFIRMATION, {"type": "null"}]},
            "messages": {"type": "array", "items": _MESSAGE},
        },
    ),
    "delete": _conversation_operation("Delete a conversation", {"conversationId": _ID, "deleted": {"const": True}}),
}


def describe_api(engine: Engine) -> Json:
    """Return the OpenAPI document of this server, with its tools by name."""
    names = sorted(tool for toolset in engine.profile for tool in toolset.tools)
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
    execute: Json = {
        "operationId": "execute",
        "summary": "Call one tool",
        "security": _SECURITY,
        "requestBody": {"required": True, "content": {"application/json": {"schema": request}}},
        "responses": {
            "200": _json_response("The tool's answer", _SUCCESS),
            **_error_responses(*_ERRORS),
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Shopfloor", "version": version("shopfloor")},
        "paths": {
            "/mcp/execute": {"post": execute},
            "/healthz": {"get": _describe_probe("The process is alive", {"200": "Alive"})},
            "/readyz": {
                "get": _describe_probe("The server is ready", {"200": "Ready", "503": "Not yet, or no longer"})
            },
            "/metrics": {"get": _METRICS},
            "/api/chat": {"post": _CHAT},
            "/api/conversations": {"get": _CONVERSATIONS},
            "/api/conversations/{id}": _CONVERSATION_OPERATIONS,
        },
        "components": {"securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}},
    }
