"""The index is current at every search, survives kills, and is the same on both engines."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from shopfloor.domain.chunks import OVERVIEW
from shopfloor.domain.index import EmbeddedCount, Scope, SearchDocument, index_document
from shopfloor.domain.principals import Kind, Principal
from shopfloor.errors import EmbeddingFailed, Unavailable
from shopfloor.repositories import chunks
from shopfloor.repositories.embeddings import StoredEmbeddings
from shopfloor.search import candidates, embedding_index
from shopfloor.search import index as search_index
from shopfloor.search.embedding_index import EmbeddingIndex
from shopfloor.search.file_index import FileIndex
from shopfloor.search.vectors import Vectors
from shopfloor.serving import Shopfloor
from tests.operator_access import read_as_operator, write_as_operator
from tests.toolsets.context.support import CANARY, Letters, make_project, open_external, open_floor

CHECKOUT = Path(__file__).resolve().parents[2]


def find_ids(shopfloor: Shopfloor, query: str, **more: Any) -> list[str]:
    body = shopfloor.call("context", "context_search", {"query": query, **more})
    assert "results" in body, body
    return [result["id"] for result in body["results"]]


def test_code_and_discoveries_are_found_on_both_engines(both: Shopfloor):
    both.call("context", "record_discovery", {"type": "rule", "content": "Refresh tokens under a mutex lock"})
    assert find_ids(both, "refreshing a token")[0] in ("discovery-1", "src/server/auth/TokenManager.ts#L2-L2")
    assert find_ids(both, "mutex locks")[0] == "discovery-1"
    assert find_ids(both, "generate tokens", module="auth")[0] == "src/server/auth/AuthService.ts#L5-L9"
    assert find_ids(both, "generateToken")[0] == "src/server/auth/AuthService.ts#L5-L9"
    assert find_ids(both, "UserRepository.findUser")[0] == "src/server/users/UserRepository.ts#L2-L2"
    assert find_ids(both, "tokens", module="nowhere") == []
    assert find_ids(both, "'; DROP TABLE chunk; -- \" OR *") is not None


def test_file_with_all_words_in_different_functions_is_found_first(both: Shopfloor, project: Path):
    (project / "src" / "whole.py").write_text(
        "def heron():\n    pass\n\n\ndef egret():\n    pass\n\n\ndef bittern():\n    pass\n"
    )
    for number in range(3):
        (project / "src" / f"part{number}.py").write_text("def heron():\n    heron_heron = 1\n    return heron_heron\n")
    found = find_ids(both, "heron egret bittern", limit=20)
    assert found[0].startswith("src/whole.py#"), found
    assert read_as_operator(both, lambda uow: uow.index.count_chunks_without_words()) == 0
    (project / "src" / "whole.py").unlink()
    assert [each for each in find_ids(both, "heron egret bittern", limit=20) if "whole" in each] == []


def test_identifier_that_is_only_used_is_found_before_texts_with_its_parts(both: Shopfloor, project: Path):
    (project / "src" / "https.py").write_text(
        "def redirect(url, slashes):\n    # Slashes redirect.\n    return slashes\n"
    )
    (project / "src" / "router.py").write_text("def route(path):\n    return path.options.redirect_slashes or path\n")
    assert find_ids(both, "redirect_slashes") == ["src/router.py#L1-L2", "src/https.py#L1-L3"]


@pytest.mark.parametrize(
    "query", ["(((", "';--", "%%%", "___", "   ", '"" ""', "* * *", "\u200b\u200b\u200b", "NEAR(", "^-^"]
)
def test_query_without_words_does_not_fail(both: Shopfloor, query: str):
    body = both.call("context", "context_search", {"query": query})
    assert body.get("query") == query, body


def test_several_processes_can_update_the_index_at_once(both: Shopfloor, project: Path):
    """Open several servers on one store, each with its own view of the index."""
    others = [open_floor(project, database=both.settings.database) for _ in range(3)]
    for number in range(10):
        both.call("context", "record_discovery", {"type": "rule", "content": f"Rule {number} about pangolins"})
    threads = [threading.Thread(target=other.engine.search.update_all) for other in others]
    for thread in threads:
        thread.start()
    both.engine.search.update_all()
    for thread in threads:
        thread.join()
    for other in others:
        other.close()
    state = both.engine.search.state()
    both.engine.search.files.forget_stamps()
    assert both.engine.search.update_all() == state
    assert len(find_ids(both, "pangolins", type="rule", limit=20)) == 10


def test_words_of_a_batch_of_files_are_one_segment(project: Path):
    for number in range(30):
        (project / f"m{number}.py").write_text(f"def walrus_{number}():\n    return {number}\n")
    with open_floor(project) as shopfloor:
        shopfloor.engine.search.update_all(embeddings=False)
        path = shopfloor.engine.settings.database_file
        assert path is not None
        with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            [(segments,)] = connection.execute("SELECT count(DISTINCT segid) FROM chunk_words_idx")
    assert segments == 1


def test_file_change_is_visible_in_the_next_search(both: Shopfloor, project: Path):
    assert find_ids(both, "zebrafish") == []
    target = project / "src" / "zebra.py"
    target.write_text("def zebrafish():\n    return 1\n")
    assert find_ids(both, "zebrafish") == ["src/zebra.py#L1-L2"]
    target.write_text("def antelopes():\n    return 1\n")
    assert (find_ids(both, "zebrafish"), find_ids(both, "antelopes")) == ([], ["src/zebra.py#L1-L2"])
    target.rename(project / "src" / "moved.py")
    assert find_ids(both, "antelopes") == ["src/moved.py#L1-L2"]
    (project / "src" / "moved.py").unlink()
    assert find_ids(both, "antelopes") == []


def test_file_change_is_visible_even_when_the_scan_is_slow(
    shopfloor: Shopfloor, project: Path, monkeypatch: pytest.MonkeyPatch
):
    assert find_ids(shopfloor, "zebrafish") == []
    (project / "src" / "zebra.py").write_text("def zebrafish():\n    return 1\n")
    monkeypatch.setattr(search_index, "REFRESH_SECONDS", 0.0)
    assert find_ids(shopfloor, "zebrafish") == ["src/zebra.py#L1-L2"]


def test_file_change_with_the_same_size_and_time_is_noticed(both: Shopfloor, project: Path):
    target = project / "same.py"
    target.write_text("def aardvark(): pass\n")
    assert find_ids(both, "aardvark")
    status = target.stat()
    target.write_text("def crocodil(): pass\n")
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert find_ids(both, "crocodil") == ["same.py#L1-L1"]


def test_search_says_that_the_project_folder_is_gone_and_continues_when_it_is_back(project: Path, tmp_path: Path):
    with open_floor(project, data=tmp_path / "data") as shopfloor:
        assert find_ids(shopfloor, "generate token")
        project.rename(tmp_path / "moved")
        body = shopfloor.call("context", "context_search", {"query": "generate token"})
        assert body["message"] == "The project folder cannot be opened: No such file or directory."
        with pytest.raises(Unavailable):
            shopfloor.engine.search.update_all()
        (tmp_path / "moved").rename(project)
        assert find_ids(shopfloor, "generate token")


def test_secret_ignored_and_excluded_files_are_not_indexed(both: Shopfloor, project: Path):
    (project / ".shopfloorignore").write_text("huge/\n")
    make_project(project, {"huge/data.py": "def enormous(): pass\n"})
    both.engine.search.update_all()
    paths = read_as_operator(both, lambda uow: uow.index.stamps())
    assert sorted(paths) == [
        ".env.example", ".github/workflows/ci.yml", ".gitignore", ".shopfloorignore", "broken.ts", "docs/guide.md",
        "package.json", "src/index.ts", "src/server/auth/AuthService.ts", "src/server/auth/TokenManager.ts",
        "src/server/users/UserRepository.ts",
    ]  # fmt: skip
    assert find_ids(both, "enormous") == []
    assert CANARY not in str(
        both.call("context", "context_search", {"query": f"SECRET {CANARY}", "limit": 20})["results"]
    )


def test_owned_chunks_are_found_only_by_their_owner(both: Shopfloor):
    mail = SearchDocument(
        "mail", "1", "mail-1", "mail", "Quarterly pelican", "private words", None, None, "agent:a", 1, 1
    )
    write_as_operator(both, lambda uow: uow.index.replace_chunks("", "mail", {"1": [index_document(mail)]}))

    def count_visible(key: str) -> int:
        return both.engine.database.read(lambda uow: _count_pelicans(uow, key), _make_principal(key))

    assert (count_visible("agent:a"), count_visible("agent:b")) == (1, 0)


def _make_principal(key: str) -> Any:
    kind, _, name = key.partition(":")
    return Principal(Kind(kind), name)


def _count_pelicans(uow: Any, key: str) -> int:
    assert uow.actor.key == key
    return len(uow.chunks.by_words(["pelican"], Scope(), 10).hits)


def test_chunks_of_other_owners_do_not_crowd_out_results(both: Shopfloor):
    """Write more and better matches of another owner than a search examines."""

    def write_mails(uow: Any) -> None:
        theirs = [_make_mail(str(number), "pelican pelican pelican", "agent:b") for number in range(1, 60)]
        mine = _make_mail("60", "a pelican among other birds", "agent:a")
        uow.index.replace_chunks("", "mail", {each.ref: [index_document(each)] for each in [*theirs, mine]})

    write_as_operator(both, write_mails)
    found = both.engine.database.read(
        lambda uow: uow.chunks.by_words(["pelican"], Scope(), 10), _make_principal("agent:a")
    )
    assert [hit.ref for hit, _ in found.hits] == ["60"]


def test_texts_with_two_common_words_are_found_without_scoring_every_text(
    shopfloor: Shopfloor, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(chunks, "MAX_SCORED_ROWS", 20)
    texts = [
        *(f"text number {number}" for number in range(200)),
        *(f"heron number {number}" for number in range(30)),
        *(f"egret number {number}" for number in range(40)),
        *(f"stork number {number}" for number in range(50)),
        "a heron beside an egret",
        "an egret beside a stork",
        "one bittern",
        "a bittern beside a stork",
    ]
    mails = [_make_mail(str(number), text, "agent:a") for number, text in enumerate(texts, 1)]
    write_as_operator(
        shopfloor,
        lambda uow: uow.index.replace_chunks("", "mail", {each.ref: [index_document(each)] for each in mails}),
    )

    def find(*terms: str, reader: str = "agent:a") -> list[str]:
        def search(uow: Any) -> list[str]:
            return [hit.name for hit, _ in uow.chunks.by_words(terms, Scope(), 100).hits]

        return shopfloor.engine.database.read(search, _make_principal(reader))

    assert find("heron", "egret", "stork") == ["a heron beside an egret", "an egret beside a stork"]
    assert find("stork", "bittern") == ["a bittern beside a stork", "one bittern"]
    assert len(find("heron", "stork")) == 83, "no text has both, so each one is found"
    assert len(find("heron")) == 31
    assert find("heron", "egret", reader="agent:b") == []


def test_files_scored_together_with_chunks_have_the_same_scores(
    shopfloor: Shopfloor, project: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(chunks, "MAX_SCORED_ROWS", 8)
    words = ("heron", "egret", "stork", "bittern")
    files = {f"src/{words[n % 2]}{n}.py": f"def {words[n % 3]}_{words[n % 4]}_{n}(): pass\n" for n in range(40)}
    make_project(project, files | {"src/rare.py": "def ibis_heron(): return egret\n"})
    shopfloor.engine.search.update_all()
    queries: list[str] = []
    score_with_files = chunks.Chunks._score_with_files

    def spy(self: chunks.Chunks, query: str, *rest: Any) -> Any:
        queries.append(query)
        return score_with_files(self, query, *rest)

    monkeypatch.setattr(chunks.Chunks, "_score_with_files", spy)

    def find(embedded: bool, together: bool) -> tuple[Any, Any]:
        def search(uow: Any) -> tuple[Any, Any]:
            given = {"embedded": embedded} if together else {}
            matches = uow.chunks.by_words(["ibis", *words], Scope(), 10, **given)
            return matches.hits, uow.chunks.files_by_words(matches, Scope(), 10, embedded=embedded)

        return shopfloor.engine.database.read(search, _make_principal("agent:a"))

    for embedded in (False, True):
        assert find(embedded, together=True) == find(embedded, together=False)
    assert len(queries) >= 2


def test_counts_of_common_words_are_kept_until_many_texts_are_added(both: Shopfloor, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(chunks, "MIN_KEPT_COUNT", 20)
    monkeypatch.setattr(chunks, "KEPT_SHARE", 0.1)

    def add(text: str, first: int, last: int) -> None:
        mails = [_make_mail(str(number), text, "agent:a") for number in range(first, last)]
        batch = {each.ref: [index_document(each)] for each in mails}
        write_as_operator(both, lambda uow: uow.index.replace_chunks("", "mail", batch))

    def count(*terms: str) -> tuple[int, dict[str, int]]:
        def read(uow: Any) -> tuple[int, dict[str, int]]:
            matches = uow.chunks.by_words(terms, Scope(), 10)
            return matches.chunks, dict(matches.counts)

        return both.engine.database.read(read, _make_principal("agent:a"))

    add("heron", 1, 51)
    add("stork", 51, 61)
    assert count("heron", "stork") == (60, {"heron": 50, "stork": 10})
    add("heron beside a stork", 61, 64)
    assert count("heron", "stork") == (60, {"heron": 50, "stork": 13}), "only the rare word is counted again"
    add("heron", 64, 74)
    assert count("heron", "stork") == (73, {"heron": 63, "stork": 13})


def _make_mail(ref: str, text: str, owner: str) -> SearchDocument:
    return SearchDocument("mail", ref, f"mail-{ref}", "mail", text, "", None, None, owner, 1, 1)


def test_embeddings_find_results_that_words_do_not(project: Path):
    with open_floor(project) as shopfloor:
        shopfloor.engine.search.embeddings.model = Letters()
        shopfloor.engine.search.update_all()
        body = shopfloor.call("context", "context_search", {"query": "qqq uuu eee rrr yyy"})
    assert body["index"]["by"] == "words and vectors"
    assert body["index"]["vectorsPercentage"] == 100
    assert body["results"]


def test_few_embeddings_do_not_outweigh_word_matches(project: Path):
    """Embed one chunk only: while most have no embedding, the nearest is not relevant."""
    make_project(project, {f"src/p{n}.py": f"def pelican_{n}(): return 'wading bird {n}'\n" for n in range(40)})
    with open_floor(project) as shopfloor:
        shopfloor.engine.search.embeddings.model = Letters()
        shopfloor.engine.search.update_all(embeddings=False)
        (project / "zoo.md").write_text("Nothing to see here\n")
        assert len(find_ids(shopfloor, "see nothing")) == 1
        assert shopfloor.engine.search.embeddings.embed_next(1) == 1, "the latest chunk is embedded first"
        paths = [id.partition("#")[0] for id in find_ids(shopfloor, "pelican wading bird", limit=20)]
    assert [path.startswith("src/p") for path in paths[:19]] == [True] * 19
    assert "zoo.md" not in paths[:5]


@pytest.mark.parametrize("max_exact_rows", [1000, 1], ids=["exact", "by signs"])
def test_file_found_by_words_is_compared_by_embedding_even_if_others_are_nearer(
    project: Path, monkeypatch: pytest.MonkeyPatch, max_exact_rows: int
):
    monkeypatch.setattr(candidates, "NEAREST_EMBEDDINGS", 1)
    monkeypatch.setattr(embedding_index, "Vectors", partial(Vectors, max_exact_rows))
    make_project(project, {f"src/p{n}.py": f"def pelican_{n}(): return 'wading bird {n}'\n" for n in range(5)})
    with open_floor(project) as shopfloor:
        shopfloor.engine.search.embeddings.model = Letters()
        shopfloor.engine.search.update_all()
        query, caller = "pelican", open_external(shopfloor)
        embedding = shopfloor.engine.search.embeddings.finish_query(query, None)
        found = caller.read(
            lambda uow: candidates.find_candidates(uow, caller.gateways.files, query, Scope(), embedding)
        ).candidates
    compared = [hit.ref for hit, _ in found.by_embedding if hit.kind == OVERVIEW]
    assert [compared.count(f"src/p{n}.py") for n in range(5)] == [2] * 5


def test_embeddings_of_texts_that_were_edited_do_not_make_a_search_look_further(
    project: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(candidates, "NEAREST_EMBEDDINGS", 20)
    make_project(project, {f"src/p{n}.py": f"def pelican_{n}(): return 'wading bird {n}'\n" for n in range(20)})
    with open_floor(project) as shopfloor:
        index = shopfloor.engine.search
        index.embeddings.model = Letters()
        index.update_all()
        (project / "src" / "p7.py").write_text("xxx = 'xxxxxxxx xxxxxxxx'\n")
        index.update_all()
        embedding = index.embeddings.finish_query("def pelican_7(): return 'wading bird 7'", None)
        assert embedding is not None
        asked: list[int] = []
        nearest = Vectors.nearest

        def spy(self: Vectors, query: Any, count: int, among: Any) -> Any:
            asked.append(count)
            return nearest(self, query, count, among)

        monkeypatch.setattr(Vectors, "nearest", spy)
        hits = open_external(shopfloor).read(lambda uow: candidates.find_nearest(uow, Scope(), embedding))
    assert (len(hits), asked) == (20, [25])


class FewerDimensions(Letters):
    """Another model with the same name, as behind a replaced endpoint."""

    def embed(self, texts: Any) -> Any:
        return super().embed(texts)[:, :5]


def test_embeddings_with_other_dimensions_are_rejected_and_not_stored(project: Path):
    with open_floor(project) as shopfloor:
        embeddings = shopfloor.engine.search.embeddings
        embeddings.model = Letters()
        shopfloor.engine.search.update_all()
        before = find_ids(shopfloor, "tokens")
        embeddings.model = FewerDimensions()
        (project / "new.py").write_text("def newcomer(): pass\n")
        with pytest.raises(EmbeddingFailed, match="Failed to generate query embedding"):
            shopfloor.engine.search.update_all()
        rejected = shopfloor.call("context", "context_search", {"query": "tokens"})
        assert rejected["details"] == "The model returns 5 dimensions, but the index has 26: it is a different model"
        embeddings.model = Letters()
        shopfloor.engine.search.update_all()
        assert set(find_ids(shopfloor, "tokens")) >= set(before[:3])


def test_unchanged_chunks_are_embedded_once(project: Path, tmp_path: Path):
    letters = Letters()
    with open_floor(project) as shopfloor:
        shopfloor.engine.search.embeddings.model = letters
        shopfloor.engine.search.update_all()
        once = letters.made
        # The two overviews of a file have its name in them, its chunks do not.
        (project / "src" / "index.ts").rename(project / "src" / "renamed.ts")
        shopfloor.engine.search.update_all()
        assert letters.made == once + 2
        (project / "src" / "new.ts").write_text("export const fresh = 1;\n")
        shopfloor.engine.search.update_all()
        assert letters.made == once + 5
    worktree = make_project(tmp_path / "worktree")
    with open_floor(worktree, database=f"sqlite://{project}/.shopfloor/shopfloor.db") as shopfloor:
        shopfloor.engine.search.embeddings.model = letters
        shopfloor.engine.search.update_all()
        assert letters.made == once + 5
        assert find_ids(shopfloor, "generateToken")[0] == "src/server/auth/AuthService.ts#L5-L9"


def test_restart_does_not_read_unchanged_files(project: Path, monkeypatch: pytest.MonkeyPatch):
    old = time.time() - 100
    for path in project.rglob("*"):
        os.utime(path, (old, old))
    with open_floor(project) as shopfloor:
        shopfloor.engine.search.update_all()
    with open_floor(project) as shopfloor:
        read = []
        monkeypatch.setattr(FileIndex, "_read_file", lambda *arguments: read.append(arguments))
        assert shopfloor.call("context", "context_search", {"query": "zzzzzz"})["index"]["complete"]
        assert read == []


def test_files_indexed_by_an_older_chunker_are_indexed_again(both: Shopfloor, project: Path):
    """Simulate an upgrade without a change of any file."""
    assert find_ids(both, "generateToken")[0] == "src/server/auth/AuthService.ts#L5-L9"

    def write_old_stamp(uow: Any) -> None:
        uow.index.replace_chunks(uow.index._root, "code", {"src/server/auth/AuthService.ts": ()})
        uow.index.set_stamp("src/server/auth/AuthService.ts", "1:200:1:1")

    write_as_operator(both, write_old_stamp)
    both.engine.search.files.forget_stamps()
    assert find_ids(both, "generateToken")[0] == "src/server/auth/AuthService.ts#L5-L9"


def test_indexing_continues_after_kills(tmp_path: Path):
    """Kill a process several times while it indexes: no chunk is duplicated or missing."""
    root = make_project(
        tmp_path / "p",
        {f"m{n}/f{k}.py": f"def fn_{n}_{k}():\n    return {k}\n" * 3 for n in range(20) for k in range(20)},
    )
    command = [sys.executable, "-m", "tests.search.child", str(root)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(CHECKOUT / "src"), *sys.path])}
    for pause in (0.05, 0.15, 0.3):
        with subprocess.Popen(command, cwd=CHECKOUT, env=environment, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(pause)
            process.send_signal(signal.SIGKILL)
    with open_floor(root) as shopfloor:
        state = shopfloor.engine.search.update_all()
        assert (state["files"], state["filesPending"], state["chunks"]) == (400, 0, 1200)
        assert read_as_operator(shopfloor, _count_extra_chunks) == 0


def _count_extra_chunks(uow: Any) -> int:
    connection = uow.index._connection
    return int(connection.fetch_one("SELECT COUNT(*) FROM chunk")[0]) - 1200


def test_500_files_are_indexed_quickly(tmp_path: Path):
    source = (CHECKOUT / "src" / "shopfloor" / "toolkit.py").read_text()[:6000]
    root = make_project(
        tmp_path / "p", {f"src/pkg/m{n}.py": f"{source}\ndef special_{n}(): pass\n" for n in range(500)}
    )
    with open_floor(root) as shopfloor:
        began = time.monotonic()
        shopfloor.engine.search.update_all()
        assert find_ids(shopfloor, "special_77")[0].startswith("src/pkg/m77.py")
        assert time.monotonic() - began < 30, "two seconds on an idle machine; bench/context.py measures it"


def test_search_during_an_update_uses_the_present_index(project: Path):
    with open_floor(project) as shopfloor:
        assert find_ids(shopfloor, "generateToken")
        (project / "later.py").write_text("def later(): pass\n")
        with shopfloor.engine.search.files._lock:
            assert find_ids(shopfloor, "generateToken")


def test_chunk_that_cannot_be_embedded_does_not_block_the_others(project: Path):
    """Delete the file of the latest chunk: the others are embedded all the same."""
    with open_floor(project) as shopfloor:
        shopfloor.engine.search.embeddings.model = Letters()
        shopfloor.engine.search.update_all(embeddings=False)
        (project / "src" / "index.ts").unlink()
        while shopfloor.engine.search.embeddings.embed_next(1):
            pass
        count = shopfloor.engine.search.embeddings.count()
    # Its two overviews and its one chunk.
    assert count.embedded == count.chunks - 3


def test_embedding_count_is_refreshed_after_a_change(project: Path):
    with open_floor(project) as shopfloor:
        shopfloor.engine.search.embeddings.model = Letters()
        shopfloor.engine.search.update_all()
        before = shopfloor.engine.search.embeddings.count()
        assert before.embedded == before.chunks > 0
        shopfloor.call("context", "record_discovery", {"type": "rule", "content": "Count again"})
        assert find_ids(shopfloor, "count again")
        after = shopfloor.engine.search.embeddings.count()
        assert after.chunks == before.chunks + 1
        assert after.embedded in (before.embedded, before.embedded + 1)


def test_after_a_complete_count_of_many_chunks_only_newer_ones_are_counted(
    project: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(embedding_index, "MANY_CHUNKS", 1)
    monkeypatch.setattr(embedding_index, "MAX_NEW_SHARE", 0.5)
    monkeypatch.setattr(embedding_index, "COUNT_SECONDS", 0.0)
    counted: list[int] = []
    count_stored = StoredEmbeddings.count

    def count(self: StoredEmbeddings, model: str, *, chunks: bool, after_id: int = 0) -> Any:
        counted.append(after_id)
        return count_stored(self, model, chunks=chunks, after_id=after_id)

    # Files that were just written are indexed again by the next update.
    for path in project.rglob("*"):
        os.utime(path, (time.time() - 3600,) * 2)
    with open_floor(project) as shopfloor:
        index, files = shopfloor.engine.search, open_external(shopfloor).gateways.files
        index.update_all()
        # Not the server's own, of which the background computes the embeddings.
        embeddings = EmbeddingIndex(shopfloor.engine.database, files, Letters(), embed_chunks=True)

        def embed_all() -> None:
            while embeddings.embed_next():
                pass

        embed_all()
        whole = embeddings.count_now()
        assert whole.complete
        monkeypatch.setattr(StoredEmbeddings, "count", count)
        (project / "new.py").write_text("def newcomer(): pass\n")
        index.update_all()
        embeddings.forget_counts()
        counted.clear()
        # Its two overviews and its one chunk.
        assert embeddings.count() == whole + EmbeddedCount(0, 3, 0, 2)
        embed_all()
        assert embeddings.count() == whole + EmbeddedCount(3, 3, 2, 2)
        assert len(counted) == 2
        assert min(counted) > 0
        for number in range(20):
            (project / f"new{number}.py").write_text(f"def newcomer_{number}(): pass\n")
        index.update_all()
        embeddings.forget_counts()
        assert embeddings.count() == embeddings.count_now(), "many are new, so all are counted"
        assert counted[-1] == 0
        embeddings.close()
