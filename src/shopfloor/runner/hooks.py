"""Run the project's own commands at fixed moments of a run.

Text from agents reaches a hook on standard input only, never as part of a command line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shopfloor.runner import processes
from shopfloor.runner.processes import CommandResult
from shopfloor.settings import Hook, Moment

OUTPUT_CHARACTERS = 8 * 1024
"""How much of a hook's output the next prompt includes, counted from the end."""


async def run_hooks(
    hooks: Mapping[Moment, Sequence[Hook]], moment: Moment, folder: Path, facts: Mapping[str, Any]
) -> tuple[list[CommandResult], list[str]]:
    """Run the hooks for a moment of the run. Return their results, and the texts for the next prompt."""
    results, prompt_extras = [], []
    environment = {f"LOOP_{name.upper()}": str(facts[name]) for name in ("run", "iteration", "task") if name in facts}
    # Text from agents goes to standard input only. On a command line or in a variable, a shell could run it.
    for hook in hooks.get(moment, ()):
        result = await processes.run_command(
            hook.command,
            folder,
            seconds=hook.seconds,
            environment=environment | {"LOOP_EVENT": moment},
            input=json.dumps({"event": moment, **facts}, ensure_ascii=False).encode() + b"\n",
        )
        results.append(result)
        if hook.to_agent and result.output:
            prompt_extras.append(f"Output of the project's {moment} hook:\n{result.output[-OUTPUT_CHARACTERS:]}")
    return results, prompt_extras
