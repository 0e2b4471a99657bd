"""What the team wrote: found by whom it concerns, as it is now, and by nobody else whatever they ask."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from shopfloor.cli import app
from shopfloor.domain.actors import OPERATOR, SUPERVISOR, WORKER, Kind, Principal
from shopfloor.domain.mail import FLOOR, agent_party
from shopfloor.domain.tasks import BoardKind
from shopfloor.gateways.embeddings import Embeddings
from shopfloor.repositories import tasks
from shopfloor.repositories.work import Outside, Work
from shopfloor.serving import Shopfloor
from shopfloor.usecases import index, knowledge, loops, memory
from shopfloor.usecases.sources import SOURCES
from tests.context.support import Letters, make_project

SECRET = "periwinkle"
"""A word that stands in nothing but the mail that these tests are about."""

QUERIES = (
    SECRET,
    f"{SECRET} budget",
    "the budget of the quarter",
    "mail-1",
    "mail from sup to w1",
    f'"{SECRET}" OR owner',
    f"{SECRET}'; --",
    "Budget",
)


@pytest.fixture
def team(both: Shopfloor) -> Shopfloor:
    return hired(both)


@pytest.fixture
def crew(floor: Shopfloor) -> Shopfloor:
    """The same on the default engine alone."""
    return hired(floor)


def hired(floor: Shopfloor) -> Shopfloor:
    floor.hire("sup", SUPERVISOR, None, with_token=False)
    for name in ("w1", "w2"):
        floor.hire(name, WORKER, "sup", with_token=False)
    return floor


def send(floor: Shopfloor, sender: str, subject: str, body: str, **to: Any) -> None:
    answer = floor.answer("factory", "mcp__mail__send", {"subject": subject, "body": body, **to}, sender)
    assert answer.error is None, answer.body


def agent(name: str) -> Principal:
    return Principal(Kind.AGENT, name, WORKER)


EVERYBODY = (
    agent("sup"),
    agent("w1"),
    agent("w2"),
    agent("local"),
    OPERATOR,
    Principal(Kind.USER, "w1"),
    Principal(Kind.USER, "human"),
    Principal(Kind.USER, "lee", "HELPER"),
    Principal(Kind.RUN, "w1"),
    Principal(Kind.RUN, "human"),
)


def found(
    floor: Shopfloor, principal: Principal, query: str, type: str = "all", module: str | None = None
) -> list[str]:
    searched = knowledge.search(Outside(floor.floor.works, principal, 0), query, type, module, 20)
    return [result.id for result in searched.results]


def those_who_find(floor: Shopfloor, mail: str, queries: tuple[str, ...] = QUERIES) -> set[str]:
    return {each.key for each in EVERYBODY for query in queries if mail in found(floor, each, query)}


# Who finds a mail


def test_a_mail_is_found_by_its_recipient_and_its_sender_alone(team: Shopfloor):
    send(team, "sup", "Budget", f"The {SECRET} budget of the quarter", toAgentId="w1")
    assert those_who_find(team, "mail-1") == {"agent:sup", "agent:w1"}


def test_a_mail_to_many_is_found_by_each_of_them(team: Shopfloor):
    send(team, "sup", "Budget", f"The {SECRET} budget of the quarter", to=["w1", "w2"])
    assert those_who_find(team, "mail-1") == {"agent:sup", "agent:w1", "agent:w2"}


def test_the_persons_mail_is_found_by_the_operator(team: Shopfloor):
    send(team, "w1", "Budget", f"The {SECRET} budget of the quarter", toHuman=True)
    assert those_who_find(team, "mail-1") == {"agent:w1", "operator:operator"}


def test_a_runs_mail_is_found_by_the_run_and_not_by_the_agent_of_its_name(crew: Shopfloor):
    crew.floor.administer(lambda work: loops.create(work, "w1", spec="s", project="p", options="{}"))
    send(crew, "sup", "Budget", f"The {SECRET} budget of the quarter", to=["run:w1"])
    assert those_who_find(crew, "mail-1") == {"agent:sup", "run:w1"}


def test_mail_of_the_floor_itself_is_found_by_whom_it_went_to(crew: Shopfloor):
    crew.floor.administer(
        lambda work: work.mail.address(
            work.mail.add(sender=FLOOR, sender_type="SYSTEM", subject="Budget", body=SECRET, now=work.now),
            agent_party("w2"),
            wanted=False,
            overdue_at=None,
        )
    )
    assert those_who_find(crew, "mail-1") == {"agent:w2"}


def test_no_filter_leads_to_anothers_mail(crew: Shopfloor):
    send(crew, "sup", "Budget", f"The {SECRET} budget of the quarter", toAgentId="w1")
    for type in ("all", "pattern", "rule", "decision", "issue"):
        for module in (None, "", "mail", "auth", "human", "agent:w1"):
            assert found(crew, agent("w2"), SECRET, type, module) == []
    assert found(crew, agent("w1"), SECRET, "rule") == []
    assert found(crew, agent("w1"), SECRET) == ["mail-1"]


def test_meaning_leads_to_no_mail_that_words_do_not(team: Shopfloor):
    team.floor.works.gateways[Embeddings] = Letters()
    send(team, "sup", "Budget", f"The {SECRET} budget of the quarter", toAgentId="w1")
    team.floor.indexer.catch_up()
    assert those_who_find(team, "mail-1") == {"agent:sup", "agent:w1"}


def test_anothers_mail_takes_no_place_among_what_is_nearest(crew: Shopfloor, monkeypatch: pytest.MonkeyPatch):
    """However much of it lies nearer to the query, the caller finds the same."""
    monkeypatch.setattr(knowledge, "CANDIDATES", 10)
    crew.floor.works.gateways[Embeddings] = Letters()
    crew.floor.indexer.catch_up()
    before = found(crew, agent("w2"), "zzz qqq")
    for number in range(50):
        send(crew, "sup", f"zzz qqq {number}", "zzz qqq " * (number + 1), toAgentId="w1")
    crew.floor.indexer.catch_up()
    assert before == found(crew, agent("w2"), "zzz qqq") != []
    assert len(found(crew, agent("w1"), "zzz qqq")) == 20


def test_what_was_found_is_not_in_the_log(crew: Shopfloor):
    send(crew, "sup", "Nothing", f"The {SECRET} budget", toAgentId="w1")
    assert crew.call("context", "context_search", {"query": "budgets"}, "w1")["results"][0]["id"] == "mail-1"
    crew.floor.works.store.flush()
    rows = crew.floor.look(lambda work: _contexts(work, "context_search"))
    assert [json.loads(row).keys() for row in rows] == [{"query"}, {"totalFound", "searchTime", "size"}]
    assert SECRET not in str(rows)


def _contexts(work: Work, tool: str) -> list[str]:
    rows = work._connection.all("SELECT context FROM decision WHERE tool = :tool ORDER BY id", tool=tool)
    return [context for (context,) in rows]


def test_the_desks_page_shows_its_visitor_no_agents_mail(crew: Shopfloor):
    send(crew, "sup", "Budget", f"The {SECRET} budget", toAgentId="w1")
    send(crew, "sup", "For you", f"The {SECRET} report", toHuman=True)
    seen = crew.call("desk", "memory_search", {"query": SECRET})
    assert [(each["id"], each["why"]["words"]) for each in seen["results"]] == [("mail-2", 1)]
    for visitor in (Principal(Kind.USER, "lee", "HELPER"), Principal(Kind.USER, "kim", "READER")):
        assert memory.explain(Outside(crew.floor.works, visitor, 0), SECRET, 20).results == []


def test_the_command_line_finds_the_persons_mail_and_no_agents(crew: Shopfloor, project: Path):
    send(crew, "sup", "Budget", f"The {SECRET} budget", toAgentId="w1")
    send(crew, "sup", "For you", f"The {SECRET} report", toHuman=True)
    command = ["search", SECRET, "--json", "--project", str(project)]
    result = CliRunner().invoke(app, command, env={"SHOPFLOOR_EMBEDDINGS": "off"})
    assert [each["id"] for each in json.loads(result.stdout)["results"]] == ["mail-2"]


def test_what_was_found_is_looked_up_as_the_caller(crew: Shopfloor):
    """The second lock: even a hit that should not be there is not shown."""
    send(crew, "sup", "Budget", SECRET, toAgentId="w1")
    mail = next(source for source in SOURCES if source.name == "mail")

    def shown(principal: Principal) -> list[str]:
        return [each.id for each in crew.floor.works.read(lambda work: mail.shown(work, ["1"]), principal)]

    assert {each.key for each in EVERYBODY if shown(each)} == {"agent:sup", "agent:w1"}


def test_a_users_list_is_found_by_nobody(team: Shopfloor):
    team.call("todo_direct", "add_task", {"user_id": "lee", "title": f"Buy {SECRET}", "description": SECRET})
    assert [found(team, each, SECRET) for each in EVERYBODY] == [[]] * len(EVERYBODY)


# Tasks, notes and summaries


def test_a_task_is_found_as_it_is_now(team: Shopfloor):
    number = team.floor.administer(lambda work: work.tasks.add(title="Polish the zeppelin", now=work.now)).number
    assert found(team, agent("w2"), "zeppelin") == [f"task-{number}"]
    team.floor.administer(lambda work: work.tasks.change(number, work.now, title="Polish the gyrocopter"))
    assert (found(team, agent("w2"), "zeppelin"), found(team, agent("w2"), "gyrocopter")) == ([], [f"task-{number}"])
    team.floor.administer(lambda work: work.tasks.change(number, work.now, deleted_at=work.now))
    assert found(team, agent("w2"), "gyrocopter") == []
    team.floor.administer(lambda work: work.tasks.change(number, work.now, deleted_at=None))
    assert found(team, agent("w2"), "gyrocopter") == [f"task-{number}"]


def test_what_a_run_noted_and_summarised_is_found_with_its_run(team: Shopfloor):
    team.floor.administer(lambda work: loops.create(work, "night", spec="s", project="p", options="{}"))
    as_run = Principal(Kind.RUN, "night")
    works = team.floor.works
    works.write(lambda work: loops.add_notes(work, "night", [("learning", "Flaky because of the dirigible")]), as_run)
    assert found(team, agent("w1"), "dirigible") == ["NOT-1"]
    works.write(lambda work: loops.summarise(work, "night", "Replaced the dirigible"), as_run)
    searched = knowledge.search(Outside(works, agent("w1"), 0), "dirigible", "all", None, 20)
    assert sorted((each.id, each.type, each.session, each.source) for each in searched.results) == [
        ("NOT-1", "learning", "night", "session"),
        ("night/0", "summary", "night", "session"),
    ]


def test_a_runs_task_is_spelled_as_the_loop_spells_it(crew: Shopfloor):
    crew.floor.administer(lambda work: loops.create(work, "night", spec="s", project="p", options="{}"))
    crew.floor.works.write(lambda work: loops.add_tasks(work, "night", [loops.NewTask("Paint the autogyro")]), OPERATOR)
    searched = knowledge.search(Outside(crew.floor.works, agent("w1"), 0), "autogyro", "all", None, 20)
    assert [(each.id, each.session) for each in searched.results] == [("TAS-1", "night")]


# Keeping up


def test_more_than_one_page_at_one_moment_is_all_found(team: Shopfloor):
    """A crowd writes within a second; the last one is found like the first."""

    def crowd(work: Work) -> None:
        for number in range(1100):
            work.tasks.add(title=f"Errand zeppelin{number}", now=work.now)

    for times in (1, 2):
        team.floor.administer(crowd)
        team.floor.indexer.catch_up()
        assert {len(found(team, agent("w1"), f"zeppelin{number}")) for number in (0, 499, 500, 1099)} == {times}


def test_what_takes_too_long_is_left_for_later_and_the_answer_says_so(crew: Shopfloor, monkeypatch: pytest.MonkeyPatch):
    crew.floor.administer(lambda work: [work.tasks.add(title=f"Errand {n}", now=work.now) for n in range(1000)])
    monkeypatch.setattr(knowledge, "_WRITTEN_SECONDS", 0.0)
    complete: list[bool] = []
    while not complete or not complete[-1]:
        complete.append(crew.call("context", "context_search", {"query": "errands"})["index"]["complete"])
    assert complete == [False, False, True]


def test_a_search_after_which_nothing_was_written_writes_nothing(crew: Shopfloor, monkeypatch: pytest.MonkeyPatch):
    send(crew, "sup", "Budget", "The budget", toAgentId="w1")
    crew.floor.administer(lambda work: work.tasks.add(title="Errand", now=work.now))
    assert len(found(crew, agent("w1"), "budget errand")) == 2
    monkeypatch.setattr(Outside, "write", None)
    assert index.catch_up(Outside(crew.floor.works, agent("w1"), 0))


class Explained:
    """A connection that says how the engine would find what it is asked for."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.engine = connection.engine
        self.plans: list[str] = []

    def all(self, sql: str, /, **params: Any) -> Any:
        plan = self._connection.all(f"EXPLAIN QUERY PLAN {sql}", **params)
        self.plans += [f"{detail}: {sql}" for *_, detail in plan]
        return self._connection.all(sql, **params)

    def one(self, sql: str, /, **params: Any) -> Any:
        rows = self.all(sql, **params)
        return rows[0] if rows else None


