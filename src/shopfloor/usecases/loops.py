"""Runs: their tasks, what they learn, how they are driven, and how people steer them."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shopfloor.domain import loops
from shopfloor.domain.actors import Kind, Principal
from shopfloor.domain.loops import (
    CompletionJudged,
    CompletionWished,
    Iteration,
    IterationSummarised,
    Message,
    Note,
    NoteAdded,
    Request,
    Run,
    RunAnswered,
    RunAsked,
    RunEnded,
    RunNotFound,
    RunStarted,
    RunState,
    RunSteered,
    RunTaskChanged,
    Told,
    Wanted,
    spell,
    task_id,
)
from shopfloor.domain.mail import BODY_LIMIT, Mail, run_party
from shopfloor.domain.tasks import DEFAULT_PRIORITY, BoardKind, IllegalMove, State, Task, TaskNotFound
from shopfloor.errors import InvalidInput, NotFound, WrongState
from shopfloor.repositories.tasks import Tasks
from shopfloor.repositories.work import Work
from shopfloor.usecases import identity, processes, tasks

ALLOW, DENY = "allow", "deny"
WITHDRAWN = "withdrawn"
"""The answer to a question that no longer matters."""

TOLD_LIMIT = BODY_LIMIT
"""Characters that a prompt carries of what others wrote; a single longer text still goes whole."""

_TOLD = 50
_TASK = re.compile(rf"(?:{loops.TASK_PREFIX})?([0-9]{{1,18}})", re.IGNORECASE)
_PAGE = 200


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task to be added."""

    content: str
    status: str = ""
    priority: float | None = None


@dataclass(frozen=True, slots=True)
class Next:
    """What to do next, and what stands in the way."""

    task: Task | None
    in_progress: Task | None
    waiting: int


# Tasks


def add_tasks(work: Work, run: str, new: Sequence[NewTask]) -> list[Task]:
    """All of the tasks, or none of them."""
    _refuse_twins(new)
    work.runs.held(run, work.now)
    board = work.tasks_of(BoardKind.LOOP, run)
    return [_add_task(work, board, run, each) for each in new]


def _refuse_twins(new: Sequence[NewTask]) -> None:
    """Refuse a batch in which two tasks are the same."""
    first: dict[str, int] = {}
    for at, task in enumerate(new, 1):
        before = first.setdefault(loops.content_key(task.content), at)
        if before != at:
            raise InvalidInput(
                f"tasks {before} and {at} of this call have the same content: {_short(task.content)}",
                hint="Nothing was added. Call again with each task once",
            )


def _add_task(work: Work, board: Tasks, run: str, new: NewTask) -> Task:
    content = _content(new.content, "a task")
    key = loops.content_key(content)
    same = board.with_content(key)
    if same is not None:
        raise InvalidInput(
            f"the same content is in {task_id(same.number)} already: {_short(same.title)}",
            hint=f"Nothing was added. Leave it out, or change {task_id(same.number)} with task-update",
        )
    state = loops.read_status(new.status.strip()) if new.status.strip() else State.PENDING
    _keep_one_in_progress(board, state, None)
    task = board.add(
        title=content,
        now=work.now,
        state=state.value,
        priority=DEFAULT_PRIORITY if new.priority is None else loops.read_priority(new.priority),
        content_key=key,
        completed_at=work.now if state is State.COMPLETED else None,
    )
    work.tell(RunTaskChanged(run=run, task=task.number))
    _propose(work, run, task)
    return task


def _propose(work: Work, run: str, task: Task) -> None:
    """Ask a person whether the command that a task names may prove it done; until then it is just text."""
    command = loops.proposed_command(task.title)
    if command is not None:
        question = f"May this command prove {task_id(task.number)} done? {shlex.join(command)}"
        ask_person(work, run, "acceptance", question, (ALLOW, DENY), json.dumps([task.number, command]))


def update_task(
    work: Work, run: str, id: str, status: str = "", priority: float | None = None, depends_on: str = ""
) -> Task:
    """The task after all of the changes; when one of them cannot be made, none is."""
    work.runs.held(run, work.now)
    board = work.tasks_of(BoardKind.LOOP, run)
    task = find(board, id)
    _depend(board, task, depends_on)
    if priority is not None:
        task = board.change(task.number, work.now, priority=loops.read_priority(priority))
    if status.strip():
        task = _move(work, board, task, loops.read_status(status.strip()))
    work.tell(RunTaskChanged(run=run, task=task.number))
    return board.get(task.number)


