"""The agent of the demo's run: it speaks ACP over standard input and output, and follows a script instead of a model."""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from typing import Any

MEASURE_TASK = "Measure again"
PLAN = ["Collect the slow queries", "Add an index for each", MEASURE_TASK, "Write down what changed"]
PERMISSION_ID = "permission-1"
LEARNING = "An index on (shop, day) halves the report's time"
WORK_SECONDS = 4.0


class ScriptedAgent:
    """An ACP agent with one session at a time."""

    def __init__(self) -> None:
        self._url = ""
        self._headers: dict[str, str] = {}
        self._session = ""

    def handle_request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a request of the client."""
        match method:
            case "initialize":
                return {
                    "protocolVersion": 1,
                    "agentCapabilities": {"mcpCapabilities": {"http": True}},
                    "authMethods": [],
                }
            case "session/new" | "session/load":
                server = params["mcpServers"][0]
                self._url = server["url"]
                self._headers = {each["name"]: each["value"] for each in server["headers"]}
                self._session = f"night-{time.monotonic_ns()}"
                return {"sessionId": self._session}
            case "session/prompt":
                self._work()
                return {"stopReason": "end_turn"}
        return {}

    def _work(self) -> None:
        """Plan first, then complete one task."""
        if "TAS-" not in self._call_tool("task-list"):
            self._call_tool("task-add", tasks=[{"content": content} for content in PLAN])
            self._call_tool("iteration-summary", summary="Planned the night's work")
            return
        text = self._call_tool("task-next")
        task = next((word.strip(".,:[]") for word in text.split() if word.startswith("TAS-")), None)
        if task is None:
            self._call_tool("session-complete")
            return
        self._call_tool("task-update", id=task, status="in_progress")
        time.sleep(WORK_SECONDS)
        if MEASURE_TASK in text and not self._ask_permission():
            self._call_tool("note-add", notes=[{"content": "Measuring was not allowed", "type": "stuck"}])
        self._call_tool("note-add", notes=[{"content": LEARNING, "type": "learning"}])
        time.sleep(WORK_SECONDS)
        self._call_tool("task-update", id=task, status="completed")
        self._call_tool("iteration-summary", summary=f"Finished {task}")

    def _ask_permission(self) -> bool:
        """Ask for permission to run a command, and wait for the answer."""
        tool_call = {
            "toolCallId": PERMISSION_ID,
            "title": "make bench REPORTS=nightly",
            "kind": "execute",
            "status": "pending",
        }
        options = [
            {"optionId": kind, "name": kind.replace("_", " "), "kind": kind} for kind in ("allow_once", "reject_once")
        ]
        send_message({"id": PERMISSION_ID, "method": "session/request_permission",
             "params": {"sessionId": self._session, "toolCall": tool_call, "options": options}})  # fmt: skip
        for line in sys.stdin:
            message = json.loads(line)
            if message.get("id") == PERMISSION_ID:
                return bool(message.get("result", {}).get("outcome", {}).get("optionId") == "allow_once")
            if message.get("method") == "session/cancel":
                return False
        return False

    def _call_tool(self, name: str, **arguments: Any) -> str:
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2025-06-18",
            **self._headers,
        }
        request = urllib.request.Request(self._url, json.dumps(call).encode(), headers)
        with urllib.request.urlopen(request, timeout=60) as response:
            return "\n".join(part.get("text", "") for part in json.load(response)["result"]["content"])


def main() -> None:
    """Handle requests until standard input ends."""
    agent = ScriptedAgent()
    for line in sys.stdin:
        message = json.loads(line)
        if "method" in message and "id" in message:
            result = agent.handle_request(message["method"], message.get("params") or {})
            send_message({"id": message["id"], "result": result})


def send_message(message: dict[str, Any]) -> None:
    """Send one message to the client."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
