"""A test agent for crews: the scripted agent of the demo, with one of many behaviours.

    crew_agent.py BEHAVIOUR

It writes a ledger of what it did, for the test to check that nothing was done twice.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from shopfloor_demo.crew_agent import Agent, Turn

BEHAVIOUR = sys.argv[1] if len(sys.argv) > 1 else "good"
FOREVER = 10_000


def journal(what: str, **facts: Any) -> None:
    """Write down what happened, for the test to read."""
    if path := os.environ.get("LOOP_TEST_JOURNAL"):
        with Path(path).open("a") as file:
            file.write(json.dumps({"what": what, "facts": facts}) + "\n")


class TestTurn(Turn):
    """A turn with the behaviour that the command line names."""

    __test__ = False

    def take(self) -> str:
        journal("prompt", text=self.text, folder=str(self.folder))
        method = getattr(self, BEHAVIOUR, None)
        return super().take() if method is None else method()

    def good(self) -> str:
        return super().take()

    def _mark_once(self, name: str) -> bool:
        """Return whether this is the first time, over all processes of the test."""
        try:
            Path(os.environ["LOOP_TEST_JOURNAL"]).with_name(f".mark-{name}").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    @property
    def _is_worker(self) -> bool:
        return "Your task is" in self.text

    def slow(self) -> str:
        time.sleep(0.3)
        return self.good()

    def fails_at_first(self) -> str:
        """Write something wrong at first; do it right after the check."""
        if self._is_worker and "is not done yet" not in self.text:
            (self.folder / "wrong.txt").write_text("wrong\n")
            return "end_turn"
        (self.folder / "wrong.txt").unlink(missing_ok=True)
        return self.good()

    def tries(self) -> str:
        """Run each command of attempts.json with a shell, once, and write down its exit code and output."""
        outcomes = self.folder / "outcomes.json"
        if self._is_worker and not outcomes.exists():
            done = {}
            for name, command in json.loads((self.folder / "attempts.json").read_text()).items():
                ran = subprocess.run(command, shell=True, cwd=self.folder, capture_output=True, text=True, check=False)
                done[name] = [ran.returncode, ran.stdout + ran.stderr]
            outcomes.write_text(json.dumps(done))
        return self.good()

    def never_works(self) -> str:
        """End each turn without work, until the test lets it go."""
        if self._is_worker and not Path(os.environ["LOOP_TEST_JOURNAL"]).with_name(".go").exists():
            self.agent.update(self.session, sessionUpdate="usage_update", used=1000, size=2000)
            return "end_turn"
        return self.good()

    def idles_once(self) -> str:
        """End the first turn of a worker without work."""
        if self._is_worker and self._mark_once("idled"):
            return "end_turn"
        return self.good()

    def requests_changes(self) -> str:
        """Die once as a reviewer, then request changes once; make them as a worker."""
        if "Review the work on" in self.text and self._mark_once("dead reviewer"):
            os._exit(3)
        if "Review the work on" in self.text and self._mark_once("review"):
            task = self.text.partition("Review the work on ")[2].partition(":")[0]
            self.tools.call(
                "mcp__task__update_status", taskId=task, state="IN_PROGRESS", comment="write reviewed.txt please"
            )
            (self.folder / "by-reviewer.txt").write_text("must not be merged\n")
            return "end_turn"
        if self._is_worker and "write reviewed.txt please" in self.text:
            (self.folder / "reviewed.txt").write_text("yes\n")
        return self.good()

    def plans_nonsense(self) -> str:
        """Plan what is rejected, so that there is nothing; then a task that waits for a cancelled one; then cancel it."""
        if "Plan the work of a crew" not in self.text:
            return self.good()
        if self._mark_once("nonsense"):
            self.tools.call("mcp__task__create", title="", epicId="epic-999", dependsOn=["task-77"])
        elif self._mark_once("stuck plan"):
            for title, after in (("never", []), ("waits", ["task-1"])):
                self.tools.call("mcp__task__create", title=title, epicId="epic-1", dependsOn=after)
            self.tools.call("mcp__task__update_status", taskId="task-1", state="CANCELLED")
        else:
            self.tools.call("mcp__task__update_status", taskId="task-2", state="CANCELLED")
            return self.good()
        return "end_turn"

    def blocks_once(self) -> str:
        """Ask a person and block the task; continue with the answer."""
        if self._is_worker and "Use blue" not in self.text:
            self.tools.call("mcp__mail__ask", subject="Which colour?", body="Red or blue", timeoutSeconds=0)
            self.tools.call("mcp__task__update_status", state="BLOCKED", comment="a colour is missing")
            return "end_turn"
        return self.good()

    def plans_nothing(self) -> str:
        self.tools.call("mcp__agent__get_status")
        return "end_turn"

    def dies_once(self) -> str:
        if self._is_worker and self._mark_once("died"):
            os._exit(3)
        return self.good()

    def dies(self) -> str:
        os._exit(3)

    def hangs_once(self) -> str:
        if self._is_worker and self._mark_once("hung"):
            time.sleep(FOREVER)
        return self.good()

    def floods_once(self) -> str:
        if self._is_worker and self._mark_once("flooded"):
            text = "x" * 1_000_000
            while True:
                said = {"type": "text", "text": text}
                self.agent.update(self.session, sessionUpdate="agent_message_chunk", content=said)
        return self.good()

    def reports_review(self) -> str:
        """Call the task done by itself, before anything is done; then do it."""
        if self._is_worker and "is not done yet" not in self.text:
            self.tools.call("mcp__task__update_status", state="REVIEW")
            return "end_turn"
        return self.good()

    def asks(self) -> str:
        """Ask for a permission before the work; give up when it is denied."""
        if not self._is_worker:
            return self.good()
        call = {
            "toolCallId": "call-1",
            "title": "make install",
            "kind": "execute",
            "rawInput": {"command": "make install"},
        }
        options = [{"optionId": kind, "name": kind, "kind": kind} for kind in ("allow_once", "reject_once")]
        answer = self._request("session/request_permission", toolCall=call, options=options)
        journal("answer", outcome=answer["result"]["outcome"])
        return self.good()

    def leaves_its_worktree(self) -> str:
        """Write and read through the runner, in the worktree and outside; read with the tools of the server."""
        if self._is_worker:
            project = Path(os.environ["LOOP_TEST_JOURNAL"]).parent
            outcomes: dict[str, Any] = {}
            for name, path in {"inside": self.folder / "mine.txt", "outside": project / "mine.txt"}.items():
                written = self._request("fs/write_text_file", path=str(path), content="mine\n")
                outcomes[f"write {name}"] = "error" not in written
            for name, path in {"inside": self.folder / ".gitignore", "outside": project / ".gitignore"}.items():
                outcomes[f"read {name}"] = self._request("fs/read_text_file", path=str(path))
            journal("files", **outcomes, tool=self.tools.call("read_file", path=".gitignore"))
        return self.good()

    def _request(self, method: str, **params: Any) -> dict[str, Any]:
        assert isinstance(self.agent, TestAgent)
        return self.agent.request(method, {"sessionId": self.session, **params})

    def oversteps(self) -> str:
        """Try to change other tasks before the approval, as a reviewer."""
        if "Review the work on" not in self.text:
            return self.good()
        for tool, facts in (
            ("mcp__task__update_status", {"taskId": "task-2", "state": "CANCELLED"}),
            ("mcp__task__update_status", {"taskId": "task-1", "state": "FAILED"}),
            ("mcp__task__create", {"title": "more"}),
            ("mcp__task__assign", {"taskId": "task-2", "agentId": "crew-reviewer"}),
            ("mcp__task__claim", {}),
            ("mcp__epic__create", {"title": "more"}),
        ):
            answer = self.tools.call(tool, **facts)
            journal("overstep", tool=tool, success=answer["success"])
        return self.good()

    def fixes_what_breaks_together(self) -> str:
        """Wait until the test lets it go; write fixed.txt when the work fails only with that of others."""
        if self._is_worker and "after the merge with the work of others" in self.text:
            (self.folder / "fixed.txt").write_text("yes\n")
        return self.waits()

    def waits(self) -> str:
        """Wait until the test lets it go."""
        go = Path(os.environ["LOOP_TEST_JOURNAL"]).with_name(".go")
        while self._is_worker and not go.exists() and not self.agent.cancelled.is_set():
            time.sleep(0.02)
        return "cancelled" if self.agent.cancelled.is_set() else self.good()


class TestAgent(Agent):
    """The scripted agent, which can send requests of its own."""

    __test__ = False

    def __init__(self) -> None:
        super().__init__(TestTurn)
        self._answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and wait for the response."""
        self.send(id="request-1", method=method, params=params)
        return self._answers.get()

    def handle(self, message: dict[str, Any]) -> None:
        if message["method"] == "session/set_model":
            journal("model", model=message["params"]["modelId"], session=message["params"]["sessionId"])
            self.send(id=message["id"], result={})
        else:
            super().handle(message)

    def send(self, **message: Any) -> None:
        if BEHAVIOUR == "has_models" and "sessionId" in message.get("result", {}):
            offered = [{"modelId": id, "name": id} for id in ("fast-1", "deep-2", "deep-3")]
            message["result"]["models"] = {"currentModelId": "fast-1", "availableModels": offered}
        super().send(**message)

    def handle_response(self, message: dict[str, Any]) -> None:
        self._answers.put(message)


if __name__ == "__main__":
    TestAgent().serve()
