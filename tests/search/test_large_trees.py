"""A project too large to be scanned before every search is watched, and a change is in the next search all the same."""

from __future__ import annotations

import errno
import os
import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from shopfloor.domain.index import Scope
from shopfloor.errors import StoreFull
from shopfloor.gateways import project_tree as gateway
from shopfloor.search import file_index
from shopfloor.serving import Shopfloor
from tests.toolsets.context.support import make_project, open_external, open_floor


def make_tree(root: Path, folders: int, files: int) -> Path:
    for folder in range(folders):
        place = root / f"d{folder}"
        place.mkdir(parents=True)
        for number in range(files):
            (place / f"f{number}.txt").write_text(f"line {number} of folder {folder}\n")
    (root / "d1" / "f1.txt").write_text("the needle\n")
    return root


def test_large_tree_can_be_searched_while_it_is_indexed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gateway, "MAX_FILES_PER_SCAN", 100)
    with open_floor(make_tree(tmp_path / "p", 10, 60)) as shopfloor:
        tree = shopfloor.engine.search._tree
        tree.scan()
        assert tree.is_large
        shopfloor.engine.search.request_update()
        while not (body := shopfloor.call("context", "context_search", {"query": "needle"}))["index"]["complete"]:
            time.sleep(0.01)
        assert [each["path"] for each in body["results"]] == ["d1/f1.txt"]
        assert (body["index"]["files"], body["index"]["filesChangedSince"]) == (600, 0)


def test_search_during_the_first_scan_of_a_large_tree_succeeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gateway, "MAX_FILES_PER_SCAN", 1)
    with open_floor(make_project(tmp_path)) as shopfloor:
        shopfloor.engine.search._tree._file_list.paths = ["listed.py", "not/yet/looked/at.py"]
        body = shopfloor.call("context", "context_search", {"query": "anything"})
    assert (body["results"], body["index"]["complete"], body["index"]["percentage"]) == ([], False, 0)


@pytest.fixture(params=["MIN_WATCHED_FILES", "MAX_FILES_PER_SCAN"], ids=["medium", "large"])
def watched(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Shopfloor, Path]]:
    """A server on a project that counts as medium or large, completely indexed. Nothing runs in the background."""
    monkeypatch.setattr(gateway, "MIN_WATCHED_FILES", 3)
    monkeypatch.setattr(gateway, request.param, 3)
    root = make_tree(tmp_path / "p", 3, 3)
    (root / ".gitignore").write_text("*.log\nignored/\n")
    with open_floor(root) as shopfloor:
        index = shopfloor.engine.search
        index.allow_watching()
        # The first scan finds that the tree is large, and the second one watches it.
        index.update_all()
        index.update_all()
        assert index.is_watched
        yield shopfloor, root


def _find(shopfloor: Shopfloor, query: str) -> list[str]:
    body = shopfloor.call("context", "context_search", {"query": query, "limit": 20})
    assert body["index"]["complete"], body["index"]
    return sorted(each["path"] for each in body["results"])


def test_change_in_a_large_tree_is_in_the_next_search(watched: tuple[Shopfloor, Path]):
    shopfloor, root = watched
    assert _find(shopfloor, "zebrafish") == []
    (root / "d0" / "f0.txt").write_text("zebrafish\n")
    assert _find(shopfloor, "zebrafish") == ["d0/f0.txt"]
    (root / "d0" / "new.txt").write_text("another zebrafish\n")
    assert _find(shopfloor, "zebrafish") == ["d0/f0.txt", "d0/new.txt"]
    (root / "part").write_text("zebrafish again\n")
    (root / "part").rename(root / "d0" / "f0.txt")
    assert _find(shopfloor, "again") == ["d0/f0.txt"]
    (root / "d0" / "f0.txt").unlink()
    assert _find(shopfloor, "zebrafish") == ["d0/new.txt"]


