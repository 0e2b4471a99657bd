"""Every promise of the contract, through the official client. promises.yaml names the tests of each promise."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread
from mcp import Client

from shopfloor.app import RATE_LIMITS
from shopfloor.domain.principals import OPERATOR
from shopfloor.errors import EmbeddingFailed
from shopfloor.serving import Shopfloor
from shopfloor.toolkit import Credential
from shopfloor.toolsets.context import contract
from shopfloor.transports import mcp_server
from tests.operator_access import read_as_operator
from tests.toolsets.context.support import CANARY, open_floor

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_the_tools_are_listed_with_their_schemas(client: Client):
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert list(tools) == ["read_file", "grep_codebase", "context_search", "record_discovery"]
    query = tools["context_search"].input_schema["properties"]
    assert (query["query"]["minLength"], query["query"]["maxLength"]) == (3, 500)
    assert (query["type"]["enum"], query["type"]["default"]) == (["all", "pattern", "rule", "decision", "issue"], "all")
    assert (query["limit"]["minimum"], query["limit"]["maximum"], query["limit"]["default"]) == (1, 20, 5)
    assert tools["context_search"].input_schema["required"] == ["query"]
    read = tools["read_file"].input_schema["properties"]
    assert (read["path"]["minLength"], read["includeDeps"]["default"]) == (1, False)
    assert (read["maxDepth"]["minimum"], read["maxDepth"]["maximum"], read["maxDepth"]["default"]) == (0, 1, 1)
    grep = tools["grep_codebase"].input_schema["properties"]
    assert (grep["pattern"]["minLength"], grep["pattern"]["maxLength"]) == (1, 200)
    assert (grep["limit"]["minimum"], grep["limit"]["maximum"], grep["limit"]["default"]) == (1, 100, 50)
    assert (grep["caseSensitive"]["default"], "filePattern" in grep) == (False, True)


async def test_descriptions_match_the_contract(client: Client):
    tools = {tool.name: tool.description for tool in (await client.list_tools()).tools}
    assert tools["context_search"] == (
        "Search project context semantically using RAG (Retrieval-Augmented Generation) with embeddings. "
        "Returns relevant discoveries, sessions, and code snippets ranked by similarity."
    )
    assert tools["read_file"] == (
        "Read file content with optional dependency tree loading. Tracks file access for context scoring."
    )
    assert tools["grep_codebase"] == (
        "Fast text search across codebase using regex patterns. "
        "Fallback when semantic search not available or for exact matches."
    )


async def test_search_has_the_fields_of_the_contract(call):
    await call("record_discovery", type="pattern", content="Use JWT tokens in httpOnly cookies", module="auth")
    body, refused = await call("context_search", query="JWT cookies", type="pattern")
    assert not refused
    (result,) = body["results"]
    # Beside the fields of the contract.
    assert (result.pop("title"), result.pop("why")) == ("Use JWT tokens in httpOnly cookies", ["words"])
    assert result | {"date": "", "score": 0} == {
        "id": "discovery-1",
        "type": "pattern",
        "content": "Use JWT tokens in httpOnly cookies",
        "module": "auth",
        "session": None,
        "date": "",
        "score": 0,
        "source": "discovery",
    }
    assert 0 < result["score"] <= 1
    assert result["date"].endswith("Z")
    assert (body["query"], body["totalFound"]) == ("JWT cookies", 1)
    assert isinstance(body["searchTime"], int)


async def test_general_search_finds_discoveries(call):
    await call(
        "record_discovery",
        type="pattern",
        content="Use JWT tokens stored in httpOnly cookies for authentication work",
        module="auth",
    )
    await call("record_discovery", type="pattern", content="Retry database calls with backoff", module="db")
    body, _ = await call("context_search", query="how does authentication work", type="all", limit=5)
    assert body["results"][0]["content"].startswith("Use JWT tokens")
    assert len(body["results"]) <= 5
    scores = [result["score"] for result in body["results"]]
    assert scores == sorted(scores, reverse=True)


async def test_filtered_search_returns_only_its_type_and_module(call):
    for kind, module in [("issue", "auth"), ("issue", "db"), ("pattern", "auth")]:
        await call("record_discovery", type=kind, content=f"Token refresh race in {module}, a {kind}", module=module)
    body, _ = await call("context_search", query="token refresh issue", type="issue", module="auth", limit=3)
    assert [(each["type"], each["module"]) for each in body["results"]] == [("issue", "auth")]


async def test_a_decision_search_includes_logged_decisions(call, shopfloor: Shopfloor):
    await shopfloor.acall(
        "factory", "mcp__system__log_decision", {"title": "Use PostgreSQL", "body": "It scales out for our database"}
    )
    body, _ = await call("context_search", query="decisions about database choice", type="decision")
    assert [(each["source"], each["type"], each["id"][:4]) for each in body["results"]] == [
        ("decision", "decision", "log-")
    ]
    assert (await call("context_search", query="decisions about database choice", type="rule"))[0]["results"] == []


async def test_code_is_found_with_its_location(call):
    body, _ = await call("context_search", query="generateToken")
    first = body["results"][0]
    assert (first["source"], first["path"], first["module"]) == ("code", "src/server/auth/AuthService.ts", "auth")
    assert (first["startLine"], first["endLine"]) == (5, 9)
    assert "jwt.sign" in first["content"]


async def test_response_reports_how_fresh_the_index_is(call):
    body, _ = await call("context_search", query="generateToken")
    assert body["index"] == {"complete": True, "percentage": 100, "files": 10, "filesChangedSince": 0, "by": "words"}
    assert "words" in body["hint"]


async def test_short_query_is_rejected(call):
    assert await call("context_search", query="ab") == ({"error": "Query must be at least 3 characters"}, True)


def test_search_in_an_empty_project_finds_nothing(tmp_path: Path):
    root = tmp_path / "empty"
    root.mkdir()
    with open_floor(root) as shopfloor:
        answer = shopfloor.answer("context", "context_search", {"query": "anything"})
    assert answer.error is not None
    assert {key: answer.body[key] for key in ("error", "fallback")} == {
        "error": "No embeddings found. Run initial session to generate context.",
        "fallback": "Use grep_codebase for text search",
    }


class _Endpoint(BaseHTTPRequestHandler):
    """An endpoint with OpenAI's format that counts letters, or fails."""

    status = 200

    def do_POST(self) -> None:
        texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
        data = [{"index": n, "embedding": [text.count(c) + 0.01 for c in "aeiou"]} for n, text in enumerate(texts)]
        body = json.dumps({"data": data} if self.status == 200 else {"error": {"message": "no"}}).encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""


