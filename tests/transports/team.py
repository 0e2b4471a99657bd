"""A server with a principal of each kind, each with a token."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx2

from tests.transports.server import ERAS, Server, bearer

STATUS = "mcp__agent__get_status"
LOG_DECISION = "mcp__system__log_decision"
CONTEXT_TOOLS = ["read_file", "grep_codebase", "context_search", "record_discovery"]
TODO_TOOLS = ["add_task", "list_tasks", "complete_task", "delete_task", "update_task"]
SUPERVISOR_TOOLS = [
    *(STATUS, "mcp__agent__get_task", "mcp__agent__get_epic", LOG_DECISION, "mcp__system__list_decisions"),
    *(f"mcp__epic__{operation}" for operation in ("create", "get", "list", "assign", "update_status")),
    *(f"mcp__mail__{operation}" for operation in ("list_inbox", "read", "send", "reply", "acknowledge", "wait", "ask")),
    *(f"mcp__supervisor__{operation}" for operation in ("create_agent", "list_agents", "retire_agent")),
    *(f"mcp__task__{operation}" for operation in ("create", "get", "list", "assign", "claim", "update")),
    *("mcp__task__update_status", "mcp__task__add_comment"),
]
ORCHESTRATOR_TOOLS = [tool for tool in SUPERVISOR_TOOLS if "__supervisor__" not in tool]
WORKER_TOOLS = [
    *(STATUS, "mcp__agent__get_task", "mcp__agent__get_epic", LOG_DECISION),
    *(tool for tool in SUPERVISOR_TOOLS if "__mail__" in tool),
    *("mcp__task__claim", "mcp__task__update_status", "mcp__task__add_comment"),
]
"""Tools of the factory that agents see, by agent type and in this order."""

TYPES = {"supervisor": "SUPERVISOR", "orchestrator": "ORCHESTRATOR", "worker_a": "WORKER", "worker_b": "WORKER"}
TRANSPORTS = ("execute", *ERAS)


@dataclass
class Team:
    server: Server
    tokens: dict[str, str]

    @classmethod
    def create(cls, server: Server) -> Team:
        """Create all agents and users of the team, two at a time."""
        with ThreadPoolExecutor(2) as executor:
            created = {name: executor.submit(server.agent, name, type) for name, type in TYPES.items()}
            created["user_a"] = executor.submit(server.user, "user_a")
        tokens = {name: token.result() for name, token in created.items()}
        return cls(server, {**tokens, "operator": server.operator})

    def headers(self, who: str | None) -> dict[str, str]:
        return bearer(None if who is None else self.tokens[who])

    def execute(self, who: str | None, tool: str, input: Any = None, **options: Any) -> httpx2.Response:
        return self.server.call(tool, input, token=None if who is None else self.tokens[who], **options)

    def ask(self, transport: str, who: str | None, tool: str, input: Any = None, **options: Any) -> Reply:
        """Make a call through any transport and return its response in one shape."""
        token = None if who is None else self.tokens.get(who, who)
        if transport == "execute":
            response = self.server.call(tool, input, token=token, **options)
            return Reply(response, response.json() if response.content else {})
        key = options.pop("key", None)
        meta = {} if key is None else {"_meta": {"shopfloor/idempotencyKey": key}}
        params = {"name": tool, "arguments": {} if input is None else input, **meta}
        response = self.server.rpc("tools/call", params, token=token, era=transport, **options)
        result = response.json().get("result", {}) if response.content else {}
        return Reply(response, result.get("structuredContent", {}), result)


@dataclass
class Reply:
    """A response: over HTTP, the factory's envelope in it, and over MCP the tool result around that."""

    response: httpx2.Response
    envelope: dict[str, Any]
    result: dict[str, Any] | None = None

    @property
    def status(self) -> int:
        return self.response.status_code

    @property
    def code(self) -> str | None:
        """Return the factory's error code, or None when the call succeeded."""
        return str(self.envelope["error"]["code"]) if "error" in self.envelope else None

    @property
    def data(self) -> Any:
        return self.envelope["data"]

    @property
    def replayed(self) -> bool:
        """Report whether the response was replayed; header and `_meta` must agree."""
        flags = {self.response.headers.get("idempotency-replayed") == "true"}
        if self.result is not None:
            flags.add(self.result.get("_meta", {}).get("shopfloor/idempotencyReplayed", False))
        assert len(flags) == 1, "header and _meta disagree"
        return flags.pop()
