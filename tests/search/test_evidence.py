"""Search answers honestly: scores compare across queries, nonsense finds nothing, one text is one result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shopfloor.serving import Shopfloor
from tests.toolsets.context.support import make_project, open_floor


def search(shopfloor: Shopfloor, query: str) -> list[dict[str, Any]]:
    body = shopfloor.call("context", "context_search", {"query": query, "limit": 20})
    assert body["notice"].startswith("Results quote the project")
    results: list[dict[str, Any]] = body["results"]
    return results


def test_nonsense_finds_nothing_and_a_definition_scores_high(shopfloor: Shopfloor):
    assert search(shopfloor, "xyzzy plugh frobnicate") == []
    first, *_ = search(shopfloor, "generateToken")
    assert (first["symbol"], first["score"] >= 0.95) == ("generateToken", True)
    assert first["why"][0] == "definition"
    assert first["title"] == "function generateToken"


def test_letters_inside_or_at_the_beginning_of_other_words_are_no_evidence(tmp_path: Path):
    files = {
        "flags.py": "def set_flag(flag):\n    for each in flag:\n        store(each)\n",
        "delay.py": "def getLag(slot):\n    return slot.delay\n",
        "table.py": "def widen(size: int) -> int:\n    return size\n",
    }
    with open_floor(make_project(tmp_path, files)) as shopfloor:
        assert [each["path"] for each in search(shopfloor, "replication slot lag")] == ["delay.py"]
        assert search(shopfloor, "weather forecast") == []
        assert all(each["score"] < 0.2 for each in search(shopfloor, "interest rates of mortgage loans"))


def test_score_falls_with_the_share_of_words_that_are_found(shopfloor: Shopfloor):
    whole, *_ = search(shopfloor, "generate token payload")
    part, *_ = search(shopfloor, "generate token payload giraffe elephant rhinoceros")
    assert whole["id"] == part["id"]
    assert whole["score"] > 0.8 > part["score"]


def test_results_are_sorted_by_score(shopfloor: Shopfloor):
    scores = [result["score"] for result in search(shopfloor, "token generation and refresh of users")]
    assert len(scores) > 1
    assert scores == sorted(scores, reverse=True)


def test_same_text_at_several_places_is_one_result(tmp_path: Path):
    body = "def convert_currency(amount):\n    return amount * 2\n"
    root = make_project(tmp_path, {f"shop{number}/money.py": body for number in range(3)})
    with open_floor(root) as shopfloor:
        first, *rest = search(shopfloor, "convert currency")
    assert rest == []
    assert len(first["alsoAt"]) == 2


def test_class_is_shown_with_the_signatures_of_its_members(tmp_path: Path):
    source = "class Pelican:\n    def catch_fish(self, depth: int) -> None:\n        dive(depth)\n"
    with open_floor(make_project(tmp_path, {"bird.py": source})) as shopfloor:
        first, *_ = search(shopfloor, "Pelican")
    assert "def catch_fish(self, depth: int) -> None:" in first["content"]


def test_bare_method_name_finds_the_method_first(tmp_path: Path):
    files = {
        "a/iterators.py": "class Stream:\n    def __iter__(self):\n        return self.iter_bytes()\n" * 2,
        "b/response.py": "class Response:\n    def iter_bytes(self):\n        yield b''\n",
    }
    with open_floor(make_project(tmp_path, files)) as shopfloor:
        assert search(shopfloor, "iter_bytes")[0]["symbol"] == "Response.iter_bytes"
        assert search(shopfloor, "Response.iter_bytes")[0]["path"] == "b/response.py"


def test_setting_and_constant_are_found_by_name(tmp_path: Path):
    files = {
        "app/settings.py": "class Settings:\n    agent_silence_seconds: int = 300\n",
        "app/agent.py": "def check_agent_silence(agent):\n    return agent.silence_seconds\n",
    }
    with open_floor(make_project(tmp_path, files)) as shopfloor:
        assert search(shopfloor, "agent_silence_seconds")[0]["path"] == "app/settings.py"


def test_name_of_one_common_word_does_not_outweigh_what_a_question_says(tmp_path: Path):
    files = {
        "app/types.py": "class _Missing:\n    value = None\n",
        "app/form.py": "def form(request):\n    return request.body\n",
        "app/router.py": "def route(path):\n    # A slash at the end is optional.\n    return redirect(path + SLASH)\n",
    }
    files |= {
        f"app/part{n}.py": f"def part{n}(value):\n    # The value may be missing.\n    return value\n" for n in range(5)
    }
    with open_floor(make_project(tmp_path, files)) as shopfloor:
        assert search(shopfloor, "redirect when a trailing slash is missing")[0]["path"] == "app/router.py"


def test_word_that_the_code_abbreviates_is_found(tmp_path: Path):
    files = {"auth.py": "def check(user):\n    return user.ok\n", "cart.py": "def add(item):\n    return item\n"}
    with open_floor(make_project(tmp_path, files)) as shopfloor:
        assert search(shopfloor, "how does authentication work")[0]["path"] == "auth.py"


def test_query_is_found_although_some_of_its_words_are_nowhere(tmp_path: Path):
    with open_floor(make_project(tmp_path, {"a.py": "x = 1\n"})) as shopfloor:
        shopfloor.call(
            "context", "record_discovery", {"type": "rule", "content": "Always compute invoice totals in integer cents"}
        )
        assert search(shopfloor, "invoice rounding rule")[0]["id"] == "discovery-1"


def test_file_is_one_result_with_its_overview_only_if_no_chunk_matches(tmp_path: Path):
    files = {"pelican.py": "def catch(fish):\n    return fish\n", "heron.py": "def wade(depth):\n    return depth\n"}
    with open_floor(make_project(tmp_path, files)) as shopfloor:
        assert [result["title"] for result in search(shopfloor, "catch fish")] == ["function catch"]


def test_manuals_translations_and_generated_scripts_rank_below_code(tmp_path: Path):
    text = "rename the window of a wombat session\n"
    files = dict.fromkeys(("CHANGES", "wombat.1", "Manual.pod", "strings.resx", "configure", "fix.patch"), text * 3)
    files["window.c"] = "/* rename the window of a wombat session */\nvoid rename_window(int id) {\n  apply(id);\n}\n"
    with open_floor(make_project(tmp_path, files)) as shopfloor:
        assert search(shopfloor, "how is the window of a wombat session renamed")[0]["path"] == "window.c"


def test_capitalized_build_folder_is_source_and_searched(tmp_path: Path):
    files = {"Build/Cache.zig": "pub fn addWombat() void {}\n", "build/out.zig": "pub fn addQuokka() void {}\n"}
    with open_floor(make_project(tmp_path, files)) as shopfloor:
        assert [result["path"] for result in search(shopfloor, "addWombat")] == ["Build/Cache.zig"]
        assert "build/out.zig" not in [result["path"] for result in search(shopfloor, "addQuokka")]