@pytest.fixture
def endpoint() -> Iterator[tuple[str, type[_Endpoint]]]:
    handler = type("Endpoint", (_Endpoint,), {})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1", handler
    server.shutdown()
    thread.join()
    server.server_close()


def test_failing_endpoint_returns_the_error_of_the_contract(project: Path, endpoint: tuple[str, type[_Endpoint]]):
    url, handler = endpoint
    with open_floor(project, embeddings="openai", openai_base_url=url) as shopfloor:
        shopfloor.engine.search.update_all()
        found = shopfloor.call("context", "context_search", {"query": "generateToken"})
        assert found["index"]["by"] == "words and vectors"
        assert found["index"]["vectorsPercentage"] == 100
        handler.status = 429
        answer = shopfloor.answer("context", "context_search", {"query": "generateToken"})
    assert answer.error is not None
    body = {key: value for key, value in answer.body.items() if key in ("error", "details")}
    assert body == {"error": "Failed to generate query embedding", "details": "API rate limit exceeded"}


def test_endpoint_that_fails_from_the_start_returns_the_error_of_the_contract(
    project: Path, endpoint: tuple[str, type[_Endpoint]]
):
    url, handler = endpoint
    handler.status = 429
    with open_floor(project, embeddings="openai", openai_base_url=url) as shopfloor:
        with pytest.raises(EmbeddingFailed):
            shopfloor.engine.search.update_all()
        body = shopfloor.call("context", "context_search", {"query": "generateToken"})
        assert (body["error"], body["details"]) == ("Failed to generate query embedding", "API rate limit exceeded")
        handler.status = 200
        shopfloor.engine.search.update_all()
        found = shopfloor.call("context", "context_search", {"query": "generateToken"})
    assert found["index"]["by"] == "words and vectors"
    assert found["contentIsUntrusted"] is True