USED_TO_FIND = ("SEARCH", "CORRELATED", "SCALAR SUBQUERY", "USE TEMP B-TREE FOR LAST")


def test_what_changed_is_found_by_an_index(crew: Shopfloor):
    works = crew.floor.works

    def look(connection: Any) -> list[str]:
        explained = Explained(connection)
        work = Work(works, explained, OPERATOR, 0, 0)  # type: ignore[arg-type]
        for source in SOURCES:
            work.index.newest_written(source.name)
            source.changed(work, 1, 500)
        return explained.plans

    plans = works.store.read(look)
    assert len(plans) >= 3 * len(SOURCES)
    assert [plan for plan in plans if not plan.startswith(USED_TO_FIND)] == []
    for searched in (">", "ref=?"):
        assert sum(searched in plan.partition(":")[0] for plan in plans) >= len(SOURCES)


# What was said about tasks


def commented(floor: Shopfloor, body: str, task: str = "task-1") -> None:
    answer = floor.answer("factory", "mcp__task__add_comment", {"taskId": task, "body": body}, "sup")
    assert answer.error is None, answer.body


def created(floor: Shopfloor, title: str) -> None:
    answer = floor.answer("factory", "mcp__task__create", {"title": title, "description": "As the issue says"}, "sup")
    assert answer.error is None, answer.body