def _move(work: Work, board: Tasks, task: Task, state: State) -> Task:
    _keep_one_in_progress(board, state, task)
    try:
        return tasks.move(work, board, task, state)
    except IllegalMove:
        raise InvalidInput(
            f"{task_id(task.number)} is {spell(task.state)}, and that is final",
            hint="Nothing was changed. If there is more to do, add a new task with task-add",
        ) from None


def _keep_one_in_progress(board: Tasks, state: State, task: Task | None) -> None:
    if state is not State.IN_PROGRESS:
        return
    for other in board.page(limit=2, state=State.IN_PROGRESS):
        if task is None or other.number != task.number:
            raise InvalidInput(
                f"{task_id(other.number)} is in progress, and only one task can be",
                hint=f"Nothing was changed. Finish {task_id(other.number)} first, or set it to remaining or blocked",
            )


def _depend(board: Tasks, task: Task, depends_on: str) -> None:
    """Apply a list like 'TAS-1, -TAS-2': what goes first, then what comes."""
    wanted = [part for part in (part.strip() for part in depends_on.split(",")) if part]
    for part in wanted:
        if part.startswith("-"):
            tasks.undepend(board, task.number, find(board, part[1:]).number)
    for part in wanted:
        if not part.startswith("-"):
            _depend_on(board, task, find(board, part))


def _depend_on(board: Tasks, task: Task, blocker: Task) -> None:
    try:
        tasks.depend(board, task.number, blocker.number)
    except InvalidInput:
        what = "itself" if task.number == blocker.number else f"{task_id(blocker.number)}, which waits for it"
        raise InvalidInput(
            f"{task_id(task.number)} cannot wait for {what}",
            hint="Nothing was changed. Choose another order, or remove a dependency with a minus sign: -TAS-1",
        ) from None


def find(board: Tasks, id: str) -> Task:
    """The task of that id, or the only one whose id begins so."""
    text = id.strip()
    match = _TASK.fullmatch(text)
    if match is not None:
        try:
            return board.get(int(match[1]))
        except TaskNotFound:
            pass
    if match is None and not loops.TASK_PREFIX.startswith(text.upper() or "-"):
        raise _no_task(text)
    found = board.beginning_with(match[1] if match else "", 2)
    if len(found) > 1:
        raise InvalidInput(
            f"'{text}' stands for more than one task: {', '.join(map(task_id, found))}, …",
            hint="Write the whole id",
        )
    if not found:
        raise _no_task(text)
    return board.get(found[0])


def _no_task(text: str) -> NotFound:
    return NotFound(f"there is no task '{text[:40]}'", hint="See the ids with task-list")


def next_task(work: Work, run: str) -> Next:
    """The task to begin with: unblocked, most urgent, oldest."""
    board = work.tasks_of(BoardKind.LOOP, run)
    ready = board.ready(run, claiming=False)
    in_progress = board.page(limit=1, state=State.IN_PROGRESS)
    return Next(
        ready[0] if ready else None,
        in_progress[0] if in_progress else None,
        board.count(state=State.PENDING) if not ready else 0,
    )


def all_tasks(work: Work, run: str) -> Iterator[Task]:
    """Every task of a run, by number."""
    board = work.tasks_of(BoardKind.LOOP, run)
    after = 0
    while page := board.page(limit=_PAGE, after=after):
        yield from page
        after = page[-1].number


def accept(work: Work, run: str, id: str, command: str | None) -> Task:
    """The task, with the command (a JSON list) that has to pass before the run counts as done. Only people get here;
    what was proposed for the task is settled by it."""
    work.runs.held(run, work.now)
    board = work.tasks_of(BoardKind.LOOP, run)
    task = board.change(find(board, id).number, work.now, acceptance=command)
    for request in work.run_talk.pending(_PAGE, run):
        if request.kind == "acceptance" and json.loads(request.about or "[0]")[0] == task.number:
            _take_back(work, request)
    work.tell(RunTaskChanged(run=run, task=task.number))
    return task


# Notes and summaries