async def test_file_is_read_with_its_metadata(call):
    body, refused = await call("read_file", path="src/server/auth/AuthService.ts")
    assert not refused
    content = body["file"]["content"]
    assert body["file"] == {
        "path": "src/server/auth/AuthService.ts",
        "content": content,
        "size": len(content),
        "lines": 9,
        "language": "typescript",
    }
    assert body["dependencies"] == []
    assert body["metadata"] | {"lastModified": ""} == {"module": "auth", "role": "core", "lastModified": ""}
    assert body["metadata"]["lastModified"].endswith("Z")


async def test_dependencies_come_with_their_content(call):
    body, _ = await call("read_file", path="src/server/auth/AuthService.ts", includeDeps=True, maxDepth=1)
    assert [(each["path"], each["type"], each["level"]) for each in body["dependencies"]] == [
        ("src/server/auth/TokenManager.ts", "import", 1),
        ("src/server/users/UserRepository.ts", "import", 1),
    ]
    assert "class TokenManager" in body["dependencies"][0]["content"]


async def test_depth_zero_has_no_dependencies(call):
    body, _ = await call("read_file", path="src/server/auth/AuthService.ts", includeDeps=True, maxDepth=0)
    assert body["dependencies"] == []


async def test_a_missing_file_is_not_found(call):
    body, refused = await call("read_file", path="invalid/path.ts")
    assert refused
    assert {key: body[key] for key in ("error", "path")} == {"error": "File not found", "path": "invalid/path.ts"}


async def test_unparsable_imports_are_rejected_with_the_file(call):
    body, refused = await call("read_file", path="broken.ts", includeDeps=True)
    assert refused
    assert {key: body[key] for key in ("error", "path", "details")} == {
        "error": "Failed to parse imports",
        "path": "broken.ts",
        "details": "Syntax error at line 15",
    }
    assert body["file"]["content"].startswith("const a = 1;")
    assert (await call("read_file", path="broken.ts"))[1] is False


async def test_a_blocked_file_is_denied(call):
    for path in (".env", ".env.local", ".git/config", "node_modules/pkg/index.js", ".env.missing"):
        body, refused = await call("read_file", path=path)
        assert refused
        assert {key: body[key] for key in ("error", "path")} == {"error": "Permission denied", "path": path}
        assert CANARY not in json.dumps(body)


async def test_traversal_and_absolute_paths_are_rejected(call):
    for path in ("../../../etc/passwd", "src/../../x", "../missing"):
        body, refused = await call("read_file", path=path)
        assert (refused, body["error"]) == (True, "Path traversal not allowed")
    for path in ("/etc/passwd", "/missing"):
        body, refused = await call("read_file", path=path)
        assert (refused, body["error"]) == (True, "Absolute paths not allowed")


async def test_a_file_over_one_megabyte_is_too_large(call, project: Path):
    for size, expected in [(1_048_575, False), (1_048_576, False), (1_048_577, True)]:
        (project / "size.txt").write_bytes(b"x" * size)
        body, refused = await call("read_file", path="size.txt")
        assert refused is expected
    assert body["error"] == "File too large"


async def test_read_files_are_recorded(call, shopfloor: Shopfloor):
    for _ in range(3):
        await call("read_file", path="src/index.ts")
    await to_thread.run_sync(shopfloor.engine.database.store.flush)
    ((path, count, at),) = read_as_operator(shopfloor, lambda uow: uow.file_accesses.most_used(5))
    assert (path, count) == ("src/index.ts", 3)
    assert at > 0


