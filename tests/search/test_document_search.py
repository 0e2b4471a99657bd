"""Mail, tasks, comments and notes are found as they are now, and only by principals who may read them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from shopfloor.cli import app
from shopfloor.domain.index import Scope
from shopfloor.domain.mail import SYSTEM, agent_participant
from shopfloor.domain.principals import OPERATOR, SUPERVISOR, WORKER, Kind, Principal
from shopfloor.domain.tasks import BoardKind
from shopfloor.repositories.uow import Database, UnitOfWork
from shopfloor.search import candidates, documents
from shopfloor.search import index as search_index
from shopfloor.search.documents import SOURCES
from shopfloor.search.index import SearchIndex, SearchResult
from shopfloor.serving import Shopfloor
from shopfloor.usecases import iterations, notes, run_tasks, runs
from tests.operator_access import read_as_operator, write_as_operator
from tests.toolsets.context.support import Letters, make_project, open_external
from tests.workbench import seed_agent

SECRET = "periwinkle"
"""A word that is only in the mail of these tests."""

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
    return seed_team(both)


@pytest.fixture
def sqlite_team(shopfloor: Shopfloor) -> Shopfloor:
    """The same team on SQLite alone."""
    return seed_team(shopfloor)


def seed_team(shopfloor: Shopfloor) -> Shopfloor:
    seed_agent(shopfloor, "sup", SUPERVISOR, None, with_token=False)
    for name in ("w1", "w2"):
        seed_agent(shopfloor, name, WORKER, "sup", with_token=False)
    return shopfloor


def send(shopfloor: Shopfloor, sender: str, subject: str, body: str, **to: Any) -> None:
    answer = shopfloor.answer("factory", "mcp__mail__send", {"subject": subject, "body": body, **to}, sender)
    assert answer.error is None, answer.body


def make_agent(name: str) -> Principal:
    return Principal(Kind.AGENT, name, WORKER)


ALL_PRINCIPALS = (
    make_agent("sup"),
    make_agent("w1"),
    make_agent("w2"),
    make_agent("local"),
    OPERATOR,
    Principal(Kind.USER, "w1"),
    Principal(Kind.USER, "human"),
    Principal(Kind.USER, "lee", "HELPER"),
    Principal(Kind.RUN, "w1"),
    Principal(Kind.RUN, "human"),
)


def find_ids(
    shopfloor: Shopfloor, principal: Principal, query: str, type: str = "all", module: str | None = None
) -> list[str]:
    sources = {"all": None, "decision": ("discovery", "decision")}.get(type, ("discovery",))
    scope = Scope(sources, None if type == "all" else type, module)
    return [result.id for result in search(shopfloor, principal, query, scope).results]


def search(shopfloor: Shopfloor, principal: Principal, query: str, scope: Scope | None = None) -> SearchResult:
    caller = open_external(shopfloor, principal)
    return shopfloor.engine.search.search(caller, query, scope or Scope(), 20)


def list_finders(shopfloor: Shopfloor, mail: str, queries: tuple[str, ...] = QUERIES) -> set[str]:
    return {each.key for each in ALL_PRINCIPALS for query in queries if mail in find_ids(shopfloor, each, query)}


# Who finds a mail


def test_mail_is_found_only_by_its_sender_and_recipient(team: Shopfloor):
    send(team, "sup", "Budget", f"The {SECRET} budget of the quarter", toAgentId="w1")
    assert list_finders(team, "mail-1") == {"agent:sup", "agent:w1"}


def test_mail_to_several_agents_is_found_by_each(team: Shopfloor):
    send(team, "sup", "Budget", f"The {SECRET} budget of the quarter", to=["w1", "w2"])
    assert list_finders(team, "mail-1") == {"agent:sup", "agent:w1", "agent:w2"}


def test_mail_to_the_human_is_found_by_the_operator(team: Shopfloor):
    send(team, "w1", "Budget", f"The {SECRET} budget of the quarter", toHuman=True)
    assert list_finders(team, "mail-1") == {"agent:w1", "operator:operator"}


def test_mail_to_a_run_is_not_found_by_the_agent_of_the_same_name(sqlite_team: Shopfloor):
    write_as_operator(sqlite_team, lambda uow: runs.create_run(uow, "w1", spec="s", project="p", options="{}"))
    send(sqlite_team, "sup", "Budget", f"The {SECRET} budget of the quarter", to=["run:w1"])
    assert list_finders(sqlite_team, "mail-1") == {"agent:sup", "run:w1"}


def test_mail_from_the_system_is_found_by_its_recipient(sqlite_team: Shopfloor):
    write_as_operator(
        sqlite_team,
        lambda uow: uow.mail.add_recipient(
            uow.mail.add(sender=SYSTEM, sender_type="SYSTEM", subject="Budget", body=SECRET, now=uow.now),
            agent_participant("w2"),
            wanted=False,
            overdue_at=None,
        ),
    )
    assert list_finders(sqlite_team, "mail-1") == {"agent:w2"}


def test_filters_do_not_reveal_mail_of_others(sqlite_team: Shopfloor):
    send(sqlite_team, "sup", "Budget", f"The {SECRET} budget of the quarter", toAgentId="w1")
    for type in ("all", "pattern", "rule", "decision", "issue"):
        for module in (None, "", "mail", "auth", "human", "agent:w1"):
            assert find_ids(sqlite_team, make_agent("w2"), SECRET, type, module) == []
    assert find_ids(sqlite_team, make_agent("w1"), SECRET, "rule") == []
    assert find_ids(sqlite_team, make_agent("w1"), SECRET) == ["mail-1"]


def test_embeddings_do_not_reveal_mail_of_others(team: Shopfloor):
    team.engine.search.embeddings.model = Letters()
    send(team, "sup", "Budget", f"The {SECRET} budget of the quarter", toAgentId="w1")
    team.engine.search.update_all()
    assert list_finders(team, "mail-1") == {"agent:sup", "agent:w1"}


def test_mail_of_others_does_not_crowd_out_the_nearest_results(sqlite_team: Shopfloor, monkeypatch: pytest.MonkeyPatch):
    """Send w1 many mails that are nearer to the query: w2 finds the same as before."""
    monkeypatch.setattr(candidates, "NEAREST_EMBEDDINGS", 10)
    sqlite_team.engine.search.embeddings.model = Letters()
    sqlite_team.engine.search.update_all()
    before = find_ids(sqlite_team, make_agent("w2"), "eee aaa")
    for number in range(50):
        send(sqlite_team, "sup", f"eee aaa {number}", "eee aaa " * (number + 1), toAgentId="w1")
    sqlite_team.engine.search.update_all()
    assert before == find_ids(sqlite_team, make_agent("w2"), "eee aaa") != []
    assert len(find_ids(sqlite_team, make_agent("w1"), "eee aaa")) == 20


def test_search_results_are_not_logged(sqlite_team: Shopfloor):
    send(sqlite_team, "sup", "Nothing", f"The {SECRET} budget", toAgentId="w1")
    assert sqlite_team.call("context", "context_search", {"query": "budgets"}, "w1")["results"][0]["id"] == "mail-1"
    sqlite_team.engine.database.store.flush()
    rows = read_as_operator(sqlite_team, lambda uow: _read_contexts(uow, "context_search"))
    assert [json.loads(row).keys() for row in rows] == [{"query"}, {"totalFound", "searchTime", "size"}]
    assert SECRET not in str(rows)


def _read_contexts(uow: UnitOfWork, tool: str) -> list[str]:
    rows = uow._connection.fetch_all("SELECT context FROM decision WHERE tool = :tool ORDER BY id", tool=tool)
    return [context for (context,) in rows]


def test_desk_search_does_not_reveal_mail_of_agents(sqlite_team: Shopfloor):
    send(sqlite_team, "sup", "Budget", f"The {SECRET} budget", toAgentId="w1")
    send(sqlite_team, "sup", "For you", f"The {SECRET} report", toHuman=True)
    response = sqlite_team.call("desk", "search", {"query": SECRET})
    assert [(each["id"], each["why"]["words"]) for each in response["results"]] == [("mail-2", 1)]
    for visitor in (Principal(Kind.USER, "lee", "HELPER"), Principal(Kind.USER, "kim", "READER")):
        caller = open_external(sqlite_team, visitor)
        assert sqlite_team.engine.search.explain(caller, SECRET, 20).results == []


def test_search_command_finds_mail_to_the_human_but_not_to_agents(sqlite_team: Shopfloor, project: Path):
    send(sqlite_team, "sup", "Budget", f"The {SECRET} budget", toAgentId="w1")
    send(sqlite_team, "sup", "For you", f"The {SECRET} report", toHuman=True)
    command = ["search", SECRET, "--json", "--project", str(project)]
    result = CliRunner().invoke(app, command, env={"SHOPFLOOR_EMBEDDINGS": "off"})
    assert [each["id"] for each in json.loads(result.stdout)["results"]] == ["mail-2"]


def test_results_are_loaded_with_the_permissions_of_the_caller(sqlite_team: Shopfloor):
    """Check the second barrier: a wrong candidate is not loaded for the caller."""
    send(sqlite_team, "sup", "Budget", SECRET, toAgentId="w1")

    def load_ids(principal: Principal) -> list[str]:
        return [
            each.id
            for each in sqlite_team.engine.database.read(
                lambda uow: SOURCES["mail"].load_for_caller(uow, ["1"]), principal
            )
        ]

    assert {each.key for each in ALL_PRINCIPALS if load_ids(each)} == {"agent:sup", "agent:w1"}


def test_todo_lists_of_users_are_not_found(team: Shopfloor):
    team.call("todo_direct", "add_task", {"user_id": "lee", "title": f"Buy {SECRET}", "description": SECRET})
    assert [find_ids(team, each, SECRET) for each in ALL_PRINCIPALS] == [[]] * len(ALL_PRINCIPALS)


# Tasks, notes and summaries


def test_task_is_found_by_its_present_text(team: Shopfloor):
    number = write_as_operator(team, lambda uow: uow.tasks.add(title="Polish the zeppelin", now=uow.now)).number
    assert find_ids(team, make_agent("w2"), "zeppelin") == [f"task-{number}"]
    write_as_operator(team, lambda uow: uow.tasks.update(number, uow.now, title="Polish the gyrocopter"))
    assert (find_ids(team, make_agent("w2"), "zeppelin"), find_ids(team, make_agent("w2"), "gyrocopter")) == (
        [],
        [f"task-{number}"],
    )
    write_as_operator(team, lambda uow: uow.tasks.delete(uow.tasks.get(number), uow.now))
    assert find_ids(team, make_agent("w2"), "gyrocopter") == []
    write_as_operator(team, lambda uow: uow.tasks.restore(uow.tasks.get(number, deleted=True), uow.now))
    assert find_ids(team, make_agent("w2"), "gyrocopter") == [f"task-{number}"]


def test_notes_and_summaries_of_a_run_are_found_with_their_run(team: Shopfloor):
    write_as_operator(team, lambda uow: runs.create_run(uow, "night", spec="s", project="p", options="{}"))
    as_run = Principal(Kind.RUN, "night")
    database = team.engine.database
    database.write(lambda uow: notes.add_notes(uow, "night", [("learning", "Flaky because of the dirigible")]), as_run)
    assert find_ids(team, make_agent("w1"), "dirigible") == ["NOT-1"]
    database.write(lambda uow: iterations.record_summary(uow, "night", "Replaced the dirigible"), as_run)
    response = search(team, make_agent("w1"), "dirigible")
    assert sorted((each.id, each.type, each.session, each.source) for each in response.results) == [
        ("NOT-1", "learning", "night", "session"),
        ("night/0", "summary", "night", "session"),
    ]


def test_task_of_a_run_has_the_id_of_the_loop_contract(sqlite_team: Shopfloor):
    write_as_operator(sqlite_team, lambda uow: runs.create_run(uow, "night", spec="s", project="p", options="{}"))
    sqlite_team.engine.database.write(
        lambda uow: run_tasks.add_tasks(uow, "night", [run_tasks.NewTask("Paint the autogyro")]), OPERATOR
    )
    response = search(sqlite_team, make_agent("w1"), "autogyro")
    assert [(each.id, each.session) for each in response.results] == [("TAS-1", "night")]


# Updating the index


def test_many_documents_written_at_once_are_all_found(team: Shopfloor):
    """Write more documents than one batch in a single transaction."""

    def write_tasks(uow: UnitOfWork) -> None:
        for number in range(1100):
            uow.tasks.add(title=f"Errand zeppelin{number}", now=uow.now)

    for times in (1, 2):
        write_as_operator(team, write_tasks)
        team.engine.search.update_all()
        assert {len(find_ids(team, make_agent("w1"), f"zeppelin{number}")) for number in (0, 499, 500, 1099)} == {times}


def test_search_reports_an_incomplete_index_when_updating_takes_too_long(
    sqlite_team: Shopfloor, monkeypatch: pytest.MonkeyPatch
):
    two_batches = 2 * documents.MARKS_PER_TRANSACTION
    write_as_operator(
        sqlite_team, lambda uow: [uow.tasks.add(title=f"Errand {n}", now=uow.now) for n in range(two_batches)]
    )
    monkeypatch.setattr(search_index, "DOCUMENT_SECONDS", 0.0)
    monkeypatch.setattr(SearchIndex, "request_update", lambda _: None)
    complete: list[bool] = []
    while not complete or not complete[-1]:
        complete.append(sqlite_team.call("context", "context_search", {"query": "errands"})["index"]["complete"])
    monkeypatch.undo()  # the indexer is woken by a request when it stops
    assert complete == [False, False, True]


def test_search_without_changes_writes_nothing(sqlite_team: Shopfloor, monkeypatch: pytest.MonkeyPatch):
    send(sqlite_team, "sup", "Budget", "The budget", toAgentId="w1")
    write_as_operator(sqlite_team, lambda uow: uow.tasks.add(title="Errand", now=uow.now))
    assert len(find_ids(sqlite_team, make_agent("w1"), "budget errand")) == 2
    with monkeypatch.context() as patch:
        patch.setattr(Database, "write", None)
        assert sqlite_team.engine.search.documents.update()


# Comments on tasks


def add_comment(shopfloor: Shopfloor, body: str, task: str = "task-1") -> None:
    answer = shopfloor.answer("factory", "mcp__task__add_comment", {"taskId": task, "body": body}, "sup")
    assert answer.error is None, answer.body


def create_task(shopfloor: Shopfloor, title: str) -> None:
    answer = shopfloor.answer(
        "factory", "mcp__task__create", {"title": title, "description": "As the issue says"}, "sup"
    )
    assert answer.error is None, answer.body


def test_comment_leads_to_its_task(team: Shopfloor):
    create_task(team, "Rework the importer")
    assert find_ids(team, make_agent("w2"), "marmalade") == []
    add_comment(team, "The marmalade parser chokes on empty lines")
    body = team.call("context", "context_search", {"query": "marmalade parser"})
    (result,) = body["results"]
    assert (result["id"], result["source"], result["type"]) == ("task-1", "task", "comment")
    assert result["content"] == "Rework the importer\n\nsup: The marmalade parser chokes on empty lines"


def test_task_with_several_matching_comments_is_listed_once(team: Shopfloor):
    create_task(team, "Marmalade parser")
    for number in range(5):
        add_comment(team, f"Remark {number} on the marmalade parser")
    assert find_ids(team, make_agent("w1"), "marmalade parser") == ["task-1"]


def test_comments_on_todo_lists_and_deleted_tasks_are_not_found(team: Shopfloor):
    user = Principal(Kind.USER, "lee", "HELPER")
    create_task(team, "Rework the importer")
    add_comment(team, "The marmalade parser chokes")

    def write(uow: UnitOfWork) -> None:
        own = uow.tasks_of(BoardKind.LIST, "lee").add(title="Breakfast", now=uow.now)
        uow.tasks_of(BoardKind.LIST, "lee").add_comment(own.number, "lee", "Buy marmalade", uow.now)
        uow.tasks.delete(uow.tasks.get(1), uow.now)

    write_as_operator(team, write)
    assert {each.key: find_ids(team, each, "marmalade") for each in (*ALL_PRINCIPALS, user)} == {
        each.key: [] for each in (*ALL_PRINCIPALS, user)
    }
    write_as_operator(team, lambda uow: uow.tasks.restore(uow.tasks.get(1, deleted=True), uow.now))
    assert find_ids(team, make_agent("w1"), "marmalade") == ["task-1"]


def test_comments_of_several_batches_are_all_found(team: Shopfloor, monkeypatch: pytest.MonkeyPatch):
    """Write more comments than one batch."""
    monkeypatch.setattr(documents, "MARKS_PER_TRANSACTION", 7)
    create_task(team, "Rework the importer")
    for number in range(30):
        add_comment(team, f"Remark mark{number}x")
    assert {number for number in range(30) if find_ids(team, make_agent("w1"), f"mark{number}x")} == set(range(30))


# Ranking


def test_best_match_comes_first_from_any_source(team: Shopfloor, project: Path):
    """Mix tasks, mail and code: none of them hides a better match of another source."""
    make_project(
        project,
        {f"src/keys/key{n}.py": f"def rotate_key_{n}(key):\n    return sign(key, {n})\n" for n in range(30)}
        | {"src/keys/clock.py": "def next_rotation(last):\n    return last + NINETY_DAYS\n"},
    )
    create_task(team, "Signing keys are rotated every ninety days by hand")
    send(team, "sup", "Who rotates the signing keys on holidays", "Kim does, see the calendar", toAgentId="w1")
    for number in range(30):
        create_task(team, f"Errand {number}: look at next_rotation and the keys")
    assert find_ids(team, make_agent("w1"), "how often are signing keys rotated by hand?")[0] == "task-1"
    assert find_ids(team, make_agent("w1"), "who rotates the signing keys on holidays?")[0] == "mail-1"
    assert find_ids(team, make_agent("w1"), "next_rotation")[0] == "src/keys/clock.py#L1-L2"
    assert find_ids(team, make_agent("w1"), "rotate_key_7")[0] == "src/keys/key7.py#L1-L2"