def add_notes(work: Work, run: str, new: Sequence[tuple[str, str]]) -> list[Note]:
    """All of the notes, given as type and content, or none of them; a stuck one asks a person."""
    held = work.runs.held(run, work.now)
    notes = []
    for type, content in new:
        note = work.run_talk.add_note(
            run, held.iteration, loops.read_note_type(type.strip()), _content(content, "a note"), work.now
        )
        work.tell(NoteAdded(run=run, note=note.number))
        if note.type == "stuck":
            ask_person(work, run, "stuck", note.content)
        notes.append(note)
    return notes


def summarise(work: Work, run: str, summary: str) -> int:
    """The number of the iteration that has its summary now, once and for all."""
    number = work.runs.held(run, work.now).iteration
    text = _content(summary, "a summary")
    iteration = work.runs.iteration(run, number) or work.runs.open_iteration(run, number, work.now)
    if iteration.summary is not None:
        raise WrongState(
            f"iteration {number} has its summary already",
            hint="End your turn; the next iteration gets a summary of its own",
        )
    work.runs.summarise(run, number, text, work.now)
    work.tell(IterationSummarised(run=run, iteration=number))
    return number


def _content(text: str, what: str) -> str:
    text = text.strip()
    if not text:
        raise InvalidInput(f"the content of {what} must not be blank", hint="Nothing was added. Say it in a sentence")
    return text


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 80 else f"{line[:79]}…"


# Completion: the agent wishes, the runner judges


def open_tasks(work: Work, run: str) -> list[Task]:
    """Some of the tasks that are not finished: in progress ones first, then remaining ones."""
    board = work.tasks_of(BoardKind.LOOP, run)
    return board.page(limit=5, state=State.IN_PROGRESS) + board.page(limit=5, state=State.PENDING)


def wish_completion(work: Work, run: str) -> Run:
    """The run, for which the agent said that all is done; refused while it plainly is not."""
    open = open_tasks(work, run)
    if open:
        raise WrongState(
            f"{task_id(open[0].number)} is {spell(open[0].state)}",
            hint="Complete, block or cancel every task first; task-list shows them",
        )
    held = work.runs.held(run, work.now)
    wished = work.runs.change(run, work.now, wish=held.wish + 1, wished_in=held.iteration)
    work.tell(CompletionWished(run=run))
    return wished


def judge(work: Work, run: str, wish: int, verdict: str | None) -> None:
    """Write down what came of a wish; one that was turned down stands no longer."""
    changes = {} if verdict is None else {"wished_in": None}
    work.runs.change(run, work.now, judged=wish, verdict=verdict, **changes)
    work.tell(CompletionJudged(run=run))


def is_driven(work: Work, run: Run) -> bool:
    """Whether a process drives the run right now."""
    return run.process is not None and processes.lives(work, run.process)


# Driving


def principal(work: Work, name: str | None) -> Principal:
    """The run of that name, or the latest one."""
    run = work.runs.get(name) if name is not None else work.runs.latest()
    if run is None:
        raise RunNotFound("there is no run yet", hint="Begin one: shopfloor run --spec SPEC.md --agent 'opencode acp'")
    return Principal(Kind.RUN, run.name)


def create(work: Work, name: str, *, spec: str, project: str, options: str) -> Run:
    """A new run."""
    if not work.runs.add(loops.run_name(name), spec=spec, project=project, options=options, now=work.now):
        raise InvalidInput(
            f"there is a run '{name}' already",
            hint=f"Go on with it: shopfloor run --resume {name}; or choose another --name",
        )
    return work.runs.get(name)


def free_name(work: Work, wanted: str) -> str:
    """The name, or the first of NAME-2, NAME-3, … that is free."""
    base = re.sub(r"[^A-Za-z0-9._-]+", "-", wanted).strip("-._")[:56] or "run"
    names = [base, *(f"{base}-{number}" for number in range(2, 10_000))]
    for name in names:
        try:
            work.runs.get(name)
        except RunNotFound:
            return name
    raise InvalidInput(f"there are too many runs called {base}", hint="Choose a name with --name")


def drive(work: Work, name: str, options: str, spec: str | None = None) -> tuple[Run, str]:
    """The run, driven by this process from now on, perhaps with a new specification, and a token for its agent. One
    process at a time drives a run."""
    processes.bury(work)
    run = work.runs.held(name, work.now)
    if is_driven(work, run) and run.process != work.process:
        raise WrongState(
            f"the run '{name}' is under way in another process",
            hint=f"Steer it: shopfloor say|pause|stop {name}",
        )
    withdraw(work, name)
    work.tokens.revoke_all(Kind.RUN, name, work.now)
    run = work.runs.change(
        name, work.now, state=RunState.ACTIVE, wanted=Wanted.GO, reason=None, ended_at=None, options=options,
        process=work.process,
    )  # fmt: skip
    if spec is not None:
        run = work.runs.change(name, work.now, spec=spec)
    work.tell(RunStarted(run=name))
    return run, identity.issue_for_run(work, name)


