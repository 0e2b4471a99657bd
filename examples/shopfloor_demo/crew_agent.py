"""A scripted agent for crews: a program that speaks ACP over its standard streams, without any model.

    python -m shopfloor_demo.crew_agent

It plans a task for each line `- NAME: ACTION` of a specification, where `after NAME, NAME` at the end of the line
names what must be done before. ACTION is `write FILE TEXT` or `append FILE TEXT`. As a worker it does the action, and
resolves conflicts by keeping both sides. As a reviewer it approves everything. It is written on the standard library.

With DEMO_PACE in the environment, a turn takes about that many seconds, so that a person can watch.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

_LINE = re.compile(r"^- (?P<name>[\w-]+): (?P<action>.+?)(?: after (?P<after>[\w, -]+))?$", re.MULTILINE)
_ACTION = re.compile(r"^(write|append) (\S+) (.*)$", re.MULTILINE)
PACE = float(os.environ.get("DEMO_PACE", "0"))


class Tools:
    """The tools of the crew's server, over plain HTTP."""

    def __init__(self, server: dict[str, Any]) -> None:
        self._url = server["url"]
        self._headers = {header["name"]: header["value"] for header in server["headers"]}

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool of the factory and return its envelope."""
        params = {"name": name, "arguments": arguments}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2025-06-18",
            **self._headers,
        }
        request = urllib.request.Request(self._url, body, headers)
        with urllib.request.urlopen(request, timeout=600) as answer:
            result = json.loads(answer.read())["result"]
        answered: dict[str, Any] = json.loads(result["content"][0]["text"])
        return answered


class Turn:
    """One turn. A subclass may do it in another way."""

    def __init__(self, agent: Agent, session: str, folder: Path, tools: Tools, text: str) -> None:
        self.agent, self.session, self.folder, self.tools, self.text = agent, session, folder, tools, text

    def take(self) -> str:
        """Do what the prompt asks for, and return the stop reason."""
        if "Plan the work of a crew" in self.text:
            self.plan()
        elif "Review the work on" in self.text:
            self.review()
        else:
            self.work()
        return "end_turn"

    def say(self, text: str) -> None:
        """Send a message, and let a person read it."""
        content = {"type": "text", "text": f"{text}\n\n"}
        self.agent.update(self.session, sessionUpdate="agent_message_chunk", content=content)
        self.agent.cancelled.wait(PACE / 2)

    def plan(self) -> None:
        """Create a task for each line of the specification, once."""
        found = re.search(r"epic-\d+", self.text)
        assert found is not None
        epic = found[0]
        listed = self.tools.call("mcp__task__list", epicId=epic, limit=200)["data"]["tasks"]
        numbers = {task["title"]: task["id"] for task in listed}
        for line in _LINE.finditer(self.text):
            if line["name"] in numbers:
                continue
            after = [numbers[name.strip()] for name in (line["after"] or "").split(",") if name.strip()]
            facts = {"title": line["name"], "description": line["action"], "epicId": epic, "dependsOn": after}
            numbers[line["name"]] = self.tools.call("mcp__task__create", **facts)["data"]["id"]

    def review(self) -> None:
        """Approve the work."""
        self.say("The diff does what the task asks for, and nothing else.")
        found = re.search(r"Review the work on (task-\d+)", self.text)
        assert found is not None
        self.tools.call("mcp__task__update_status", taskId=found[1], state="COMPLETED")

    def work(self) -> None:
        """Resolve conflicts, then do the action of the task unless it is done."""
        self.resolve_conflicts()
        for kind, name, text in _ACTION.findall(self.text):
            file = self.folder / name
            known = file.read_text() if file.exists() else ""
            if text not in known.splitlines():
                self.say(f"I {kind} `{text}` to {name}." if kind == "append" else f"I write {name}.")
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(f"{known}{text}\n" if kind == "append" else f"{text}\n")
                self.report_edit(name, known, file.read_text())
                self.say("Done.")
            break

    def report_edit(self, name: str, before: str, after: str) -> None:
        """Report a change of a file as a tool call with its diff."""
        diff = {"type": "diff", "path": str(self.folder / name), "oldText": before, "newText": after}
        call = {"toolCallId": f"edit-{time.monotonic_ns()}", "title": f"Edit {name}", "kind": "edit"}
        given = {"status": "completed", "rawInput": {"path": name}, "content": [diff]}
        self.agent.update(self.session, sessionUpdate="tool_call", **call, **given)

    def resolve_conflicts(self) -> None:
        """Keep both sides of each conflict that the prompt names."""
        found = re.search(r"Resolve the conflicts .* in: (.+)", self.text)
        for name in found[1].split(", ") if found else []:
            file = self.folder / name
            lines = file.read_text().splitlines(keepends=True)
            file.write_text("".join(line for line in lines if not line.startswith(("<<<<<<<", "=======", ">>>>>>>"))))


class Agent:
    """The conversation with the process that started this program."""

    def __init__(self, turn: type[Turn] = Turn) -> None:
        self._turn = turn
        self._write = threading.Lock()
        self._sessions: dict[str, tuple[Path, Tools]] = {}
        self.cancelled = threading.Event()

    def send(self, **message: Any) -> None:
        """Write one message."""
        with self._write, contextlib.suppress(BrokenPipeError):
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            sys.stdout.flush()

    def update(self, session: str, **update: Any) -> None:
        """Send a notification about a session."""
        self.send(method="session/update", params={"sessionId": session, "update": update})

    def serve(self) -> None:
        """Handle messages until the input ends."""
        for line in sys.stdin:
            message = json.loads(line)
            if message.get("method") == "session/cancel":
                self.cancelled.set()
            elif "method" in message:
                threading.Thread(target=self.handle, args=[message], daemon=True).start()
            else:
                self.handle_response(message)

    def handle_response(self, message: dict[str, Any]) -> None:
        """Handle the response to a request of this agent, which sends none."""

    def handle(self, message: dict[str, Any]) -> None:
        """Handle one request."""
        params = message.get("params") or {}
        match message["method"]:
            case "initialize":
                capabilities = {"loadSession": False, "mcpCapabilities": {"http": True}}
                result: dict[str, Any] = {"protocolVersion": 1, "agentCapabilities": capabilities}
            case "session/new":
                session = f"session-{os.getpid()}-{len(self._sessions)}"
                tools = Tools(params["mcpServers"][0])
                # Agents list their tools when a session is opened. The runner sees by it that they found them.
                tools.call("mcp__agent__get_status")
                self._sessions[session] = (Path(params["cwd"]), tools)
                result = {"sessionId": session}
            case "session/prompt":
                session = params["sessionId"]
                self.cancelled.clear()
                folder, tools = self._sessions[session]
                text = params["prompt"][0]["text"]
                said = {"type": "text", "text": f"I read {len(text)} characters. "}
                self.update(session, sessionUpdate="agent_message_chunk", content=said)
                reason = self._turn(self, session, folder, tools, text).take()
                result = {"stopReason": reason, "usage": {"totalTokens": len(text) // 4}}
            case method:
                self.send(id=message["id"], error={"code": -32601, "message": f"no method {method}"})
                return
        self.send(id=message["id"], result=result)


if __name__ == "__main__":
    Agent().serve()
