"""The agent of the demo's loop: speaks ACP over its standard streams, and works by a script. No model is asked.

python -m shopfloor.cli.night
"""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from typing import Any

MEASURE = "Measure again"
PLAN = ["Collect the slow queries", "Add an index for each", MEASURE, "Write down what changed"]
ASKED = "night-asks"
LEARNED = "An index on (shop, day) halves the report's time"
PAUSE = 4.0


class Night:
    """One conversation after the other, each with the floor's tools at hand."""

    def __init__(self) -> None:
        self._url = ""
        self._headers: dict[str, str] = {}
        self._session = ""

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """What an agent answers to a request of its client."""
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
        """Plan first, then one task at a time."""
        if "TAS-" not in self._tool("task-list"):
            self._tool("task-add", tasks=[{"content": content} for content in PLAN])
            self._tool("iteration-summary", summary="Planned the night's work")
            return
        text = self._tool("task-next")
        task = next((word.strip(".,:[]") for word in text.split() if word.startswith("TAS-")), None)
        if task is None:
            self._tool("session-complete")
            return
        self._tool("task-update", id=task, status="in_progress")
        time.sleep(PAUSE)
        if MEASURE in text and not self._permitted():
            self._tool("note-add", notes=[{"content": "Measuring was not allowed", "type": "stuck"}])
        self._tool("note-add", notes=[{"content": LEARNED, "type": "learning"}])
        time.sleep(PAUSE)
        self._tool("task-update", id=task, status="completed")
        self._tool("iteration-summary", summary=f"Finished {task}")

    def _permitted(self) -> bool:
        """Whether whoever is in charge lets it run a command; that is waited for."""
        deed = {"toolCallId": ASKED, "title": "make bench REPORTS=nightly", "kind": "execute", "status": "pending"}
        options = [
            {"optionId": kind, "name": kind.replace("_", " "), "kind": kind} for kind in ("allow_once", "reject_once")
        ]
        say({"id": ASKED, "method": "session/request_permission",
             "params": {"sessionId": self._session, "toolCall": deed, "options": options}})  # fmt: skip
        for line in sys.stdin:
            message = json.loads(line)
            if message.get("id") == ASKED:
                return bool(message.get("result", {}).get("outcome", {}).get("optionId") == "allow_once")
            if message.get("method") == "session/cancel":
                return False
        return False

    def _tool(self, name: str, **arguments: Any) -> str:
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2025-06-18",
            **self._headers,
        }
        request = urllib.request.Request(self._url, json.dumps(call).encode(), headers)
        with urllib.request.urlopen(request, timeout=60) as answer:  # nosec B310: the run that started this
            return "\n".join(part.get("text", "") for part in json.load(answer)["result"]["content"])


def main() -> None:
    """Answer requests until the input ends."""
    night = Night()
    for line in sys.stdin:
        message = json.loads(line)
        if "method" in message and "id" in message:
            result = night.answer(message["method"], message.get("params") or {})
            say({"id": message["id"], "result": result})


def say(message: dict[str, Any]) -> None:
    """One message to the client."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
