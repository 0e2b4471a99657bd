"""On a terminal the view is live, and single keys answer the agent's requests."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time

from tests.runner.support import FILES, PATIENCE, Project


def test_keys_answer_permission_requests(project: Project):
    ours, theirs = pty.openpty()
    words = [word for word in project.build_arguments("asks") if word != "--headless"]
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
    assert "TAS-3 make three.txt" in seen
    assert project.read_made_files() == {name: f"content of {name}\n" for name in FILES}
