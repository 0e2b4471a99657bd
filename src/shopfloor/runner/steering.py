"""Follow the requests of people and of the agent while a run is driven."""

from __future__ import annotations

from shopfloor.domain.runs import RunState, Wanted
from shopfloor.runner import verification
from shopfloor.runner.context import RunContext


async def follow_run(context: RunContext) -> None:
    """React to every change of the run until it ends: stop it, show open questions, check completed work.

    One call (`run_wait`) waits for each change, so nothing is polled. It fails as soon as another driver has taken the
    run over.
    """
    shown: set[int] = set()
    status = await context.store.wait_for_change()
    while status.state is RunState.ACTIVE:
        context.task = status.task
        if status.wanted is Wanted.STOP:
            context.stop_for_person()
        if context.is_in_turn and status.wish > status.judged:
            await verification.judge_work(context)
        for request in status.requests:
            # Permission requests are shown where they are asked.
            if request.kind == "permission" or request.number in shown:
                continue
            shown.add(request.number)
            how = f"shopfloor inbox answer request-{request.number} {'|'.join(request.options) or 'TEXT'}"
            facts = {"number": request.number, "kind": request.kind, "question": request.question, "how": how}
            context.view.show("asked", run=context.name, **facts)
        status = await context.store.wait_for_change(status.version)
