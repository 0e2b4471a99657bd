"""The index: fresh at every search, whole after every end, the same on both engines."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shopfloor.domain.actors import OPERATOR, Kind, Principal
from shopfloor.domain.index import Scope, Written, passage_of
from shopfloor.errors import EmbeddingFailed
from shopfloor.gateways.embeddings import Embeddings
from shopfloor.gateways.tree import Tree
from shopfloor.gateways.vectors import RESCORED, Vectors, packed, unpacked
from shopfloor.repositories.work import Outside
from shopfloor.serving import Shopfloor
from shopfloor.usecases import index, knowledge
from tests.context.support import CANARY, Letters, make_project, open_floor

CHECKOUT = Path(__file__).resolve().parent.parent.parent


def found(floor: Shopfloor, query: str, **more: Any) -> list[str]:
    body = floor.call("context", "context_search", {"query": query, **more})
    assert "results" in body, body
    return [result["id"] for result in body["results"]]


def test_code_and_memory_are_found_on_both_engines(both: Shopfloor):
    both.call("context", "record_discovery", {"type": "rule", "content": "Refresh tokens under a mutex lock"})
    assert found(both, "refreshing a token")[0] in ("discovery-1", "src/server/auth/TokenManager.ts#L2-L2")
    assert found(both, "mutex locks")[0] == "discovery-1"
    assert found(both, "generate tokens", module="auth")[0] == "src/server/auth/AuthService.ts#L5-L9"
    assert found(both, "generateToken")[0] == "src/server/auth/AuthService.ts#L5-L9"
    assert found(both, "UserRepository.findUser")[0] == "src/server/users/UserRepository.ts#L2-L2"
    assert found(both, "tokens", module="nowhere") == []
    assert found(both, "'; DROP TABLE passage; -- \" OR *") is not None


@pytest.mark.parametrize(
    "query", ["(((", "';--", "%%%", "___", "   ", '"" ""', "* * *", "\u200b\u200b\u200b", "NEAR(", "^-^"]
)
def test_a_query_without_a_word_is_an_answer_not_a_failure(both: Shopfloor, query: str):
    body = both.call("context", "context_search", {"query": query})
    assert body.get("query") == query, body


def test_many_may_bring_the_index_up_to_date_at_once(both: Shopfloor, project: Path):
    """Floors of several processes over one store, each with a view of its own of what is indexed."""
    others = [open_floor(project, database=both.settings.database) for _ in range(3)]
    for number in range(10):
        both.call("context", "record_discovery", {"type": "rule", "content": f"Rule {number} about pangolins"})
    threads = [threading.Thread(target=other.floor.indexer.catch_up) for other in others]
    for thread in threads:
        thread.start()
    both.floor.indexer.catch_up()
    for thread in threads:
        thread.join()
    for other in others:
        other.close()
    state = both.floor.indexer.state()
    both.floor.works.gateways[Tree].known = None
    assert both.floor.indexer.catch_up() == state
    assert len(found(both, "pangolins", type="rule", limit=20)) == 10


def test_a_change_is_visible_in_the_next_search(both: Shopfloor, project: Path):
    assert found(both, "zebrafish") == []
    target = project / "src" / "zebra.py"
    target.write_text("def zebrafish():\n    return 1\n")
    assert found(both, "zebrafish") == ["src/zebra.py#L1-L2"]
    target.write_text("def antelopes():\n    return 1\n")
    assert (found(both, "zebrafish"), found(both, "antelopes")) == ([], ["src/zebra.py#L1-L2"])
    target.rename(project / "src" / "moved.py")
    assert found(both, "antelopes") == ["src/moved.py#L1-L2"]
    (project / "src" / "moved.py").unlink()
    assert found(both, "antelopes") == []


def test_a_change_is_visible_however_long_the_look_at_the_tree_took(
    floor: Shopfloor, project: Path, monkeypatch: pytest.MonkeyPatch
):
    assert found(floor, "zebrafish") == []
    (project / "src" / "zebra.py").write_text("def zebrafish():\n    return 1\n")
    monkeypatch.setattr(knowledge, "_REFRESH_SECONDS", 0.0)
    assert found(floor, "zebrafish") == ["src/zebra.py#L1-L2"]


def test_a_change_of_the_same_size_and_time_is_seen(both: Shopfloor, project: Path):
    target = project / "same.py"
    target.write_text("def aardvark(): pass\n")
    assert found(both, "aardvark")
    status = target.stat()
    target.write_text("def crocodil(): pass\n")
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert found(both, "crocodil") == ["same.py#L1-L1"]


def test_secrets_ignored_and_excluded_files_are_not_in_the_index(both: Shopfloor, project: Path):
    (project / ".shopfloorignore").write_text("huge/\n")
    make_project(project, {"huge/data.py": "def enormous(): pass\n"})
    both.floor.indexer.catch_up()
    paths = both.floor.look(lambda work: work.index.stamps())
    assert sorted(paths) == [
        ".env.example", ".github/workflows/ci.yml", ".gitignore", ".shopfloorignore", "broken.ts", "docs/guide.md",
        "package.json", "src/index.ts", "src/server/auth/AuthService.ts", "src/server/auth/TokenManager.ts",
        "src/server/users/UserRepository.ts",
    ]  # fmt: skip
    assert found(both, "enormous") == []
    assert CANARY not in str(
        both.call("context", "context_search", {"query": f"SECRET {CANARY}", "limit": 20})["results"]
    )


def test_only_the_owner_finds_what_is_owned(both: Shopfloor):
    mail = Written("mail", "1", "mail-1", "mail", "Quarterly pelican", "private words", None, None, "agent:a", 1, 1)
    both.floor.administer(lambda work: work.index.replace("", "mail", {"1": [passage_of(mail)]}))

    def seen(key: str) -> int:
        return both.floor.works.read(lambda work: _count(work, key), _principal(key))

    assert (seen("agent:a"), seen("agent:b")) == (1, 0)


def _principal(key: str) -> Any:
    kind, _, name = key.partition(":")
    return Principal(Kind(kind), name)


def _count(work: Any, key: str) -> int:
    assert work.actor.key == key
    return len(work.index.by_words(["pelican"], Scope(), 10))


def test_what_others_own_takes_nobodys_place(both: Shopfloor):
    """Not even when there is more of it, and all of it fits better, than a search looks at."""

    def put(work: Any) -> None:
        theirs = [_mail(str(number), "pelican pelican pelican", "agent:b") for number in range(1, 60)]
        mine = _mail("60", "a pelican among other birds", "agent:a")
        work.index.replace("", "mail", {each.ref: [passage_of(each)] for each in [*theirs, mine]})

    both.floor.administer(put)
    hits = both.floor.works.read(lambda work: work.index.by_words(["pelican"], Scope(), 10), _principal("agent:a"))
    assert [hit.ref for hit in hits] == ["60"]


def _mail(ref: str, text: str, owner: str) -> Written:
    return Written("mail", ref, f"mail-{ref}", "mail", text, "", None, None, owner, 1, 1)


def test_vectors_find_what_words_do_not(project: Path):
    with open_floor(project) as floor:
        floor.floor.works.gateways[Embeddings] = Letters()
        floor.floor.indexer.catch_up()
        body = floor.call("context", "context_search", {"query": "qqq uuu eee rrr yyy"})
    assert body["index"]["by"] == "words and vectors"
    assert body["index"]["vectorsPercentage"] == 100
    assert body["results"]


def test_a_few_vectors_do_not_outweigh_the_words(project: Path):
    """While most passages have none yet, the nearest of those that have one are not near."""
    make_project(project, {f"src/p{n}.py": f"def pelican_{n}(): return 'wading bird {n}'\n" for n in range(40)})
    with open_floor(project) as floor:
        floor.floor.works.gateways[Embeddings] = Letters()
        floor.floor.indexer.catch_up(vectors=False)
        outside = Outside(floor.floor.works, OPERATOR, 0)
        (project / "zoo.md").write_text("Nothing to see here\n")
        assert len(found(floor, "see nothing")) == 1
        assert index.embed(outside, 1) == 1, "the latest gets its vector first"
        paths = [id.partition("#")[0] for id in found(floor, "pelican wading bird", limit=20)]
    assert all(path.startswith("src/p") for path in paths[:19])
    assert "zoo.md" not in paths[:5]


class Shorter(Letters):
    """Another model under the same name, as behind an endpoint that was exchanged."""

    def embed(self, texts: Any) -> Any:
        return super().embed(texts)[:, :5]


def test_vectors_of_another_length_are_refused_and_not_kept(project: Path):
    with open_floor(project) as floor:
        gateways = floor.floor.works.gateways
        gateways[Embeddings] = Letters()
        floor.floor.indexer.catch_up()
        before = found(floor, "tokens")
        gateways[Embeddings] = Shorter()
        (project / "new.py").write_text("def newcomer(): pass\n")
        with pytest.raises(EmbeddingFailed, match="Failed to generate query embedding"):
            floor.floor.indexer.catch_up()
        refused = floor.call("context", "context_search", {"query": "tokens"})
        assert refused["details"] == "Its vectors have 5 numbers, those of the index 26: it is another model"
        gateways[Embeddings] = Letters()
        floor.floor.indexer.catch_up()
        assert set(found(floor, "tokens")) >= set(before[:3])


def test_a_vector_of_another_length_in_the_store_does_no_harm():
    rows = np.eye(4, dtype=np.float32)
    vectors = Vectors()
    vectors.add([(1, b"one", packed(rows[0])), (2, b"odd", packed(rows[0][:2])), (3, b"two", packed(rows[1]))])
    vectors.add([(4, b"odder", packed(rows[0][:3]))])
    assert (vectors.last, vectors.length, len(vectors)) == (4, 4, 2)
    assert [digest for digest, _ in vectors.nearest(rows[1], 2, None)] == [b"two", b"one"]


def test_unchanged_passages_are_never_embedded_twice(project: Path, tmp_path: Path):
    letters = Letters()
    with open_floor(project) as floor:
        floor.floor.works.gateways[Embeddings] = letters
        floor.floor.indexer.catch_up()
        once = letters.made
        (project / "src" / "index.ts").rename(project / "src" / "renamed.ts")
        floor.floor.indexer.catch_up()
        assert letters.made == once
        (project / "src" / "new.ts").write_text("export const fresh = 1;\n")
        floor.floor.indexer.catch_up()
        assert letters.made == once + 1
    worktree = make_project(tmp_path / "worktree")
    with open_floor(worktree, database=f"sqlite://{project}/.shopfloor/shopfloor.db") as floor:
        floor.floor.works.gateways[Embeddings] = letters
        floor.floor.indexer.catch_up()
        assert letters.made == once + 1
        assert found(floor, "generateToken")[0] == "src/server/auth/AuthService.ts#L5-L9"


def test_a_reopened_floor_reads_no_file_again(project: Path, monkeypatch: pytest.MonkeyPatch):
    old = time.time() - 100
    for path in project.rglob("*"):
        os.utime(path, (old, old))
    with open_floor(project) as floor:
        floor.floor.indexer.catch_up()
    with open_floor(project) as floor:
        read = []
        monkeypatch.setattr("shopfloor.usecases.index._filed", lambda *given: read.append(given))
        assert floor.call("context", "context_search", {"query": "zzzzzz"})["index"]["complete"]
        assert read == []


def test_what_was_cut_in_another_way_is_cut_again(both: Shopfloor, project: Path):
    """After a new version of the floor, without a change of any file."""
    assert found(both, "generateToken")[0] == "src/server/auth/AuthService.ts#L5-L9"

    def older(work: Any) -> None:
        work.index.replace(work.index._root, "code", {"src/server/auth/AuthService.ts": ()})
        work.index.restamp("src/server/auth/AuthService.ts", "1:200:1:1")

    both.floor.administer(older)
    both.floor.works.gateways[Tree].known = None
    assert found(both, "generateToken")[0] == "src/server/auth/AuthService.ts#L5-L9"


def test_it_goes_on_after_a_kill_at_any_point(tmp_path: Path):
    """Killed again and again while it indexes: nothing is doubled, nothing is missing."""
    root = make_project(
        tmp_path / "p",
        {f"m{n}/f{k}.py": f"def fn_{n}_{k}():\n    return {k}\n" * 3 for n in range(20) for k in range(20)},
    )
    command = [sys.executable, "-m", "tests.context.indexing", str(root)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(CHECKOUT / "src"), *sys.path])}
    for pause in (0.05, 0.15, 0.3):
        with subprocess.Popen(command, cwd=CHECKOUT, env=environment, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(pause)
            process.send_signal(signal.SIGKILL)
    with open_floor(root) as floor:
        state = floor.floor.indexer.catch_up()
        assert (state["files"], state["filesPending"], state["passages"]) == (400, 0, 1200)
        assert floor.floor.look(_orphans) == 0


def _orphans(work: Any) -> int:
    connection = work.index._connection
    return int(connection.one("SELECT COUNT(*) FROM passage")[0]) - 1200


def test_a_first_index_of_500_files_is_searchable_within_two_seconds(tmp_path: Path):
    source = (CHECKOUT / "src" / "shopfloor" / "toolkit.py").read_text()[:6000]
    root = make_project(
        tmp_path / "p", {f"src/pkg/m{n}.py": f"{source}\ndef special_{n}(): pass\n" for n in range(500)}
    )
    with open_floor(root) as floor:
        began = time.monotonic()
        floor.floor.indexer.catch_up()
        assert found(floor, "special_77")[0].startswith("src/pkg/m77.py")
        assert time.monotonic() - began < 30, "two seconds on a quiet machine; bench/context.py has the figure"


def test_searching_while_another_indexes_goes_on_with_what_is_there(project: Path):
    with open_floor(project) as floor:
        assert found(floor, "generateToken")
        tree: Tree = floor.floor.works.gateways[Tree]
        (project / "later.py").write_text("def later(): pass\n")
        with tree.turn:
            assert found(floor, "generateToken")


def test_nearest_by_signs_agrees_with_nearest_by_whole_vectors():
    rng = np.random.default_rng(7)
    rows = rng.standard_normal((3000, 384)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    made = [(number + 1, number.to_bytes(4), packed(row)) for number, row in enumerate(rows)]
    whole, signs = Vectors(), Vectors(whole=1000)
    whole.add(made)
    for start in range(0, 3000, 700):
        signs.add(made[start : start + 700])
    assert (whole.by_sign, signs.by_sign, len(signs)) == (False, True, 3000)
    query = rows[42] + 0.3 * rng.standard_normal(384).astype(np.float32) / 20
    best = [digest for digest, _ in whole.nearest(query, 5, None)]
    assert best[0] == (42).to_bytes(4)
    unsure = [digest for digest, _ in signs.nearest(query, 5, None)]
    assert (unsure[0], len(unsure)) == (best[0], RESCORED)
    assert [d for d, _ in whole.nearest(query, 5, [(7).to_bytes(4), (42).to_bytes(4)])] == [
        (42).to_bytes(4),
        (7).to_bytes(4),
    ]
    assert whole.nearest(query, 5, [b"none"]) == []
    assert np.allclose(unpacked(packed(rows[0])), rows[0], atol=1e-3)


def test_passages_that_cannot_be_embedded_keep_nobody_from_it(project: Path):
    """The latest one is gone from the disk, and not yet from the index; the others get their vectors all the same."""
    with open_floor(project) as floor:
        floor.floor.works.gateways[Embeddings] = Letters()
        floor.floor.indexer.catch_up(vectors=False)
        (project / "src" / "index.ts").unlink()
        outside = Outside(floor.floor.works, OPERATOR, 0)
        while index.embed(outside, 1):
            pass
        made, passages = index.embedded(outside)
    assert (made, passages) == (passages - 1, passages)


def test_how_many_have_a_vector_is_counted_again_when_something_changes(project: Path):
    with open_floor(project) as floor:
        floor.floor.works.gateways[Embeddings] = Letters()
        floor.floor.indexer.catch_up()
        outside = Outside(floor.floor.works, OPERATOR, 0)
        made, passages = index.embedded(outside)
        assert made == passages > 0
        floor.call("context", "record_discovery", {"type": "rule", "content": "Count again"})
        assert found(floor, "count again")
        assert index.embedded(outside) in ((made, passages + 1), (made + 1, passages + 1))
