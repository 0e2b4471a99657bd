"""The dependency graph of an epic, the charts with axes, and the links in texts; drawn without a browser."""

from __future__ import annotations

import itertools
import random
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from shopfloor.web.charts import draw_bars, draw_burn_down, draw_days, draw_histogram
from shopfloor.web.graph import NODE_HEIGHT, NODE_WIDTH, draw_board_graph
from shopfloor.web.text import render_markdown, strip_markdown
from shopfloor.web.views.knowledge import mark_words

Box = tuple[float, float]


def _tasks(count: int) -> list[dict[str, Any]]:
    return [
        {
            "number": n,
            "id": f"task-{n}",
            "title": f"Task {n}",
            "state": "PENDING",
            "assignee": None,
            "href": f"/tasks/{n}",
        }
        for n in range(1, count + 1)
    ]


def _read_boxes(svg: str) -> dict[int, Box]:
    found = re.findall(r'<a href="/tasks/(\d+)">.*?<rect class="node [^"]*" x="([\d.]+)" y="([\d.]+)"', svg)
    return {int(number): (float(x), float(y)) for number, x, y in found}


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.randoms(use_true_random=False))
def test_no_two_tasks_overlap_and_each_is_right_of_what_it_waits_for(count: int, chance: random.Random) -> None:
    pairs = {(chance.randint(1, n - 1), n) for n in range(2, count + 1) for _ in range(chance.randint(0, 2))}
    svg = draw_board_graph(_tasks(count), [{"blocker": a, "task": b} for a, b in sorted(pairs)], "Graph")
    boxes = _read_boxes(svg)
    assert set(boxes) == set(range(1, count + 1))
    for (x1, y1), (x2, y2) in itertools.combinations(boxes.values(), 2):
        assert abs(x1 - x2) >= NODE_WIDTH or abs(y1 - y2) >= NODE_HEIGHT
    for blocker, task in pairs:
        assert boxes[blocker][0] + NODE_WIDTH < boxes[task][0]
    assert svg.count('class="edge') == len(pairs)


def test_text_of_a_task_is_escaped_in_the_graph() -> None:
    task = {**_tasks(1)[0], "title": '<script>"x"\u202e', "assignee": "<b>"}
    svg = draw_board_graph([task], [], "<label>")
    assert "<script" not in svg
    assert "<b>" not in svg
    assert "<label>" not in svg
    assert "[U+202E]" in svg


def test_long_chain_and_empty_board_are_drawn() -> None:
    chain = [{"blocker": n, "task": n + 1} for n in range(1, 150)]
    assert len(_read_boxes(draw_board_graph(_tasks(150), chain, "Chain"))) == 150
    assert "<svg" in draw_board_graph([], [], "Empty")


def test_charts_have_an_axis_and_say_each_value() -> None:
    svg = draw_days([("2026-01-01", 1200, "1,200 tokens"), ("2026-01-02", 0, "none")], label="Tokens")
    assert "<title>Jan 1: 1,200 tokens</title>" in svg
    assert ">2k</text>" in svg
    assert "<svg" in draw_days([], label="Nothing")
    days = [f"2026-01-0{day}T00:00:00Z" for day in (1, 2)]
    points = [{"at": days[0], "tasks": 4, "completed": 0}, {"at": days[1], "tasks": 4, "completed": 3}]
    assert "<title>Jan 2: 1 of 4 tasks open</title>" in draw_burn_down(points, label="Burn-down")
    # Within a day, the points have times.
    later = {"at": "2026-01-01T13:05:00Z", "tasks": 4, "completed": 2}
    assert "<title>13:05: 2 of 4 tasks open</title>" in draw_burn_down([points[0], later], label="Burn-down")
    assert "<svg" in draw_burn_down(points[:1], label="One day")
    bars = draw_bars([("09:00", 1, 0), ("09:01", 2, 1)], label="Calls")
    assert re.findall("<title>(.*?)</title>", bars) == ["09:00: 1 call", "09:01: 2 calls, 1 failed"]
    bars = draw_histogram([("≤ 1", 1), ("≤ 2", 2_000_000)], label="Commits", noun="commit")
    assert re.findall("<title>(.*?)</title>", bars) == ["≤ 1: 1 commit", "≤ 2: 2000000 commits"]


def test_ids_and_paths_in_texts_become_links_outside_of_other_links() -> None:
    html = str(
        render_markdown("task-18, `mail-6`, epic-2, src/a/x.py, subtask-3, task-0, [task-4](https://example.org)")
    )
    assert re.findall(r'href="([^"]+)"', html) == [
        "/tasks/18", "/inbox/mail-6", "/boards/epic/2", "/knowledge?q=src/a/x.py", "https://example.org",
    ]  # fmt: skip
    assert "subtask-3" in html
    assert 'rel="nofollow noopener noreferrer"' in html
    assert html.count('target="_blank"') == 1


def test_writers_cannot_make_links_to_pages_themselves() -> None:
    html = str(render_markdown("[x](/act/task_delete) [y](javascript:alert(1))"))
    assert "href" not in html


def test_a_preview_has_the_rows_of_a_table_without_its_marks() -> None:
    """Fault F34: a preview in the inbox began with `| what | how many | |---|---|`."""
    table = "| what | how many |\n|---|---|\n| done | `4` |\n| in review | **2** |"
    assert strip_markdown(table) == "done 4 · in review 2"
    assert strip_markdown(f"{table}\n\nNothing is blocked.") == "done 4 · in review 2 · Nothing is blocked."
    assert strip_markdown("| only | a header |\n|---|---|") == "only a header"


def test_titles_lose_their_marks_and_words_of_the_query_are_highlighted() -> None:
    assert strip_markdown("## **Use** a `queue` [here](https://x.y)") == "Use a queue here"


def test_a_preview_separates_lines_that_are_not_sentences() -> None:
    report = "Two tasks are merged.\n\nEpic: epic-4\nBranch: crew/epic\n\n- frame\n- footer"
    assert strip_markdown(report) == "Two tasks are merged. Epic: epic-4 · Branch: crew/epic · frame · footer"
    assert str(mark_words("Use a <queue>", "queue a+b")) == "Use a &lt;<mark>queue</mark>&gt;"
    found = mark_words("Rounding of prices, in the cart", "rounding of the prices")
    assert str(found) == "<mark>Rounding</mark> of <mark>prices</mark>, in the cart"
