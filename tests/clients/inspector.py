"""Run the command line of the official MCP Inspector."""

import json
from collections.abc import Mapping
from typing import Any

from tests.clients import node


def inspect(
    url: str, method: str, *arguments: str, headers: Mapping[str, str] | None = None, era: str = "legacy"
) -> dict[str, Any]:
    """Make one call and return `result`, `error` if there was one, and `problems`.

    `problems` is the text of its strict check of the tool schemas, empty when it found none; only
    `tools/list` has this check. `era` is `legacy` (the handshake revisions), `modern` (2026-07-28) or `auto`.

    A tool: `inspect(url, "tools/call", "--tool-name", "echo", "--tool-args-json", '{"text": "hi"}')`.
    """
    options = ["--transport", "http", "--protocol-era", era, "--format", "json", "--stored-auth-only"]
    if method == "tools/list":
        options.append("--strict")
    for name, value in (headers or {}).items():
        options += ["--header", f"{name}: {value}"]
    result = node.run("mcp-inspector", "--cli", url, "--method", method, *options, *arguments)
    problems, error = _split(result.stderr)
    if result.returncode and not error:
        raise RuntimeError(f"The Inspector ended with {result.returncode}: {result.stderr}")
    return {**(json.loads(result.stdout) if result.stdout.strip() else {}), **error, "problems": problems}


def _split(stderr: str) -> tuple[str, dict[str, Any]]:
    """Split the error output into remarks and the final error, if any."""
    *remarks, last = stderr.strip().splitlines() or [""]
    if last.startswith('{"error"'):
        return "\n".join(remarks).strip(), json.loads(last)
    return stderr.strip(), {}
