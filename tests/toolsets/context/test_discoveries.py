"""Discoveries are stored once, superseded, and outdated when their files change."""

from __future__ import annotations

from pathlib import Path


def test_recorded_discovery_is_returned_with_its_fields(record):
    body = record("rule", "Tokens are never logged", files=["src/server/auth/TokenManager.ts"])
    assert body | {"date": ""} == {
        "id": "discovery-1", "type": "rule", "content": "Tokens are never logged", "module": "auth",
        "files": ["src/server/auth/TokenManager.ts"], "date": "",
    }  # fmt: skip


def test_same_discovery_recorded_twice_is_stored_once(record, search):
    first, second = record("rule", "Tokens are never logged"), record("rule", "Tokens are never logged")
    assert (second["id"], second["message"]) == (first["id"], "This is already recorded")
    assert search("tokens logged", type="rule")["totalFound"] == 1


def test_superseded_discovery_ranks_lower_and_is_marked(record, search):
    record("decision", "Sessions live in Redis, because of speed")
    record("decision", "Sessions live in PostgreSQL, because of backups", supersedes="discovery-1")
    results = search("where sessions live", type="decision")["results"]
    assert [(each["id"], each.get("supersededBy")) for each in results] == [
        ("discovery-2", None),
        ("discovery-1", "discovery-2"),
    ]
    assert results[0]["score"] > results[1]["score"]


def test_discovery_whose_files_changed_is_marked(record, search, project: Path):
    record("pattern", "The answer is a constant", files=["src/index.ts", "docs/guide.md"])
    assert "changedFiles" not in search("answer constant", type="pattern")["results"][0]
    (project / "src" / "index.ts").write_text("export const answer = compute();\n")
    assert search("answer constant", type="pattern")["results"][0]["changedFiles"] == ["src/index.ts"]
    (project / "docs" / "guide.md").unlink()
    changed = search("answer constant", type="pattern")["results"][0]["changedFiles"]
    assert sorted(changed) == ["docs/guide.md", "src/index.ts"]


def test_discovery_recorded_again_is_current_for_its_changed_files(record, search, project: Path):
    record("pattern", "The answer is a constant", files=["src/index.ts"])
    (project / "src" / "index.ts").write_text("export const answer = 43;\n")
    assert search("answer constant", type="pattern")["results"][0]["changedFiles"] == ["src/index.ts"]
    record("pattern", "The answer is a constant", module="src")
    assert (
        record("pattern", "The answer is a constant", files=["src/index.ts"])["message"] == "This is already recorded"
    )
    results = search("answer constant", type="pattern")["results"]
    assert [(each["id"], each.get("changedFiles")) for each in results] == [("discovery-1", None)]


def test_invalid_discovery_is_rejected(record):
    assert record("rule", "x", supersedes="discovery-9")["error"] == "Discovery discovery-9 does not exist"
    assert record("rule", "x", supersedes="nine")["error"] == "Invalid parameters"
    assert record("rule", "x", files=[".env"])["error"] == "Permission denied"
    assert record("rule", "x", files=["missing"])["error"] == "File not found"
    assert record("rule", "x", files=["src/index.ts"] * 21)["error"] == "Invalid parameters"
    assert record("other", "x")["error"] == "Invalid parameters"
    assert record("rule", "")["error"] == "Invalid parameters"
    assert record("rule", " \n ")["details"][0]["problem"] == "'content' must not be blank"
    assert record("rule", "x", supersedes="nine")["details"][0]["field"] == "supersedes"


def test_frequently_read_files_rank_slightly_higher(read, search, project: Path):
    for name in ("one", "two"):
        (project / f"{name}.py").write_text(f"def wombat():\n    return 'wombat {name}'\n")
    first, second = (each["path"] for each in search("wombats")["results"])
    for _ in range(10):
        read(second)
    assert [each["path"] for each in search("wombats")["results"]] == [second, first]


def test_tests_and_vendored_files_rank_lower(search, project: Path):
    for path in ("tests/test_wombat.py", "vendor/wombat.py", "src/wombat.py", "legacy/wombat.py"):
        (project / path).parent.mkdir(exist_ok=True)
        (project / path).write_text("def wombat():\n    return 'wombat'\n")
    assert search("wombats")["results"][0]["path"] == "src/wombat.py"