def test_a_comment_leads_to_its_task(team: Shopfloor):
    created(team, "Rework the importer")
    assert found(team, agent("w2"), "marmalade") == []
    commented(team, "The marmalade parser chokes on empty lines")
    body = team.call("context", "context_search", {"query": "marmalade parser"})
    (result,) = body["results"]
    assert (result["id"], result["source"], result["type"]) == ("task-1", "task", "comment")
    assert result["content"] == "Rework the importer\n\nsup: The marmalade parser chokes on empty lines"


def test_a_task_is_shown_once_however_many_comments_fit(team: Shopfloor):
    created(team, "Marmalade parser")
    for number in range(5):
        commented(team, f"Remark {number} on the marmalade parser")
    assert found(team, agent("w1"), "marmalade parser") == ["task-1"]


def test_comments_on_a_users_list_or_a_deleted_task_are_found_by_nobody(team: Shopfloor):
    user = Principal(Kind.USER, "lee", "HELPER")
    created(team, "Rework the importer")
    commented(team, "The marmalade parser chokes")

    def write(work: Work) -> None:
        own = work.tasks_of(BoardKind.LIST, "lee").add(title="Breakfast", now=work.now)
        work.tasks_of(BoardKind.LIST, "lee").add_comment(own.number, "lee", "Buy marmalade", work.now)
        work.tasks.change(1, work.now, deleted_at=work.now)

    team.floor.administer(write)
    assert {each.key: found(team, each, "marmalade") for each in (*EVERYBODY, user)} == {
        each.key: [] for each in (*EVERYBODY, user)
    }
    team.floor.administer(lambda work: work.tasks.change(1, work.now, deleted_at=None))
    assert found(team, agent("w1"), "marmalade") == ["task-1"]


