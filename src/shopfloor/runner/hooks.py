"""Hooks: commands of the project's own that run at fixed moments. What agents wrote reaches them on standard input
only, never as a part of a command."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shopfloor.runner import processes
from shopfloor.runner.processes import Outcome
from shopfloor.settings import Hook, Moment

OUTPUT_LIMIT = 8 * 1024


async def run(
    hooks: Mapping[Moment, Sequence[Hook]], moment: Moment, folder: Path, facts: Mapping[str, Any]
) -> tuple[list[Outcome], list[str]]:
    """What came of each hook of this moment, and what the agent should read of it."""
    outcomes, for_agent = [], []
    environment = {f"LOOP_{name.upper()}": str(facts[name]) for name in ("run", "iteration", "task") if name in facts}
    for hook in hooks.get(moment, ()):
        outcome = await processes.run(
            hook.command,
            folder,
            seconds=hook.seconds,
            environment=environment | {"LOOP_EVENT": moment},
            input=json.dumps({"event": moment, **facts}, ensure_ascii=False).encode() + b"\n",
        )
        outcomes.append(outcome)
        if hook.to_agent and outcome.said:
            for_agent.append(f"Output of the project's {moment} hook:\n{outcome.said[-OUTPUT_LIMIT:]}")
    return outcomes, for_agent