def test_folders_of_a_large_tree_are_watched_wherever_they_go(watched: tuple[Shopfloor, Path]):
    shopfloor, root = watched
    (root / "a" / "b" / "c").mkdir(parents=True)
    assert _find(shopfloor, "quokka") == []
    (root / "a" / "b" / "c" / "deep.txt").write_text("quokka\n")
    assert _find(shopfloor, "quokka") == ["a/b/c/deep.txt"]
    (root / "a").rename(root / "z")
    assert _find(shopfloor, "quokka") == ["z/b/c/deep.txt"]
    (root / "z" / "b" / "c" / "deep.txt").write_text("numbat\n")
    assert (_find(shopfloor, "quokka"), _find(shopfloor, "numbat")) == ([], ["z/b/c/deep.txt"])
    shutil.rmtree(root / "z")
    assert _find(shopfloor, "numbat") == []


def _touch_all(root: Path) -> int:
    files = sorted(root.rglob("*.txt"))
    for number, path in enumerate(files):
        path.write_text(f"changed {number}\n")
    return len(files)


def test_search_indexes_only_the_latest_of_many_changes(
    watched: tuple[Shopfloor, Path], monkeypatch: pytest.MonkeyPatch
):
    shopfloor, root = watched
    monkeypatch.setattr(file_index, "MANY_CHANGES", 3)
    monkeypatch.setattr(file_index, "SHARE_SECONDS", 0.0)
    files = shopfloor.engine.search.files
    changed = _touch_all(root)
    assert files.refresh(60.0).changed == changed - 1
    assert _list_indexed_since(shopfloor, "changed") == 1
    assert files.refresh(60.0, in_background=True).changed == 0
    assert _list_indexed_since(shopfloor, "changed") == changed


def _list_indexed_since(shopfloor: Shopfloor, word: str) -> int:
    caller = open_external(shopfloor)
    matches = caller.read(lambda uow: uow.chunks.by_words([word], Scope(), 100))
    return len({hit.ref for hit, _ in matches.hits})


def test_background_lets_a_waiting_search_continue(watched: tuple[Shopfloor, Path], monkeypatch: pytest.MonkeyPatch):
    shopfloor, root = watched
    files = shopfloor.engine.search.files
    is_reading, is_waiting = threading.Event(), threading.Event()
    read = files._read_file

    def read_slowly(path: str, stat: gateway.FileStat) -> Any:
        is_reading.set()
        is_waiting.wait(60)
        return read(path, stat)

    monkeypatch.setattr(files, "_read_file", read_slowly)
    changed = _touch_all(root)
    with ThreadPoolExecutor(1) as executor:
        background = executor.submit(files.refresh, 60.0, in_background=True)
        assert is_reading.wait(60)
        search = files.refresh(60.0, wait=60.0, progress=lambda *_: is_waiting.set())
        assert (background.result().changed, search.changed) == (changed - 1, 0)


def test_change_whose_write_failed_is_in_the_next_search(
    watched: tuple[Shopfloor, Path], monkeypatch: pytest.MonkeyPatch
):
    shopfloor, root = watched
    files = shopfloor.engine.search.files

    def fail(batch: object) -> None:
        raise StoreFull

    (root / "d0" / "f0.txt").write_text("zebrafish\n")
    with monkeypatch.context() as patch:
        patch.setattr(files, "_write_batch", fail)
        with pytest.raises(StoreFull):
            files.refresh(60.0)
    assert _find(shopfloor, "zebrafish") == ["d0/f0.txt"]


def test_ignore_rules_of_a_large_tree_apply_at_once(watched: tuple[Shopfloor, Path]):
    shopfloor, root = watched
    (root / "d0" / "x.log").write_text("wombat\n")
    (root / "ignored").mkdir()
    (root / "ignored" / "y.txt").write_text("wombat\n")
    assert _find(shopfloor, "wombat") == []
    (root / ".gitignore").write_text("ignored/\n")
    assert _find(shopfloor, "wombat") == ["d0/x.log"]
    (root / ".gitignore").write_text("*.log\n")
    assert _find(shopfloor, "wombat") == ["ignored/y.txt"]


