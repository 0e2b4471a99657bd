"""Transcripts: what the agent of a run said and did is kept, bounded, redacted, searchable and live."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from shopfloor.domain.transcripts import (
    MAX_SESSION_ENTRIES,
    MAX_TEXT_CHARACTERS,
    EntryKind,
    NewEntry,
    clip_text,
)
from shopfloor.errors import Unavailable
from shopfloor.gateways.clock import now
from shopfloor.runner.session_updates import read_update
from shopfloor.runner.transcript import TranscriptRecorder
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.usecases import runs, transcripts
from tests.operator_access import write_as_operator
from tests.runner.support import Project, wait_until

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def shopfloor(tmp_path: Path, database: str) -> Iterator[Shopfloor]:
    with Shopfloor(Settings(project=tmp_path, database=database)) as shopfloor:
        write_as_operator(shopfloor, lambda uow: runs.create_run(uow, "r", spec="spec", project="p", options="{}"))
        yield shopfloor


def record(shopfloor: Shopfloor, *bodies: str, first: int = 1, iteration: int = 0) -> None:
    # Not in the past: retention deletes entries that are old.
    entries = [NewEntry(first + at, EntryKind.MESSAGE, "", "", body, "", now()) for at, body in enumerate(bodies)]
    write_as_operator(shopfloor, lambda uow: transcripts.record_entries(uow, "run:r", "s", iteration, entries))


def call(shopfloor: Shopfloor, tool: str = "transcript_list", **given: Any) -> Any:
    return shopfloor.call("desk", tool, {"owner": "run:r", **given})


def list_bodies(page: Any) -> list[str]:
    return [entry["body"] for entry in page["entries"]]


class Kept:
    """A store in memory."""

    def __init__(self) -> None:
        self.entries: dict[int, NewEntry] = {}
        self.batches: list[int] = []
        self.fails = False

    async def find_next_entry(self) -> int:
        return max(self.entries, default=0) + 1

    async def record_entries(self, session: str, iteration: int, entries: Sequence[NewEntry]) -> None:
        if self.fails:
            raise Unavailable
        self.batches.append(len(entries))
        self.entries |= {entry.number: entry for entry in entries}


async def new_recorder() -> tuple[Kept, TranscriptRecorder]:
    kept = Kept()
    recorder = TranscriptRecorder(kept)
    await recorder.begin_session("s", 1, "the prompt")
    return kept, recorder


def send(recorder: TranscriptRecorder, update: str, **facts: Any) -> None:
    recorder.record_update("s", read_update({"sessionUpdate": update, **facts}))


def say(recorder: TranscriptRecorder, text: str, kind: str = "agent_message_chunk") -> None:
    send(recorder, kind, content={"type": "text", "text": text})


# From the agent to the command line


def test_a_run_leaves_the_transcript_of_its_agent(project: Project):
    assert project.run("reports_all", "--permissions", "allow").code == 0
    with project.open_server() as shopfloor:
        page = shopfloor.call("desk", "transcript_list", {"owner": "run:run", "iteration": 1, "limit": 100})
    shown = [(e["kind"], e["title"], e["status"], e["body"], e["result"]) for e in page["entries"][::-1]]
    assert shown[0][:2] == ("prompt", "Prompt of iteration 1")
    assert "make one.txt" in shown[0][3]
    assert shown[1:6] == [
        ("thought", "", "", "I look at the project.", ""),
        ("plan", "Plan", "", "- [x] read the specification\n- [x] write the file\n- [~] test it", ""),
        ("message", "", "", "Working with password=*** on it.\nSecond line.", ""),
        ("tool_call", "run the tests", "completed", '{"command":"make test","api_key":"***"}', "12 passed"),
        ("permission", "May the agent edit: edit notes?", "completed", '{\n "path": "notes.md"\n}', "allow"),
    ]
    assert {entry["iteration"] for entry in page["entries"]} == {1}
    shown_text = project.run_command("runs", "transcript", "run").stdout
    assert "password=***" in shown_text
    assert "hunter2" not in shown_text
    assert "    → 12 passed" in shown_text
    found = project.run_command("runs", "transcript", "run", "--search", "12 PASSED", "--json").stdout
    assert {entry["title"] for entry in json.loads(found)} == {"run the tests"}


def test_following_a_transcript_ends_with_the_run(project: Project):
    run = project.start("patient")
    wait_until(lambda: project.read_journal("session/prompt"))
    following = project.start_command("runs", "transcript", "run", "--follow", "--json")
    wait_until(lambda: "Prompt of iteration 0" in following.stdout.readline())
    project.release_agent()
    assert run.finish()[0] == 0
    out, _ = following.communicate(300)
    assert following.wait() == 0
    assert "write three.txt" in out


def test_usage_of_a_killed_attempt_is_kept(project: Project):
    run = project.start("uses_up_and_hangs")
    wait_until(lambda: project.read_journal("session/prompt"))
    wait_until(lambda: project.read_run().tokens)
    run.process.kill()
    run.process.communicate()
    assert (project.read_run().tokens, project.read_run().cost) == (700, 250_000)


# The desk tools


def test_entries_are_listed_latest_first_with_a_cursor(shopfloor: Shopfloor):
    record(shopfloor, *(f"entry {number}" for number in range(7)))
    page = call(shopfloor, limit=4)
    assert list_bodies(page) == ["entry 6", "entry 5", "entry 4", "entry 3"]
    rest = call(shopfloor, limit=4, cursor=page["nextCursor"])
    assert list_bodies(rest) == ["entry 2", "entry 1", "entry 0"]
    assert "nextCursor" not in rest


def test_an_entry_is_replaced_and_its_change_is_reported(shopfloor: Shopfloor):
    record(shopfloor, "one", "two")
    known = call(shopfloor)["revision"]
    assert call(shopfloor, "transcript_wait", after=known)["entries"] == []
    record(shopfloor, "one and more")
    changes = call(shopfloor, "transcript_wait", after=known, seconds=60)
    assert list_bodies(changes) == ["one and more"]
    assert changes["revision"] > known
    assert list_bodies(call(shopfloor)) == ["two", "one and more"]


def test_a_search_finds_text_literally_and_in_any_case(shopfloor: Shopfloor):
    record(shopfloor, "100% sure", "1000 sure", "a_b", "aXb", "back\\slash")
    assert list_bodies(call(shopfloor, query="100% SURE")) == ["100% sure"]
    assert list_bodies(call(shopfloor, query="a_b")) == ["a_b"]
    assert list_bodies(call(shopfloor, query="k\\s")) == ["back\\slash"]
    assert list_bodies(call(shopfloor, query="nothing")) == []


def test_a_search_over_thousands_of_entries_continues_with_a_cursor(shopfloor: Shopfloor):
    record(shopfloor, "needle", *("hay" for _ in range(2_499)))
    pages, cursor = [], None
    while True:
        page = call(shopfloor, query="needle", **({} if cursor is None else {"cursor": cursor}))
        pages.append(list_bodies(page))
        if (cursor := page.get("nextCursor")) is None:
            break
    assert pages == [[], [], ["needle"]]


def test_a_list_may_be_of_one_iteration(shopfloor: Shopfloor):
    record(shopfloor, "zero")
    record(shopfloor, "one", first=2, iteration=1)
    assert list_bodies(call(shopfloor, iteration=1)) == ["one"]
    assert list_bodies(call(shopfloor, iteration=0, query="e")) == ["zero"]


@pytest.mark.parametrize("owner", ["r", "run:", "user:bob", ":r"])
def test_only_runs_and_agents_have_transcripts(shopfloor: Shopfloor, owner: str):
    answer = shopfloor.call("desk", "transcript_list", {"owner": owner})
    assert (answer["code"], answer["hint"]) == ("INVALID_INPUT", "Write run:NAME or agent:NAME")


def test_secrets_and_long_texts_are_not_stored(shopfloor: Shopfloor):
    secret = "sk-0123456789abcdefghij"
    record(shopfloor, "x" * (MAX_TEXT_CHARACTERS // 2 - 5) + secret + "y" * MAX_TEXT_CHARACTERS)
    [body] = list_bodies(call(shopfloor))
    assert "0123456789" not in body
    assert len(body) < MAX_TEXT_CHARACTERS + 100
    assert "characters were left out" in body


def test_the_log_has_only_the_size_of_what_is_recorded(project: Project):
    assert project.run("good").code == 0
    with project.open_server() as shopfloor:
        rows = shopfloor.call("desk", "log_search", {"tool": "transcript_record", "limit": 5})["calls"]
        call = shopfloor.call("desk", "log_call", {"reference": rows[0]["reference"]})
    assert '"size"' in json.dumps(call["input"])
    assert "entries" not in json.dumps(call["input"])


# The recorder


async def test_pieces_become_entries_and_batches():
    kept, recorder = await new_recorder()
    for word in ("one ", "two ", "three"):
        say(recorder, word)
    say(recorder, "hm", "agent_thought_chunk")
    say(recorder, "four")
    await recorder.flush()
    assert [(e.kind.value, e.body) for e in kept.entries.values()] == [
        ("prompt", "the prompt"),
        ("message", "one two three"),
        ("thought", "hm"),
        ("message", "four"),
    ]
    assert kept.batches == [4]


async def test_updates_of_a_call_are_joined_by_its_id():
    kept, recorder = await new_recorder()
    send(recorder, "tool_call", toolCallId="1", title="edit", kind="edit", rawInput={"path": "x"})
    send(recorder, "tool_call", toolCallId="2", title="other", kind="read")
    diff = {"type": "diff", "path": "x", "oldText": "a\n", "newText": "b\n"}
    send(recorder, "tool_call_update", toolCallId="1", status="completed", content=[diff, 7, {"type": "terminal"}])
    send(recorder, "tool_call_update", toolCallId="2", status="failed", rawOutput={"error": "gone"})
    await recorder.flush()
    _, first, second = kept.entries.values()
    assert (first.title, first.status, first.body) == ("edit", "completed", '{\n "path": "x"\n}')
    assert first.result.splitlines()[-2:] == ["-a", "+b"]
    assert (second.status, second.result) == ("failed", '{\n "error": "gone"\n}')


async def test_a_session_is_bounded_and_counts_what_was_dropped():
    kept, recorder = await new_recorder()
    for number in range(MAX_SESSION_ENTRIES + 500):
        send(recorder, "tool_call", toolCallId=str(number), title=f"call {number}", kind="read")
    await recorder.flush()
    assert len(kept.entries) == MAX_SESSION_ENTRIES + 1
    last = kept.entries[MAX_SESSION_ENTRIES + 1]
    assert (last.kind, last.title) == (EntryKind.DROPPED, "501 more entries of this session were dropped")
    await recorder.begin_session("s", 2, "again")
    await recorder.flush()
    assert kept.entries[MAX_SESSION_ENTRIES + 2].body == "again"


async def test_a_flood_of_words_is_bounded():
    kept, recorder = await new_recorder()
    for _ in range(1_000):
        say(recorder, "x" * 1_000)
    await recorder.flush()
    message = kept.entries[2]
    assert len(message.body) < 5 * MAX_TEXT_CHARACTERS
    assert "920000 characters were left out" in message.body


async def test_updates_of_another_session_are_left_out():
    kept, recorder = await new_recorder()
    recorder.record_update("other", read_update({"sessionUpdate": "agent_message_chunk", "content": {"text": "late"}}))
    recorder.record_update("s", read_update({"sessionUpdate": "never_seen", "content": [1]}))
    await recorder.flush()
    assert len(kept.entries) == 1


async def test_a_transcript_that_cannot_be_stored_does_not_fail_the_run():
    kept, recorder = await new_recorder()
    kept.fails = True
    say(recorder, "lost")
    await recorder.flush()
    kept.fails = False
    say(recorder, " and found")
    await recorder.flush()
    assert kept.entries[2].body == "lost and found"


def test_a_long_text_keeps_its_beginning_and_its_end():
    assert clip_text("abcdefghij", 4) == "ab\n… 6 characters were left out …\nij"
    assert clip_text("abcd", 4) == "abcd"
