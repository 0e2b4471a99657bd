"""A tree that is too large to be looked at before every search: the floor goes on, and says how far the index is."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from shopfloor.gateways import tree as gateway
from shopfloor.gateways.tree import Tree
from shopfloor.serving import Shopfloor
from tests.context.support import make_project, open_floor


def grown(root: Path, folders: int, files: int) -> Path:
    for folder in range(folders):
        place = root / f"d{folder}"
        place.mkdir(parents=True)
        for number in range(files):
            (place / f"f{number}.txt").write_text(f"line {number} of folder {folder}\n")
    (root / "d1" / "f1.txt").write_text("the needle\n")
    return root


def test_a_large_tree_is_indexed_in_the_background_and_searched_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(gateway, "LARGE", 100)
    with open_floor(grown(tmp_path / "p", 10, 60)) as floor:
        tree: Tree = floor.floor.works.gateways[Tree]
        tree.look()
        assert tree.large
        before = floor.call("context", "context_search", {"query": "needle"})
        assert (before["results"], before["index"]["complete"]) == ([], False)
        floor.floor.indexer.start(at_once=True)
        while not (body := floor.call("context", "context_search", {"query": "needle"}))["index"]["complete"]:
            time.sleep(0.01)
        assert [each["path"] for each in body["results"]] == ["d1/f1.txt"]
        assert (body["index"]["files"], body["index"]["filesChangedSince"]) == (600, 0)


def test_a_search_while_a_large_tree_is_first_looked_at_is_no_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gateway, "LARGE", 1)
    with open_floor(make_project(tmp_path)) as floor:
        tree: Tree = floor.floor.works.gateways[Tree]
        tree._listing.paths = ["listed.py", "not/yet/looked/at.py"]
        body = floor.call("context", "context_search", {"query": "anything"})
    assert (body["results"], body["index"]["complete"], body["index"]["percentage"]) == ([], False, 0)


@pytest.mark.long
def test_a_hundred_thousand_files_never_block_the_floor(tmp_path: Path):
    """Bounded memory, and calls that are answered all the while. Some minutes."""
    with open_floor(grown(tmp_path / "p", 100, 1000)) as floor:
        tree: Tree = floor.floor.works.gateways[Tree]
        before = _resident()
        floor.floor.indexer.start(at_once=True)
        slowest = 0.0
        while tree.total < 100_000 or tree.pending or tree.working:
            began = time.monotonic()
            assert floor.call("context", "read_file", {"path": "d2/f2.txt"})["file"]["lines"] == 1
            slowest = max(slowest, time.monotonic() - began)
            time.sleep(0.2)
        assert slowest < 10, "half a second on a quiet machine"
        assert _resident() - before < 400 << 20
        assert _found(floor) == ["d1/f1.txt"]
        began = time.monotonic()
        assert floor.call("context", "grep_codebase", {"pattern": "needle"})["totalMatches"] <= 1
        assert time.monotonic() - began < 10, "three seconds of searching, on a quiet machine"
        assert threading.active_count() < 50


def _found(floor: Shopfloor) -> list[str]:
    return [each["path"] for each in floor.call("context", "context_search", {"query": "needle"})["results"]]


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
