"""A stub of a model API: chat completions in the style of OpenAI, with scripted replies.

    model.py PORT-FILE

It serves on a free port, writes the port to the file, and plays a model that works in a run or in a crew: it plans one
task per line `- make FILE` of the specification, then makes one file per conversation with the agent's own tool for
writing. It prints each request as one JSON object per line.
"""

from __future__ import annotations

import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PROMPT_MARKS = ("# Session", "Plan the work of a crew", "Your task is")
"""What the prompts of a run, a planner and a worker have, and an agent's own messages have not."""

Reply = tuple[str, dict[str, Any]] | str


class Script:
    """Choose the reply from the conversation alone."""

    def __init__(self, messages: list[dict[str, Any]], tools: list[str]) -> None:
        self._tools = tools
        asked = [_text(message) for message in messages if message["role"] == "user"]
        self._prompt = next((text for text in asked if any(mark in text for mark in PROMPT_MARKS)), "")
        self._results = [_text(m) for m in messages if m["role"] == "tool"]
        # Agents name the folder in their system prompt or in a message of their own.
        said = "\n".join(map(_text, messages))
        folder = re.search(r"[Ww]orking (?:directory: |in the directory: )(/\S+)", said)
        self._folder = None if folder is None else folder[1]

    def reply(self) -> Reply:
        if not self._tools or not self._prompt:
            return "A title"
        if "Plan the work of a crew" in self._prompt:
            plan = self._plan_epic()
        elif "Your task is" in self._prompt:
            plan = self._work_in_crew()
        else:
            plan = self._plan_tasks() if "planning iteration" in self._prompt else self._work_on_task()
        return plan[len(self._results)] if len(self._results) < len(plan) else "I have ended my turn."

    def _plan_tasks(self) -> list[Reply]:
        names = re.findall(r"^- make (\S+)$", self._prompt, re.MULTILINE)
        return [
            self._call("task-add", tasks=[{"content": f"make {name}"} for name in names]),
            self._call("note-add", notes=[{"content": "every file says what it is", "type": "decision"}]),
            self._call("iteration-summary", summary=f"planned {len(names)} tasks"),
        ]

    def _plan_epic(self) -> list[Reply]:
        epic = re.search(r"epic-\d+", self._prompt)
        assert epic is not None
        names = re.findall(r"^- make (\S+)$", self._prompt, re.MULTILINE)
        return [self._call("mcp__task__create", title=f"make {name}", epicId=epic[0]) for name in names]

    def _work_in_crew(self) -> list[Reply]:
        found = re.search(r"Your task is (task-\d+): make (\S+)", self._prompt)
        assert found is not None
        task, name = found.groups()
        comment = {"taskId": task, "body": f"{name} says what it is"}
        return [self._write(name), *self._find_deferred("mcp__task__add_comment", **comment)]

    def _work_on_task(self) -> list[Reply]:
        found = self._results[0] if self._results else ""
        task = re.search(r"TAS-\d+", found)
        name = re.search(r"^make (\S+)$", found, re.MULTILINE)
        if task is None or name is None:
            return [self._call("task-next"), self._call("session-complete")]
        return [
            self._call("task-next"),
            self._call("task-update", id=task[0], status="in_progress"),
            self._write(name[1]),
            self._call("task-update", id=task[0], status="completed"),
            self._call("iteration-summary", summary=f"did {task[0]}"),
            self._call("task-next"),
            *(
                [self._call("session-complete")]
                if len(self._results) > 5 and "No task remains" in self._results[5]
                else []
            ),
        ]

    def _find_deferred(self, tool: str, **arguments: Any) -> list[Reply]:
        """Call a tool; where the agent keeps tools of servers back, ask for its description first."""
        if "tool_search" not in self._tools:
            return [self._call(tool, **arguments)]
        name = f"mcp__shopfloor__{tool}"
        return [("tool_search", {"query": f"select:{name}"}), (name, arguments)]

    def _write(self, name: str) -> Reply:
        """Write a file with the agent's own tool."""
        path = f"{self._folder}/{name}" if self._folder else name
        content = f"content of {name}\n"
        if "write_file" in self._tools:
            return "write_file", {"file_path": path, "content": content}
        return self._find_tool("write"), {"filePath": path, "content": content}

    def _call(self, tool: str, **arguments: Any) -> Reply:
        return self._find_tool(tool), arguments

    def _find_tool(self, tool: str) -> str:
        """Find the name that the client gave a tool."""
        plain = tool.replace("-", "_")
        for name in self._tools:
            if name == tool or name.replace("-", "_").endswith(f"_{plain}"):
                return name
        raise LookupError(f"{tool} is not among {self._tools}")


class Api(BaseHTTPRequestHandler):
    """POST /v1/chat/completions, with and without a stream."""

    def do_GET(self) -> None:
        self._send("application/json", json.dumps({"object": "list", "data": [{"id": "scripted", "object": "model"}]}))

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        tools = [tool["function"]["name"] for tool in request.get("tools") or []]
        reply = Script(request["messages"], tools).reply()
        print(json.dumps({"tools": tools, "reply": reply}), flush=True)
        if request.get("stream"):
            self._send("text/event-stream", "".join(_build_events(reply)))
        else:
            self._send("application/json", json.dumps(_build_completion(reply)))

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _send(self, kind: str, body: str) -> None:
        raw = body.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in content)


def _build_message(reply: Reply) -> dict[str, Any]:
    if isinstance(reply, str):
        return {"role": "assistant", "content": reply}
    call = {"name": reply[0], "arguments": json.dumps(reply[1])}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": call}],
    }


def _get_finish_reason(reply: Reply) -> str:
    return "stop" if isinstance(reply, str) else "tool_calls"


USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


def _build_completion(reply: Reply) -> dict[str, Any]:
    choice = {"index": 0, "message": _build_message(reply), "finish_reason": _get_finish_reason(reply)}
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "scripted",
        "choices": [choice],
        "usage": USAGE,
    }


def _build_events(reply: Reply) -> list[str]:
    def event(delta: dict[str, Any], reason: str | None = None, **more: Any) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "scripted", "choices": [choice]}
        return f"data: {json.dumps(chunk | more)}\n\n"

    return [event(_build_message(reply)), event({}, _get_finish_reason(reply), usage=USAGE), "data: [DONE]\n\n"]


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    Path(sys.argv[1]).write_text(str(server.server_port))
    server.serve_forever()


if __name__ == "__main__":
    main()