async def test_grep_has_the_fields_of_the_contract(call):
    body, refused = await call("grep_codebase", pattern="jwt\\.sign")
    assert not refused
    assert body["matches"] == [
        {
            "file": "src/server/auth/AuthService.ts",
            "line": 7,
            "column": 17,
            "text": "  const token = jwt.sign(payload, SECRET);",
            "context": {
                "before": ["// Generate JWT token", "export function generateToken(payload: object): string {"],
                "after": ["  return token;", "}"],
            },
        }
    ]
    assert (body["pattern"], body["totalMatches"]) == ("jwt\\.sign", 1)
    assert body["filesSearched"] >= 9
    assert isinstance(body["searchTime"], int)


async def test_grep_takes_a_glob_a_case_and_a_limit(call):
    body, _ = await call("grep_codebase", pattern="export", filePattern="**/*.ts", limit=2)
    assert (len(body["matches"]), body["totalMatches"]) == (2, 4)
    body, _ = await call("grep_codebase", pattern="EXPORT FUNCTION", filePattern="src/server/**/*.ts")
    assert body["totalMatches"] == 1
    body, _ = await call("grep_codebase", pattern="EXPORT FUNCTION", caseSensitive=True)
    assert body["totalMatches"] == 0


async def test_invalid_regex_is_rejected_with_the_pattern(call):
    body, refused = await call("grep_codebase", pattern="[invalid(")
    assert refused
    assert {key: body[key] for key in ("error", "pattern")} == {
        "error": "Invalid regex pattern",
        "pattern": "[invalid(",
    }


async def test_grep_without_matches_returns_an_empty_list(call):
    body, refused = await call("grep_codebase", pattern="nonexistent")
    assert not refused
    assert {key: body[key] for key in ("matches", "totalMatches", "message")} == {
        "matches": [],
        "totalMatches": 0,
        "message": "No matches found for pattern 'nonexistent'",
    }


async def test_grep_skips_excluded_ignored_and_secret_files(call):
    body, _ = await call("grep_codebase", pattern="jwt")
    assert {match["file"] for match in body["matches"]} == {"src/server/auth/AuthService.ts"}
    body, _ = await call("grep_codebase", pattern=CANARY)
    assert body["totalMatches"] == 0


async def test_bad_parameters_are_explained(call):
    cases: list[tuple[str, dict[str, Any]]] = [
        ("context_search", {}),
        ("context_search", {"query": "x" * 501}),
        ("context_search", {"query": "abc", "limit": 21}),
        ("context_search", {"query": "abc", "type": "other"}),
        ("read_file", {"path": ""}),
        ("read_file", {"path": "a", "maxDepth": 2}),
        ("read_file", {"path": "a", "unknown": 1}),
        ("grep_codebase", {"pattern": "x" * 201}),
        ("grep_codebase", {"pattern": "x", "limit": 0}),
        ("grep_codebase", {"pattern": "x", "limit": True}),
    ]
    for tool, given in cases:
        body, refused = await call(tool, **given)
        assert (refused, body["error"]) == (True, "Invalid parameters")
        assert body["details"][0]["field"]


async def test_an_unknown_tool_is_an_error_in_the_result(call):
    body, refused = await call("write_file", path="x")
    assert refused
    assert (body["error"], body["tool"]) == ("Unknown tool: write_file", "write_file")