def test_closed_server_watches_nothing(watched: tuple[Shopfloor, Path]):
    shopfloor, _ = watched
    descriptor = shopfloor.engine.search._tree._watcher._descriptor  # type: ignore[union-attr]
    assert Path(f"/proc/self/fd/{descriptor}").readlink() == Path("anon_inode:inotify")
    shopfloor.close()
    assert not shopfloor.engine.search.is_watched
    queues = [link for link in Path("/proc/self/fd").iterdir() if link.name == str(descriptor) and link.is_symlink()]
    assert [link for link in queues if "inotify" in str(link.readlink())] == []


def test_overflow_of_the_watcher_loses_no_change(watched: tuple[Shopfloor, Path]):
    shopfloor, root = watched
    queued = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    files = [root / "d1" / "f0.txt", root / "d1" / "f2.txt"]
    # Events of two files in turn: the kernel folds only equal ones that follow each other.
    for number in range(queued + 10):
        os.utime(files[number % 2])
    (root / "d2" / "f0.txt").write_text("capybara\n")
    assert shopfloor.engine.search._tree._watcher.take().lost  # type: ignore[union-attr]
    for number in range(queued + 10):
        os.utime(files[number % 2])
    (root / "d2" / "f0.txt").write_text("capybara\n")
    assert _find(shopfloor, "capybara") == ["d2/f0.txt"]


def test_large_tree_without_a_watcher_says_that_changes_may_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(gateway, "MIN_WATCHED_FILES", 3)
    monkeypatch.setattr(gateway, "MAX_FILES_PER_SCAN", 3)
    monkeypatch.setattr("shopfloor.gateways.tree_watcher.TreeWatcher.watch", refuse)
    with open_floor(make_tree(tmp_path / "p", 3, 3)) as shopfloor:
        index = shopfloor.engine.search
        index.allow_watching()
        index.update_all()
        index.update_all()
        assert not index.is_watched
        assert "raise fs.inotify.max_user_watches" in caplog.text
        (tmp_path / "p" / "d0" / "f0.txt").write_text("zebrafish\n")
        body = shopfloor.call("context", "context_search", {"query": "needle"})
        assert ([each["path"] for each in body["results"]], body["index"]["complete"]) == (["d1/f1.txt"], False)
        index.update_all()
        body = shopfloor.call("context", "context_search", {"query": "zebrafish"})
        assert [each["path"] for each in body["results"]] == ["d0/f0.txt"]


def test_medium_tree_without_a_watcher_is_compared_before_each_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(gateway, "MIN_WATCHED_FILES", 3)
    monkeypatch.setattr("shopfloor.gateways.tree_watcher.TreeWatcher.watch", refuse)
    root = make_tree(tmp_path / "p", 3, 3)
    with open_floor(root) as shopfloor:
        index = shopfloor.engine.search
        index.allow_watching()
        index.update_all()
        assert not index.is_watched
        assert "each search checks all of them" in caplog.text
        (root / "d0" / "f0.txt").write_text("zebrafish\n")
        assert _find(shopfloor, "zebrafish") == ["d0/f0.txt"]


@pytest.mark.long
def test_indexing_100000_files_does_not_block_other_calls(tmp_path: Path):
    """Check memory and response times while indexing. Takes some minutes."""
    with open_floor(make_tree(tmp_path / "p", 100, 1000)) as shopfloor:
        index = shopfloor.engine.search
        before = _resident_bytes()
        shopfloor.engine.search.request_update()
        slowest = 0.0
        while index.files.total < 100_000 or index.files.pending or index.is_updating:
            began = time.monotonic()
            assert shopfloor.call("context", "read_file", {"path": "d2/f2.txt"})["file"]["lines"] == 1
            slowest = max(slowest, time.monotonic() - began)
            time.sleep(0.2)
        assert slowest < 10, "half a second on an idle machine"
        assert _resident_bytes() - before < 400 << 20
        assert _find_paths(shopfloor) == ["d1/f1.txt"]
        began = time.monotonic()
        assert shopfloor.call("context", "grep_codebase", {"pattern": "needle"})["totalMatches"] <= 1
        assert time.monotonic() - began < 10, "three seconds on an idle machine"
        assert threading.active_count() < 50


def _find_paths(shopfloor: Shopfloor) -> list[str]:
    return [each["path"] for each in shopfloor.call("context", "context_search", {"query": "needle"})["results"]]


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
