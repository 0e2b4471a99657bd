"""The work of a run: a specification that the agent turns into tasks and completes iteration by iteration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shopfloor.domain.runs import RunSnapshot, RunState
from shopfloor.domain.tasks import State as TaskState
from shopfloor.runner import decisions, git, prompt, verification
from shopfloor.runner.context import (
    AGENT_FAILED,
    NO_PROGRESS,
    NO_TASKS,
    TASKS_BLOCKED,
    Ending,
    RunContext,
    Wait,
)
from shopfloor.runner.moves import State
from shopfloor.runner.run_store import BegunIteration


@dataclass(frozen=True, slots=True)
class SpecificationWork:
    """Work on a specification. `template` is the prompt template."""

    template: str

    async def begin(self, context: RunContext) -> None:
        """Verify the project once before the work begins."""
        if not context.options.verify:
            context.view.show(
                "warning",
                text="no acceptance command: only the agent decides that it is done; add --verify 'make test'",
            )
        if (await context.store.load_snapshot()).last_iteration is not None:
            return
        if context.run.start_tree is None and (tree := await git.snapshot_tree(context.project)) is not None:
            await context.store.set_start_tree(tree)
        if context.run.verified_before is None:
            await verification.check_before_start(context)

    def needs_verification(self, context: RunContext, snapshot: RunSnapshot) -> bool:
        """Report whether the work must be verified: after an iteration in which the agent called it complete or left no
        task."""
        if decisions.needs_plan_approval(context, snapshot) and not snapshot.has_unread:
            return True
        if decisions.list_unproven(context, snapshot.tasks):
            return True
        # Unread messages cause one more iteration: the agent may have to do more before the work is done.
        last = snapshot.last_iteration
        if snapshot.has_unread or last is None:
            return False
        # Once after each iteration.
        if context.verified_after == snapshot.run.iteration:
            return False
        if snapshot.run.wished_in is not None:
            return True
        # An iteration that was cut off is repeated: its agent may have had more to do after its last task.
        if last.ended_at is None and snapshot.next_number == last.number:
            return False
        finished = (TaskState.COMPLETED, TaskState.CANCELLED)
        return bool(snapshot.tasks) and all(task.state in finished for task in snapshot.tasks)

    async def find_obstacle(self, context: RunContext, snapshot: RunSnapshot) -> Wait | Ending | None:
        """Return the answer to wait for if nothing else can be done, or the ending if there is no progress."""
        if snapshot.questions and not snapshot.has_unread and not _has_ready_task(snapshot):
            return _new_answer_wait(context, snapshot)
        return _check_progress(context, snapshot)

    async def write_prompt(self, context: RunContext, begun: BegunIteration, extras: Sequence[str]) -> str:
        """Fill in the template with the specification, the tasks, the notes and the history."""
        sections, number = await context.store.read_prompt_sections(), begun.iteration.number
        first = [context.options.extra] if context.options.extra else []
        if number == 0 or not sections.has_tasks:
            first.append(prompt.PLAN)
        elif context.options.approve_plan and not begun.run.plan_approved:
            first.append(prompt.REPLAN)
        values = {
            "session": context.name,
            "iteration": str(number),
            "spec": begun.run.spec,
            "tasks": sections.tasks,
            "notes": sections.notes,
            "history": sections.history,
            "extra": "\n\n".join([*first, *extras]),
        }
        return prompt.fill_template(self.template, values)

    async def list_commands(self, context: RunContext) -> list[Sequence[str]]:
        """Return the acceptance commands of the run and those that people set for single tasks."""
        return verification.list_commands(context, (await context.store.load_snapshot()).tasks)

    async def verify(self, context: RunContext) -> State:
        """Judge the work by its tasks, its acceptance commands, its reviewer, and the person who approves its plan."""
        snapshot = await context.store.load_snapshot()
        if decisions.needs_plan_approval(context, snapshot):
            await decisions.approve_plan(context, snapshot)
            return State.DECIDE
        if unproven := decisions.list_unproven(context, snapshot.tasks):
            await decisions.prove_tasks(context, unproven)
            return State.DECIDE
        context.verified_after = context.run.iteration
        verdict = await verification.judge_work(context)
        if verdict is None:
            snapshot = await context.store.load_snapshot()
            # Messages that arrived while the commands ran cause one more iteration.
            if snapshot.has_unread:
                return State.DECIDE
            if snapshot.questions:
                context.wait = _new_answer_wait(context, snapshot)
                return State.WAIT
            reason = verification.summarize_completion(context, snapshot.run, snapshot.tasks)
            if verification.list_blocked(snapshot.tasks):
                context.set_ending(Ending(RunState.BLOCKED, TASKS_BLOCKED, context.resume_hint(reason)))
                return State.FINISH
            if context.options.reviewer is not None:
                verdict = await decisions.review_run(context, snapshot, reason)
            if verdict is None:
                context.set_ending(Ending(RunState.COMPLETED, 0, reason))
                return State.FINISH
            if context.ending is not None:
                return State.FINISH
        else:
            # The completion was not final: single tasks must pass their commands again.
            context.proven.clear()
        context.view.show("not_verified", run=context.name, verdict=verdict)
        context.prompt_extras.append(f"The work was checked and is not done yet: {verdict}")
        await context.store.set_failure(context.run.iteration, f"not verified: {verdict.splitlines()[0]}")
        return State.DECIDE


def _has_ready_task(snapshot: RunSnapshot) -> bool:
    return any(
        task.state is TaskState.IN_PROGRESS or (task.state is TaskState.PENDING and not task.open_blockers)
        for task in snapshot.tasks
    )


def _new_answer_wait(context: RunContext, snapshot: RunSnapshot) -> Wait:
    numbers = ", ".join(f"request-{request.number}" for request in snapshot.questions)
    return Wait(f"an answer to {numbers}", context.options.question_time, for_answer=True)


def _check_progress(context: RunContext, snapshot: RunSnapshot) -> Ending | None:
    """Report a lack of progress in the prompt once; return the ending if that does not help."""
    limit, progress, last = context.options.no_progress, snapshot.progress, snapshot.last_iteration
    context.prompt_changed = 0
    # A resume is another try: it gets at least one more iteration.
    if context.has_begun and progress.failed >= limit and progress.failed_despite_change:
        assert last is not None
        reason = context.resume_hint(f"the same failure occurred {progress.failed} times: {last.failure}")
        if last.outcome == "failed":
            return Ending(RunState.FAILED, AGENT_FAILED, reason)
        if last.outcome == "ended":
            return _new_standstill(context, snapshot, reason)
        return Ending(RunState.STOPPED, NO_PROGRESS, reason)
    if context.has_begun and progress.stalled >= limit and progress.stalled_despite_change:
        reason = context.resume_hint(f"no task has moved in {progress.stalled} iterations")
        return _new_standstill(context, snapshot, reason)
    if max(progress.stalled, progress.failed) >= limit:
        context.prompt_changed = max(progress.stalled, progress.failed)
    return None


def _new_standstill(context: RunContext, snapshot: RunSnapshot, reason: str) -> Ending:
    """Return the ending of a run without progress: no tasks, only blocked ones, or another reason."""
    if not snapshot.tasks:
        reason = context.resume_hint("the agent has planned no task")
        return Ending(RunState.EMPTY, NO_TASKS, reason)
    blocked = verification.list_blocked(snapshot.tasks)
    if blocked and not _has_ready_task(snapshot):
        reason = context.resume_hint(f"no task is ready; blocked: {', '.join(blocked)}")
        return Ending(RunState.BLOCKED, TASKS_BLOCKED, reason)
    return Ending(RunState.STOPPED, NO_PROGRESS, reason)
