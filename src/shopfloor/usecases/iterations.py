"""The iterations of a run: how they start and end, what their prompts include, and whether they make progress."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from shopfloor.domain.mail import MAX_BODY_CHARACTERS, SYSTEM, Mail, Participant, agent_participant, run_participant
from shopfloor.domain.run_events import IterationSummarised, RunSteered
from shopfloor.domain.runs import REPEATED_OUTCOMES, Iteration, Message, Progress, PromptMail, Run, check_content
from shopfloor.errors import InvalidState
from shopfloor.repositories.uow import UnitOfWork
from shopfloor.usecases import usage
from shopfloor.usecases.run_tasks import find_next_task, iterate_tasks

MAX_PROMPT_MAIL_CHARACTERS = MAX_BODY_CHARACTERS
"""How much text from others a prompt includes. A single longer text is still included in full."""

_MAX_PROMPT_MAILS = 50
_PAGE_SIZE = 200
_BEYOND = 2**63 - 1
"""Later than every iteration."""


def next_iteration_number(uow: UnitOfWork, run: Run) -> int:
    """Return the number of the next iteration: the last one again if it was cut off or could not work."""
    last = uow.runs.find_iteration(run.name, run.iteration)
    if last is None:
        return run.iteration
    cut_off = last.summary is None and (last.ended_at is None or last.outcome in REPEATED_OUTCOMES)
    return run.iteration if cut_off else run.iteration + 1


def begin_iteration(uow: UnitOfWork, name: str, number: int, *, prompt_changed: bool) -> tuple[Iteration, PromptMail]:
    """Start or restart an iteration, and collect the messages and mail for its prompt."""
    run = uow.runs.lock(name, uow.now)
    if number != run.iteration:
        last = uow.runs.find_iteration(name, run.iteration)
        if last is not None and last.ended_at is None:
            _close_iteration(uow, name, run.iteration, "interrupted", None)
        uow.runs.update(name, uow.now, iteration=number, session=None, wished_in=None)
    iteration = uow.runs.open_iteration(name, number, uow.now)
    uow.runs.update_iteration(name, number, prompt_changed=int(prompt_changed), failure=None)
    uow.emit(RunSteered(run=name))
    return iteration, collect_prompt_mail(uow, name, iteration)


def has_unread(uow: UnitOfWork, name: str) -> bool:
    """Return whether a message or mail waits that no prompt of the run has included.

    The server's mail to a crew's agent does not count: it is about other tasks, such as one returned by the merge
    queue.
    """
    if uow.run_messages.list_undelivered(name, _BEYOND, 1):
        return True
    owner = _get_participant(uow, name)
    waiting = uow.mail.list_undelivered_mail(owner, None, _MAX_PROMPT_MAILS)
    return any(mail.sender != SYSTEM or owner.agent is None for mail in waiting)


def _get_participant(uow: UnitOfWork, name: str) -> Participant:
    """Return the recipient of mail in a run: the crew's agent, or the run itself."""
    worker = uow.runs.get(name).worker
    return run_participant(name) if worker is None else agent_participant(worker)


def collect_prompt_mail(uow: UnitOfWork, name: str, iteration: Iteration) -> PromptMail:
    """Collect the texts for the prompt of an iteration: people's messages first, then mail, as much as fits.

    Each text is included once, and again if the iteration failed or is repeated.
    """
    # Go back over failed iterations: their agents got the texts, but may not have acted on them. Twice is better than
    # never.
    first = iteration
    for earlier in uow.runs.list_iterations(name, _PAGE_SIZE, before=iteration.number):
        if earlier.outcome != "failed":
            break
        first = earlier
    again = first is not iteration or iteration.attempts > 1
    messages = uow.run_messages.list_undelivered(name, first.number, _MAX_PROMPT_MAILS + 1)
    mails = uow.mail.list_undelivered_mail(
        _get_participant(uow, name), first.started_at if again else None, _MAX_PROMPT_MAILS + 1
    )
    everything: list[Message | Mail] = [*messages, *mails]
    kept: list[Message | Mail] = []
    size = 0
    for each in everything:
        size += len(each.body)
        # `kept` first: a single text that is too long is included in full, or it would never be.
        if kept and (size > MAX_PROMPT_MAIL_CHARACTERS or len(kept) == _MAX_PROMPT_MAILS):
            break
        kept.append(each)
    return PromptMail(
        tuple(each for each in kept if isinstance(each, Message)),
        tuple(each for each in kept if isinstance(each, Mail)),
        more=len(kept) < len(everything),
    )


def record_prompt_delivery(
    uow: UnitOfWork, name: str, number: int, messages: Sequence[int], mails: Sequence[int]
) -> None:
    """Record that the agent got the prompt of this iteration. The mail in it now counts as delivered."""
    for message in messages:
        uow.run_messages.set_delivered(name, message, number)
    uow.mail.mark_delivered(_get_participant(uow, name), list(mails), uow.now)


# The files that were dirty before an iteration are stored until its changes are committed. An iteration after one
# without a commit inherits them: otherwise the changes of a killed agent would count as a person's and never be
# committed.


