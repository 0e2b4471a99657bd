"""The command line of the official MCP Inspector, as a function."""

import json
from collections.abc import Mapping
from typing import Any

from tests.clients import node


def inspect(
    url: str, method: str, *arguments: str, headers: Mapping[str, str] | None = None, era: str = "legacy"
) -> dict[str, Any]:
    """What the Inspector makes of one call: `result`, `error` where it ended with one, and `problems`.

    `problems` is what its strict look at the tools' schemas found, as text; empty is good. The look belongs
    to `tools/list`. `era` is `legacy` (the handshake revisions), `modern` (2026-07-28) or `auto`.

    A tool: `inspect(url, "tools/call", "--tool-name", "echo", "--tool-args-json", '{"text": "hi"}')`.
    """
    options = ["--transport", "http", "--protocol-era", era, "--format", "json", "--stored-auth-only"]
    if method == "tools/list":
        options.append("--strict")
    for name, value in (headers or {}).items():
        options += ["--header", f"{name}: {value}"]
    done = node.run("mcp-inspector", "--cli", url, "--method", method, *options, *arguments)
    problems, error = _split(done.stderr)
    if done.returncode and not error:
        raise RuntimeError(f"The Inspector ended with {done.returncode}: {done.stderr}")
    return {**(json.loads(done.stdout) if done.stdout.strip() else {}), **error, "problems": problems}


def _split(stderr: str) -> tuple[str, dict[str, Any]]:
    """Its remarks, and the error it closes with, if any."""
    *remarks, last = stderr.strip().splitlines() or [""]
    if last.startswith('{"error"'):
        return "\n".join(remarks).strip(), json.loads(last)
    return stderr.strip(), {}