def next_number(work: Work, name: str) -> int:
    """The number of the next iteration: the last one again when it was cut off before its summary."""
    run = work.runs.get(name)
    last = work.runs.iteration(name, run.iteration)
    if last is None:
        return run.iteration
    cut_off = last.ended_at is None and last.summary is None
    return run.iteration if cut_off else run.iteration + 1


def begin_iteration(work: Work, name: str, number: int, *, retold: bool) -> tuple[Iteration, Told]:
    """The iteration, under way, and what others have written to it."""
    run = work.runs.held(name, work.now)
    if number != run.iteration:
        last = work.runs.iteration(name, run.iteration)
        if last is not None and last.ended_at is None:
            _close(work, name, run.iteration, "interrupted", None)
        work.runs.change(name, work.now, iteration=number, session=None, wished_in=None)
    iteration = work.runs.open_iteration(name, number, work.now)
    work.runs.change_iteration(name, number, retold=int(retold), failure=None)
    work.tell(RunSteered(run=name))
    return iteration, to_tell(work, name, iteration)


def to_tell(work: Work, name: str, iteration: Iteration) -> Told:
    """What the prompt of an iteration carries of what others wrote: people's words first, then mail, as much as fits.
    It is told once, and again when an agent failed over it or the iteration is redone: rather twice than lost."""
    first = iteration
    for earlier in work.runs.iterations(name, _PAGE, before=iteration.number):
        if earlier.outcome != "failed":
            break
        first = earlier
    again = first is not iteration or iteration.attempts > 1
    messages = work.run_talk.untold(name, first.number, _TOLD + 1)
    mails = work.mail.to_show(run_party(name), first.started_at if again else None, _TOLD + 1)
    return _fitting(messages, mails)


def _fitting(messages: Sequence[Message], mails: Sequence[Mail]) -> Told:
    everything: list[Message | Mail] = [*messages, *mails]
    kept: list[Message | Mail] = []
    size = 0
    for each in everything:
        size += len(each.body)
        if kept and (size > TOLD_LIMIT or len(kept) == _TOLD):
            break
        kept.append(each)
    return Told(
        tuple(each for each in kept if isinstance(each, Message)),
        tuple(each for each in kept if isinstance(each, Mail)),
        more=len(kept) < len(everything),
    )


def told(work: Work, name: str, number: int, told: Told) -> None:
    """The agent has the prompt of this iteration, and with it what others wrote: mail counts as delivered now."""
    for message in told.messages:
        work.run_talk.told(message.number, number)
    work.mail.deliver(run_party(name), [mail.id for mail in told.mails], work.now)


def end_iteration(
    work: Work, name: str, *, outcome: str, failure: str | None, tokens: int, cost: int, spent: int
) -> None:
    """Write down how the iteration ended and what it used."""
    run = work.runs.held(name, work.now)
    _close(work, name, run.iteration, outcome, failure)
    work.runs.change_iteration(name, run.iteration, tokens=tokens, cost=cost)
    work.runs.change(name, work.now, tokens=run.tokens + tokens, cost=run.cost + cost, spent=run.spent + spent)
    work.tell(RunSteered(run=name))


def _close(work: Work, name: str, number: int, outcome: str, failure: str | None) -> None:
    work.runs.change_iteration(
        name, number, outcome=outcome, failure=failure, ended_at=work.now, board=_fingerprint(work, name)
    )


def _fingerprint(work: Work, name: str) -> str:
    """The same as long as no task was added, moved, ranked or made to wait."""
    digest = hashlib.sha256()
    for task in all_tasks(work, name):
        digest.update(f"{task.number} {task.state} {task.priority} {task.open_blockers};".encode())
    return digest.hexdigest()