def test_failed_search_names_alternatives(shopfloor: Shopfloor, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("shopfloor.search.index.rank", lambda *_: 1 / 0)
    body = shopfloor.call("context", "context_search", {"query": "generateToken"})
    assert {key: body[key] for key in ("error", "message", "fallback")} == {
        "error": "Search failed",
        "message": "An unexpected error occurred",
        "fallback": "Try using grep_codebase for text search",
    }


def test_each_tool_has_its_rate_limit(project: Path):
    assert RATE_LIMITS | {"context_search": 30, "read_file": 100, "grep_codebase": 60} == RATE_LIMITS
    with open_floor(project, rate_limits={}) as shopfloor:
        for tool, given, allowed in [
            ("read_file", {"path": "src/index.ts"}, 100),
            ("grep_codebase", {"pattern": "answer"}, 60),
            ("context_search", {"query": "answer"}, 30),
        ]:
            answers = [shopfloor.answer("context", tool, given) for _ in range(allowed + 1)]
            assert [answer.error is None for answer in answers] == [True] * allowed + [False]
            body = answers[-1].body
            assert (body["error"], body["tool"]) == (f"Rate limit exceeded for {tool}", tool)
            assert 0 < body["retryAfter"] <= 60


def test_slow_call_is_logged_as_a_warning_and_counted(shopfloor: Shopfloor, monkeypatch: pytest.MonkeyPatch, caplog):
    monkeypatch.setattr(shopfloor.engine.toolsets["context"], "time_budget", lambda _: 0.0)
    with caplog.at_level(logging.INFO, "shopfloor.calls"):
        shopfloor.call("context", "read_file", {"path": "src/index.ts"})
    assert [record.message for record in caplog.records] == ["call started", "call was slow", "call ended"]
    page = shopfloor.engine.telemetry.metrics.render().decode()
    assert 'shopfloor_slow_calls_total{tool="read_file"} 1.0' in page
    assert 'shopfloor_calls_total{outcome="ok",tool="read_file",toolset="context"} 1.0' in page


def test_time_limits_match_the_contract(shopfloor: Shopfloor):
    def get_time_limit(tool: str, **arguments: Any) -> float | None:
        return contract.time_budget(shopfloor._request("context", tool, arguments, None, "python"))

    assert (get_time_limit("context_search"), get_time_limit("grep_codebase")) == (5.0, 3.0)
    assert (get_time_limit("read_file"), get_time_limit("read_file", includeDeps=True)) == (0.5, 2.0)


async def test_resources_pass_the_same_pipeline(client: Client, call):
    await call("record_discovery", type="rule", content="Never log tokens", module="auth", files=["src/index.ts"])
    (listed,) = (await client.list_resources()).resources
    overview = json.loads((await client.read_resource(str(listed.uri))).contents[0].text)  # type: ignore[union-attr]
    assert overview["languages"]["typescript"] == 5
    assert overview["rules"] == [{"id": "discovery-1", "module": "auth", "content": "Never log tokens"}]
    templates = [each.uri_template for each in (await client.list_resource_templates()).resource_templates]
    assert templates == ["shopfloor://discovery/{id}", "shopfloor://file/{+path}"]
    file = await client.read_resource("shopfloor://file/src/index.ts")
    assert file.contents[0].text == "export const answer = 42;\n"  # type: ignore[union-attr]
    discovery = json.loads((await client.read_resource("shopfloor://discovery/discovery-1")).contents[0].text)  # type: ignore[union-attr]
    assert (discovery["content"], discovery["changedFiles"]) == ("Never log tokens", [])
    for uri, words in [
        ("shopfloor://file/.env", "Permission denied"),
        ("shopfloor://file/..%2Foutside", "Path traversal not allowed"),
        ("shopfloor://file/missing", "File not found"),
        ("shopfloor://discovery/discovery-99", "does not exist"),
        ("shopfloor://nothing", "Resource not found"),
    ]:
        with pytest.raises(Exception, match=words):
            await client.read_resource(uri)


async def test_it_is_served_beside_the_other_toolsets(shopfloor: Shopfloor):
    server = mcp_server.build_server(shopfloor.engine, shopfloor.engine.profile, "mcp", Credential(trusted=OPERATOR))
    async with Client(server) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"context_search", "read_file", "grep_codebase", "mcp__agent__get_status"} <= names
        assert "context_search" in (client.instructions or "")