def find_dirty_files(uow: UnitOfWork, name: str) -> dict[str, str] | None:
    """Return the files that were dirty before the first iteration that is not committed yet, or None."""
    files = uow.runs.find_dirty_files(name)
    return None if files is None else json.loads(files)


def set_dirty_files(uow: UnitOfWork, name: str, number: int, files: Mapping[str, str]) -> None:
    """Store the files that are dirty before an iteration, with their digests."""
    uow.runs.set_dirty_files(name, number, json.dumps(files))


def record_commit(uow: UnitOfWork, name: str) -> None:
    """Record that the changes of all iterations so far are committed."""
    uow.runs.clear_dirty_files(name)


def set_session(uow: UnitOfWork, name: str, session: str) -> None:
    """Store the agent's id of its session, so that a resumed run can load it."""
    uow.runs.update(name, uow.now, session=session)


def set_failure(uow: UnitOfWork, name: str, number: int, failure: str) -> None:
    """Record that the work of an iteration did not pass."""
    uow.runs.update_iteration(name, number, failure=failure)


def record_summary(uow: UnitOfWork, run: str, summary: str) -> int:
    """Store the summary of the current iteration, which is final, and return the iteration's number."""
    number = uow.runs.lock(run, uow.now).iteration
    text = check_content(summary, "a summary")
    iteration = uow.runs.find_iteration(run, number) or uow.runs.open_iteration(run, number, uow.now)
    if iteration.summary is not None:
        raise InvalidState(
            f"iteration {number} already has its summary",
            hint="End your turn; the next iteration gets a summary of its own",
        )
    uow.runs.set_summary(run, number, text, uow.now)
    uow.emit(IterationSummarised(run=run, iteration=number))
    return number


def end_iteration(
    uow: UnitOfWork,
    name: str,
    *,
    outcome: str,
    failure: str | None,
    tokens: int,
    cost: int,
    spent: int,
    tree: str = "",
) -> Iteration:
    """Record how the current iteration ended, and its usage since the last report.

    `tree` is a fingerprint of the project's files.
    """
    run = uow.runs.lock(name, uow.now)
    _close_iteration(uow, name, run.iteration, outcome, failure, tree)
    record_usage(uow, run, tokens, cost)
    uow.runs.update(name, uow.now, spent=run.spent + spent)
    uow.emit(RunSteered(run=name))
    ended = uow.runs.find_iteration(name, run.iteration)
    assert ended is not None
    return ended


def record_usage(uow: UnitOfWork, run: Run, tokens: int, cost: int) -> None:
    """Add the usage of a run's current iteration since the last report."""
    iteration = uow.runs.find_iteration(run.name, run.iteration)
    assert iteration is not None
    uow.runs.update_iteration(run.name, run.iteration, tokens=iteration.tokens + tokens, cost=iteration.cost + cost)
    # The agent of a crew works on a task of an epic; a run has tasks of its own.
    task = run.task
    if run.crew is None and (begun := find_next_task(uow, run.name).in_progress) is not None:
        task = begun.number
    usage.record_usage(uow, tokens, cost, agent=run.worker, run=run.name, task=task)
    uow.runs.update(run.name, uow.now, tokens=run.tokens + tokens, cost=run.cost + cost)


def _close_iteration(
    uow: UnitOfWork, name: str, number: int, outcome: str, failure: str | None, tree: str = ""
) -> None:
    fingerprint = hashlib.sha256(tree.encode())
    for task in iterate_tasks(uow, name):
        # A task whose acceptance command changed or was removed is in a different state.
        state = f"{task.number} {task.state} {task.priority} {task.open_blockers} {task.acceptance or ''};"
        fingerprint.update(state.encode())
    uow.runs.update_iteration(
        name, number, outcome=outcome, failure=failure, ended_at=uow.now, board=fingerprint.hexdigest()
    )


def measure_progress(uow: UnitOfWork, name: str) -> Progress:
    """Count the latest iterations without progress, and those with the same failure.

    An iteration makes progress if it leaves the tasks and the project's files in a state that no earlier iteration did.
    Failures are the same if their first lines are: the rest is output, which differs every time.
    """
    ended = [
        each
        for each in uow.runs.list_iterations(name, _PAGE_SIZE)
        if each.ended_at is not None and each.outcome not in REPEATED_OUTCOMES
    ]
    stalled = []
    for position, iteration in enumerate(ended):
        if not any(earlier.board == iteration.board for earlier in ended[position + 1 :]):
            break
        stalled.append(iteration)
    failed = []
    for iteration in ended:
        if iteration.failure is None or _first_line(iteration.failure) != _first_line(ended[0].failure or ""):
            break
        failed.append(iteration)
    return Progress(
        stalled=len(stalled),
        stalled_despite_change=any(each.prompt_changed for each in stalled),
        failed=len(failed),
        failed_despite_change=any(each.prompt_changed for each in failed),
    )


def _first_line(text: str) -> str:
    return text.partition("\n")[0]
