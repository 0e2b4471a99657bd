"""Check whether the work is done: by the tasks and the acceptance commands, not by the agent's word."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from shopfloor.domain.runs import Run, format_status, format_task_id
from shopfloor.domain.tasks import State, Task
from shopfloor.runner import git, processes
from shopfloor.runner.context import Proof, RunContext
from shopfloor.runner.processes import CommandResult

SHOWN_CHARACTERS = 4_000
"""How much of a failing command's output the agent sees, counted from the end."""


async def judge_work(context: RunContext) -> str | None:
    """Check the work and record the verdict. Return what is wrong, or None if the work is done."""
    async with context.judging:
        snapshot = await context.store.load_snapshot()
        tree = await git.fingerprint_tree(context.project)
        proof = Proof(tree, tuple(map(tuple, list_commands(context, snapshot.tasks))))
        verdict = await _find_fault(context, snapshot.tasks, proof)
        # A proof holds only if the files did not change while the commands ran. Without a repository there is none.
        is_proven = verdict is None and bool(tree) and tree == await git.fingerprint_tree(context.project)
        context.proof = proof if is_proven else None
        await context.store.record_verdict(snapshot.run.wish, verdict)
        return verdict


async def _find_fault(context: RunContext, tasks: Sequence[Task], proof: Proof) -> str | None:
    commands = proof.commands
    # For new features, the acceptance commands often pass before a line is written. Only tasks say what was to be done.
    if not tasks:
        return "there are no tasks: add the work as tasks first"
    # A task may stay blocked if commands prove the work. Without commands, the tasks are the only proof.
    unfinished = {State.IN_PROGRESS, State.PENDING} | (set() if commands else {State.BLOCKED})
    for task in tasks:
        if task.state in unfinished:
            return f"{format_task_id(task.number)} is {format_status(task.state)}"
    # The agent calls the session complete during its turn, and the work is checked again afterwards. A ten-minute suite
    # need not run twice over the same files.
    if commands and proof == context.proof:
        context.view.show("already_verified", run=context.name, commands=list(map(list, commands)))
        return None

    seconds, on_result = context.options.verify_time, show_results(context)
    failing = await find_failing_command(commands, context.project, seconds, on_result)
    return None if failing is None else explain_failure(failing)


def show_results(context: RunContext) -> Callable[[CommandResult], None]:
    """Return a function that shows the result of an acceptance command."""

    def show_result(result: CommandResult) -> None:
        facts = {"command": list(result.command), "exit": result.code, "seconds": round(result.seconds, 1)}
        context.view.show("verified", run=context.name, **facts)

    return show_result


def list_commands(context: RunContext, tasks: Iterable[Task]) -> list[Sequence[str]]:
    """Return the acceptance commands of the run and those that people set for single tasks."""
    of_tasks = [json.loads(task.acceptance) for task in tasks if task.acceptance and task.state is not State.CANCELLED]
    return [*context.options.verify, *of_tasks]


async def check_before_start(context: RunContext) -> None:
    """Run the acceptance commands once before the first iteration, and record whether they already pass."""
    if not context.options.verify:
        return
    failing = await find_failing_command(context.options.verify, context.project, context.options.verify_time)
    await context.store.set_verified_before(passed=failing is None)
    context.view.show("verified_before", run=context.name, passed=failing is None)


def list_blocked(tasks: Iterable[Task]) -> list[str]:
    """Return the ids of the blocked tasks."""
    return [format_task_id(task.number) for task in tasks if task.state is State.BLOCKED]


def summarize_completion(context: RunContext, run: Run, tasks: Sequence[Task]) -> str:
    """Describe the result of a run whose work is verified."""
    commands = len(list_commands(context, tasks))
    noun = "acceptance command" if commands == 1 else "acceptance commands"
    how = f"{commands} {noun} passed" if commands else "no acceptance command was set"
    before = f"; {'it' if commands == 1 else 'they'} passed before the first iteration too"
    before = before if commands and run.verified_before else ""
    blocked = list_blocked(tasks)
    settled = len(tasks) - len(blocked)
    which = f"{settled} of {len(tasks)}" if blocked else f"all of {len(tasks)}"
    left = f"; blocked: {', '.join(blocked)}" if blocked else ""
    return f"{which} tasks are settled and {how}{before}{left}"


async def find_failing_command(
    commands: Sequence[Sequence[str]],
    folder: Path,
    seconds: float,
    on_result: Callable[[CommandResult], None] = lambda _: None,
) -> CommandResult | None:
    """Run the commands one after another and return the first that fails, or None if all pass."""
    for command in dict.fromkeys(tuple(command) for command in commands):
        result = await processes.run_command(command, folder, seconds=seconds)
        on_result(result)
        if not result.passed:
            return result
    return None


def explain_failure(result: CommandResult) -> str:
    """Describe a failure, with the end of the command's output."""
    # If a run stops because of it, only the first line is its reason.
    return f"{result.failure}\nThe end of its output:\n{result.output[-SHOWN_CHARACTERS:] or '(nothing)'}"
