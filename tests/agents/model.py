"""A stub of a model API: chat completions in the style of OpenAI, with a scripted mind.

    model.py PORT-FILE

It serves on a free port, writes the port to the file, and plays a model that works in a loop: it plans one task per
line `- make FILE` of the specification, then makes one file per conversation with the agent's own tool for writing.
What it was asked goes to the standard output, one JSON object a line.
"""

from __future__ import annotations

import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Reply = tuple[str, dict[str, Any]] | str


class Mind:
    """Decides what to say, from the conversation alone."""

    def __init__(self, messages: list[dict[str, Any]], tools: list[str]) -> None:
        self._tools = tools
        self._prompt = next((_text(m) for m in messages if m["role"] == "user" and "# Session" in _text(m)), "")
        self._results = [_text(m) for m in messages if m["role"] == "tool"]

    def reply(self) -> Reply:
        if not self._tools or not self._prompt:
            return "A title"
        plan = self._planning() if "planning iteration" in self._prompt else self._working()
        return plan[len(self._results)] if len(self._results) < len(plan) else "I have ended my turn."

    def _planning(self) -> list[Reply]:
        names = re.findall(r"^- make (\S+)$", self._prompt, re.MULTILINE)
        return [
            self._call("task-add", tasks=[{"content": f"make {name}"} for name in names]),
            self._call("note-add", notes=[{"content": "every file says what it is", "type": "decision"}]),
            self._call("iteration-summary", summary=f"planned {len(names)} tasks"),
        ]

    def _working(self) -> list[Reply]:
        found = self._results[0] if self._results else ""
        task = re.search(r"TAS-\d+", found)
        name = re.search(r"^make (\S+)$", found, re.MULTILINE)
        if task is None or name is None:
            return [self._call("task-next"), self._call("session-complete")]
        folder = re.search(r"Working directory: (\S+)", self._prompt)
        path = f"{folder[1]}/{name[1]}" if folder else name[1]
        return [
            self._call("task-next"),
            self._call("task-update", id=task[0], status="in_progress"),
            (self._named("write"), {"filePath": path, "content": f"content of {name[1]}\n"}),
            self._call("task-update", id=task[0], status="completed"),
            self._call("iteration-summary", summary=f"did {task[0]}"),
            self._call("task-next"),
            *(
                [self._call("session-complete")]
                if len(self._results) > 5 and "No task remains" in self._results[5]
                else []
            ),
        ]

    def _call(self, tool: str, **arguments: Any) -> Reply:
        return self._named(tool), arguments

    def _named(self, tool: str) -> str:
        """The tool under the name that the client gave it."""
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
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        tools = [tool["function"]["name"] for tool in asked.get("tools") or []]
        reply = Mind(asked["messages"], tools).reply()
        print(json.dumps({"tools": tools, "reply": reply}), flush=True)
        if asked.get("stream"):
            self._send("text/event-stream", "".join(_events(reply)))
        else:
            self._send("application/json", json.dumps(_whole(reply)))

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


def _message(reply: Reply) -> dict[str, Any]:
    if isinstance(reply, str):
        return {"role": "assistant", "content": reply}
    call = {"name": reply[0], "arguments": json.dumps(reply[1])}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": call}],
    }


def _reason(reply: Reply) -> str:
    return "stop" if isinstance(reply, str) else "tool_calls"


USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


def _whole(reply: Reply) -> dict[str, Any]:
    choice = {"index": 0, "message": _message(reply), "finish_reason": _reason(reply)}
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "scripted",
        "choices": [choice],
        "usage": USAGE,
    }


def _events(reply: Reply) -> list[str]:
    def event(delta: dict[str, Any], reason: str | None = None, **more: Any) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "scripted", "choices": [choice]}
        return f"data: {json.dumps(chunk | more)}\n\n"

    return [event(_message(reply)), event({}, _reason(reply), usage=USAGE), "data: [DONE]\n\n"]


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    Path(sys.argv[1]).write_text(str(server.server_port))
    server.serve_forever()


if __name__ == "__main__":
    main()