def test_comments_that_were_there_before_are_all_found(team: Shopfloor, monkeypatch: pytest.MonkeyPatch):
    """More of them than are put into the index at once, and than may be late."""
    monkeypatch.setattr(index, "_MANY", 7)
    monkeypatch.setattr(tasks, "_LATE", 3)
    created(team, "Rework the importer")
    for number in range(30):
        commented(team, f"Remark mark{number}x")
    assert {number for number in range(30) if found(team, agent("w1"), f"mark{number}x")} == set(range(30))


# Among code


def test_what_fits_comes_first_whoever_wrote_it(team: Shopfloor, project: Path):
    """A task, a mail or a note that answers a question is not buried under code, nor code under them."""
    make_project(
        project,
        {f"src/keys/key{n}.py": f"def rotate_key_{n}(key):\n    return sign(key, {n})\n" for n in range(30)}
        | {"src/keys/clock.py": "def next_rotation(last):\n    return last + NINETY_DAYS\n"},
    )
    created(team, "Signing keys are rotated every ninety days by hand")
    send(team, "sup", "Who rotates the signing keys on holidays", "Kim does, see the calendar", toAgentId="w1")
    for number in range(30):
        created(team, f"Errand {number}: somebody should look at next_rotation and the keys")
    assert found(team, agent("w1"), "how often are signing keys rotated by hand?")[0] == "task-1"
    assert found(team, agent("w1"), "who rotates the signing keys on holidays?")[0] == "mail-1"
    assert found(team, agent("w1"), "next_rotation")[0] == "src/keys/clock.py#L1-L2"
    assert found(team, agent("w1"), "rotate_key_7")[0] == "src/keys/key7.py#L1-L2"