def standstill(work: Work, name: str) -> tuple[int, bool]:
    """For how many iterations no task has come to a state of the board that was not there before, and whether one
    of them had a changed prompt."""
    ended = [each for each in work.runs.iterations(name, _PAGE) if each.ended_at is not None]
    count, retold = 0, False
    for at, iteration in enumerate(ended):
        if not any(earlier.board == iteration.board for earlier in ended[at + 1 :]):
            break
        count, retold = count + 1, retold or bool(iteration.retold)
    return count, retold


def repeated_failure(work: Work, name: str) -> tuple[int, bool]:
    """For how many iterations the same failure came again, and whether one of them had a changed prompt. Its first
    line tells which one it is."""
    ended = [each for each in work.runs.iterations(name, _PAGE) if each.ended_at is not None]
    same = []
    for iteration in ended:
        if iteration.failure is None or _first_line(iteration.failure) != _first_line(ended[0].failure or ""):
            break
        same.append(iteration)
    return len(same), any(iteration.retold for iteration in same)


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def finish(work: Work, name: str, state: RunState, reason: str) -> Run:
    """The run at its end. Its token opens nothing any more, and its questions matter no more."""
    withdraw(work, name, kinds=("permission", "acceptance") if state is RunState.COMPLETED else ("permission",))
    work.tokens.revoke_all(Kind.RUN, name, work.now)
    run = work.runs.change(name, work.now, state=state, reason=reason, process=None, ended_at=work.now, wished_in=None)
    work.tell(RunEnded(run=name, state=state.value))
    return run


# Steering


def steer(work: Work, name: str, wanted: Wanted) -> Run:
    """The run, with what a person wants of it."""
    run = work.runs.get(name)
    if run.state is not RunState.ACTIVE:
        raise WrongState(f"the run '{name}' is {run.state}", hint=f"Go on with it: shopfloor run --resume {name}")
    run = work.runs.change(name, work.now, wanted=wanted)
    work.tell(RunSteered(run=name))
    return run


def say(work: Work, name: str, body: str) -> Run:
    """The run, which reads this in its next prompt."""
    run = work.runs.get(name)
    work.run_talk.say(name, work.actor.key, _content(body, "a message"), work.now)
    work.tell(RunSteered(run=name))
    return run


def ask_person(
    work: Work, run: str, kind: str, question: str, options: tuple[str, ...] = (), about: str | None = None
) -> Request:
    """A question to the people in charge; with options, one of them is the answer."""
    request = work.run_talk.ask(run, kind, question, options, work.now, about)
    work.tell(RunAsked(run=run, request=request.number))
    return request


def answer(work: Work, number: int, text: str) -> Request:
    """The question, answered; an answer in words goes into the next prompt of the run."""
    request = work.run_talk.request(number)
    if request.options and text not in request.options:
        raise InvalidInput(f"'{text[:40]}' is not an answer to this", hint=f"Answer {' or '.join(request.options)}")
    if not work.run_talk.answer(number, text, work.actor.key, work.now):
        raise WrongState(f"question {number} is answered already: {request.answer}", hint="See shopfloor runs")
    if request.kind == "acceptance":
        _settle_proposal(work, request, text)
    if not request.options:
        work.run_talk.say(request.run, work.actor.key, f"About '{_short(request.question)}': {text}", work.now)
    work.tell(RunAnswered(run=request.run, request=number))
    return work.run_talk.request(number)


def _settle_proposal(work: Work, request: Request, text: str) -> None:
    """The command counts from now on, exactly as the person saw it, or never; the agent is told."""
    number, command = json.loads(request.about or "[]")
    if text == ALLOW:
        work.tasks_of(BoardKind.LOOP, request.run).change(number, work.now, acceptance=json.dumps(command))
        work.tell(RunTaskChanged(run=request.run, task=number))
    what = "was approved and has to pass" if text == ALLOW else "was not approved and does not count"
    work.run_talk.say(request.run, work.actor.key, f"The acceptance command of {task_id(number)} {what}.", work.now)


def withdraw(work: Work, run: str, number: int | None = None, kinds: Sequence[str] = ("permission",)) -> None:
    """Take questions back that no longer matter: one, or all of a run."""
    for request in work.run_talk.pending(_PAGE, run):
        if request.kind in kinds and number in (None, request.number):
            _take_back(work, request)


def _take_back(work: Work, request: Request) -> None:
    work.run_talk.answer(request.number, WITHDRAWN, work.actor.key, work.now)
    work.tell(RunAnswered(run=request.run, request=request.number))
