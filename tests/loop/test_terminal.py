"""A person sits at the terminal: the view is live, and single keys answer what the agent asks."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time

from tests.loop.support import FILES, PATIENCE, Project


def test_keys_answer_what_the_agent_asks(project: Project):
    ours, theirs = pty.openpty()
    words = [word for word in project.start_words("asks") if word != "--headless"]
    process = subprocess.Popen(
        project.command(*words), env=project.environment | {"TERM": "xterm"}, cwd=project.root, stdin=theirs,
        stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    seen = ""
    asked = 0
    limit = time.monotonic() + PATIENCE
    while time.monotonic() < limit:
        ready, _, _ = select.select([ours], [], [], 0.5)
        try:
            seen += os.read(ours, 65536).decode(errors="replace") if ready else ""
        except OSError:
            break
        if f"question {asked + 1}:" in seen:
            asked += 1
            os.write(ours, b"xa")
    assert process.wait(timeout=PATIENCE) == 0
    os.close(ours)
    assert asked == len(FILES)
    assert "May the agent edit: write files?" in seen
    assert "iteration ended: run run, iteration 3, outcome ended" in seen
    assert project.made() == {name: f"content of {name}\n" for name in FILES}
