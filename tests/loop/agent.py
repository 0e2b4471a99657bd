"""A test agent: a program of its own that speaks ACP over its standard streams, in one of many manners.

    agent.py BEHAVIOUR

It is written on the standard library, so that it shares nothing with the runner it is driven by. The well-behaved
one plans a task for each line `- make FILE` of the specification, then makes one file per iteration.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

BEHAVIOUR = sys.argv[1]
FOREVER = 10_000


class Tools:
    """The tools of the run, over plain HTTP."""

    def __init__(self, server: dict[str, Any]) -> None:
        self._url = server["url"]
        self._headers = {header["name"]: header["value"] for header in server["headers"]}
        self._count = 0

    def call(self, name: str, **arguments: Any) -> tuple[bool, str]:
        self._count += 1
        body = {
            "jsonrpc": "2.0",
            "id": self._count,
            "method": "tools/call",
            "params": {"name": name, "arguments": arguments},
        }
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2025-06-18",
            **self._headers,
        }
        request = urllib.request.Request(self._url, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=600) as answer:
            result = json.loads(answer.read())["result"]
        return not result["isError"], result["content"][0]["text"]


class Agent:
    """The conversation with whoever started this program."""

    def __init__(self) -> None:
        self._write = threading.Lock()
        self._sessions: dict[str, tuple[Path, Tools]] = {}
        self._asked: dict[int, Any] = {}
        self._answers: dict[int, Any] = {}
        self._stirred = threading.Condition()
        self.cancelled = threading.Event()

    def send(self, **message: Any) -> None:
        with self._write, contextlib.suppress(BrokenPipeError):
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            sys.stdout.flush()

    def raw(self, text: str) -> None:
        with self._write:
            sys.stdout.write(text)
            sys.stdout.flush()

    def update(self, session: str, **update: Any) -> None:
        self.send(method="session/update", params={"sessionId": session, "update": update})

    def ask(self, method: str, **params: Any) -> Any:
        """The answer to a request of ours: the result, or the error."""
        with self._stirred:
            number = 1000 + len(self._asked)
            self._asked[number] = method
        self.send(id=number, method=method, params=params)
        with self._stirred:
            self._stirred.wait_for(lambda: number in self._answers)
            return self._answers[number]

    def serve(self) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            if "method" not in message:
                with self._stirred:
                    self._answers[message["id"]] = message.get("result", message.get("error"))
                    self._stirred.notify_all()
            elif message["method"] == "session/cancel":
                journal("session/cancel", {})
                self.cancelled.set()
            else:
                threading.Thread(target=self.handle, args=[message], daemon=True).start()

    def handle(self, message: dict[str, Any]) -> None:
        method, params = message["method"], message.get("params") or {}
        match method:
            case "initialize":
                if BEHAVIOUR == "hangs_at_start":
                    time.sleep(FOREVER)
                capabilities = {
                    "loadSession": BEHAVIOUR in ("loads", "fails_to_load"),
                    "mcpCapabilities": {"http": True},
                }
                result: dict[str, Any] = {"protocolVersion": 1, "agentCapabilities": capabilities}
                if BEHAVIOUR == "speaks_another_version":
                    result["protocolVersion"] = 99
            case "session/new" | "session/load":
                journal(method, params)
                if method == "session/load" and BEHAVIOUR == "fails_to_load":
                    self.send(id=message["id"], error={"code": -32602, "message": "no such session"})
                    return
                session = params.get("sessionId") or f"session-{os.getpid()}-{len(self._sessions)}"
                self._sessions[session] = (Path(params["cwd"]), Tools(params["mcpServers"][0]))
                result = {"sessionId": session} if method == "session/new" else {}
            case "session/prompt":
                self.prompt(message["id"], params)
                return
            case _:
                self.send(id=message["id"], error={"code": -32601, "message": f"no method {method}"})
                return
        self.send(id=message["id"], result=result)

    def prompt(self, id: int, params: dict[str, Any]) -> None:
        session, text = params["sessionId"], params["prompt"][0]["text"]
        folder, tools = self._sessions[session]
        journal("session/prompt", {"text": text})
        self.cancelled.clear()
        turn = Turn(self, session, folder, tools, text)
        try:
            answer = getattr(turn, BEHAVIOUR, turn.good)()
        except OSError as error:
            journal("trouble", {"error": str(error)})
            answer = "end_turn"
        self.send(id=id, result=answer if isinstance(answer, dict) else {"stopReason": answer})
        if BEHAVIOUR == "late":
            self.update(
                session, sessionUpdate="agent_message_chunk", content={"type": "text", "text": "one more thing"}
            )
            self.update("session-of-nobody", sessionUpdate="usage_update", used=5, size=10)


class Turn:
    """One turn; a method per behaviour."""

    def __init__(self, agent: Agent, session: str, folder: Path, tools: Tools, text: str) -> None:
        self.agent, self.session, self.folder, self.tools, self.text = agent, session, folder, tools, text

    # The well-behaved one

    def good(self) -> str:
        if "planning iteration" in self.text:
            self.plan()
        elif not self.sum_up_what_was_cut_off():
            self.work()
        return "end_turn"

    def plan(self) -> None:
        """Write down what is not there yet: the iteration may have been cut off before."""
        wanted = re.findall(r"^- make (\S+)$", self.text, re.MULTILINE)
        _, listed = self.tools.call("task-list")
        missing = [{"content": f"make {name}"} for name in wanted if f"make {name}" not in listed]
        if missing:
            self.tools.call("task-add", tasks=missing)
        note = f"{len(wanted)} files are wanted"
        if note not in self.tools.call("note-list")[1]:
            self.tools.call("note-add", notes=[{"content": note, "type": "decision"}])
        self.tools.call("iteration-summary", summary=f"planned {len(wanted)} tasks")

    def sum_up_what_was_cut_off(self) -> bool:
        """Whether this iteration had done its task before it was cut off, and only its summary was missing."""
        if "begun before and cut off" not in self.text:
            return False
        for task in re.findall(r"(TAS-\d+) \[completed", self.tools.call("task-list")[1]):
            if f"did {task}" not in self.text:
                self.tools.call("iteration-summary", summary=f"did {task}")
                return True
        return False

    def work(self, write: bool = True) -> None:
        _, found = self.tools.call("task-next")
        task = re.search(r"TAS-\d+", found)
        if task is not None:
            if "is in progress" not in found:
                self.tools.call("task-update", id=task[0], status="in_progress")
            name = re.search(r"^make (\S+)$", found, re.MULTILINE)
            self.agent.update(
                self.session, sessionUpdate="tool_call", toolCallId="1", title=f"write {name and name[1]}", kind="edit"
            )
            if write and name is not None:
                self.write(name[1])
            self.tools.call("task-update", id=task[0], status="completed")
            self.tools.call("iteration-summary", summary=f"did {task[0]}")
        _, left = self.tools.call("task-next")
        if left.startswith("No task remains"):
            good, said = self.tools.call("session-complete")
            journal("session-complete", {"good": good, "said": said})

    def write(self, name: str) -> None:
        (self.folder / name).write_text(f"content of {name}\n")

    # Those that fail

    def dies(self) -> str:
        sys.stderr.write("something terrible happened\n")
        sys.stderr.flush()
        os._exit(3)

    def dies_once(self) -> str:
        mark = self.folder / ".died"
        if not mark.exists() and "No task" not in self.tools.call("task-next")[1]:
            mark.write_text("")
            os._exit(4)
        return self.good()

    def hangs(self) -> str:
        time.sleep(FOREVER)
        return "end_turn"

    def stops_when_cancelled(self) -> str:
        self.agent.cancelled.wait()
        return "end_turn"  # some say so, and mean cancelled

    def floods(self) -> str:
        text = "x" * 60_000
        while True:
            self.agent.update(self.session, sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})

    def endless_line(self) -> str:
        while True:
            self.agent.raw("x" * 1_000_000)

    def huge(self) -> str:
        big = {"type": "text", "text": "y" * 5_000_000}
        self.agent.update(self.session, sessionUpdate="agent_message_chunk", content=big)
        return self.good()

    def nonsense(self) -> str:
        self.agent.raw(
            'hello there\n[1, 2]\n42\nnull\n{"id": [], "result": 1}\n{"half": \n\n{"id": 99999, "result": {}}\n'
        )
        self.agent.raw('{"jsonrpc": "2.0", "method": "session/update"}\n')
        self.agent.raw('{"jsonrpc": "2.0", "method": "session/update", "params": {"update": {"sessionUpdate": 7}}}\n')
        return self.good()

    def late(self) -> str:
        self.agent.update(self.session, sessionUpdate="tool_call_update", toolCallId="unheard", status="completed")
        self.agent.update(self.session, sessionUpdate="never_seen_before", what=[1, 2])
        self.agent.send(method="_vendor/news", params={"x": 1})
        self.agent.send(method="session/unheard_of", params={"x": 1})
        journal("unknown request", {"answer": self.agent.ask("_vendor/question", x=1)})
        return self.good()

    def lies(self) -> str:
        _, listed = self.tools.call("task-list")
        if listed.startswith("There are no tasks"):
            self.plan()
        self.work(write=False)
        good, said = self.tools.call("session-complete")
        journal("session-complete", {"good": good, "said": said})
        return "end_turn"

    def loops(self) -> str:
        _, listed = self.tools.call("task-list")
        if listed.startswith("There are no tasks"):
            self.plan()
        task = re.search(r"TAS-\d+", listed)
        if task is not None:
            status = "remaining" if "in_progress (1)" in listed else "in_progress"
            self.tools.call("task-update", id=task[0], status=status)
        return "end_turn"

    def refuses(self) -> str:
        return "refusal"

    def runs_out_of_tokens(self) -> str:
        return "max_tokens"

    # Those that are asked to go on

    def loads(self) -> str:
        """Hang in the first turn, so that it can be cut off; be good from then on."""
        mark = self.folder / ".hung"
        if not mark.exists():
            mark.write_text("")
            time.sleep(FOREVER)
        return self.good()

    fails_to_load = loads

    # Those that want something

    def asks(self) -> str:
        _, listed = self.tools.call("task-list")
        if listed.startswith("There are no tasks"):
            self.plan()
            return "end_turn"
        answer = self.agent.ask(
            "session/request_permission",
            sessionId=self.session,
            toolCall={"toolCallId": "7", "title": "write files", "kind": "edit", "rawInput": {}},
            options=[
                {"optionId": "opt-9", "name": "Never!", "kind": "reject_once"},
                {"optionId": "opt-3", "name": "Sure", "kind": "allow_always"},
                {"optionId": "opt-5", "name": "Just now", "kind": "allow_once"},
            ],
        )
        journal("permission", answer)
        self.work(write=answer["outcome"].get("optionId") in ("opt-3", "opt-5"))
        return "end_turn"

    def uses_files(self) -> str:
        root = str(self.folder)
        results = {
            "write": self.agent.ask(
                "fs/write_text_file", sessionId=self.session, path=f"{root}/deep/er.txt", content="one\ntwo\nthree\n"
            ),
            "read": self.agent.ask("fs/read_text_file", sessionId=self.session, path=f"{root}/deep/er.txt"),
            "line": self.agent.ask(
                "fs/read_text_file", sessionId=self.session, path=f"{root}/deep/er.txt", line=2, limit=1
            ),
            "secret": self.agent.ask("fs/read_text_file", sessionId=self.session, path=f"{root}/.env"),
            "outside": self.agent.ask("fs/read_text_file", sessionId=self.session, path="/etc/hostname"),
            "up": self.agent.ask("fs/read_text_file", sessionId=self.session, path=f"{root}/../x"),
            "link": self.agent.ask("fs/read_text_file", sessionId=self.session, path=f"{root}/link"),
            "missing": self.agent.ask("fs/read_text_file", sessionId=self.session, path=f"{root}/missing.txt"),
            "data": self.agent.ask("fs/read_text_file", sessionId=self.session, path=f"{root}/.shopfloor/shopfloor.db"),
        }
        journal("files", results)
        return self.good()

    def uses_up(self) -> dict[str, Any]:
        self.agent.update(
            self.session, sessionUpdate="usage_update", used=700, size=1000, cost={"amount": 0.25, "currency": "USD"}
        )
        self.good()
        usage = {"totalTokens": 900, "inputTokens": 600, "outputTokens": 300}
        return {"stopReason": "end_turn", "usage": usage}

    def slow(self) -> str:
        time.sleep(0.2)
        return self.good()

    def patient(self) -> str:
        while not (self.folder / ".go").exists():
            time.sleep(0.02)
        return self.good()

    def proposes(self) -> str:
        """Plan a task with a command that would prove it, then wait to be let go."""
        if "planning iteration" not in self.text:
            return self.patient()
        self.tools.call("task-add", tasks=[{"content": "make one.txt\nAcceptance command: touch 'pro ved'"}])
        return self.good()

    def gets_stuck(self) -> str:
        _, listed = self.tools.call("task-list")
        if listed.startswith("There are no tasks"):
            self.plan()
            self.tools.call("note-add", notes=[{"content": "which colour?", "type": "stuck"}])
        elif "About 'which colour?': blue" in self.text or "blue" in self.tools.call("note-list")[1]:
            self.tools.call("note-add", notes=[{"content": "blue it is", "type": "decision"}])
            self.work()
        else:
            time.sleep(0.1)
        return "end_turn"

    def last_call(self) -> str:
        self.good()
        self.agent.update(self.session, sessionUpdate="tool_call", toolCallId="2", title="waiting", kind="think")
        self.agent.cancelled.wait()
        time.sleep(0.1)
        good, said = self.tools.call("note-add", notes=[{"content": "my last words", "type": "learning"}])
        journal("last call", {"good": good, "said": said})
        return "cancelled"

    def leaves_children_and_hangs(self) -> str:
        self.leaves_children()
        journal("children", {})
        time.sleep(FOREVER)
        return "end_turn"

    def leaves_children(self) -> str:
        sleeper = [sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(10000)"]
        subprocess.Popen(sleeper)
        subprocess.Popen(sleeper, start_new_session=True)
        if os.fork() == 0:  # a daemon: its parent is gone
            subprocess.Popen(sleeper, start_new_session=True)
            os._exit(0)
        return self.good()


def journal(what: str, facts: Any) -> None:
    """Write down what happened, for the test to read."""
    if path := os.environ.get("LOOP_TEST_JOURNAL"):
        with Path(path).open("a") as file:
            file.write(json.dumps({"what": what, "facts": facts}) + "\n")


def main() -> None:
    if BEHAVIOUR == "dies_at_start":
        sys.stderr.write("no such model\n")
        sys.exit(9)
    if BEHAVIOUR == "ignores_the_end":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=_chatter, daemon=True).start()
    Agent().serve()
    if BEHAVIOUR == "ignores_the_end":
        time.sleep(FOREVER)


def _chatter() -> None:
    """Fill the standard error, which somebody has to read."""
    for _ in range(50):
        sys.stderr.write("chatter " * 1000 + "\n")


if __name__ == "__main__":
    main()
