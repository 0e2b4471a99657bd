"""Helpers of the context tests: a small project and a server on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from shopfloor.domain.principals import OPERATOR, Principal
from shopfloor.gateways.embeddings import Embeddings
from shopfloor.serving import Shopfloor
from shopfloor.settings import Settings
from shopfloor.usecases.external import ExternalContext

CANARY = "CANARY-ENV-7f3a"

FILES = {
    "src/server/auth/AuthService.ts": (
        'import { TokenManager } from "./TokenManager";\n'
        'import { UserRepository } from "../users/UserRepository";\n'
        'import express from "express";\n'
        "\n"
        "// Generate JWT token\n"
        "export function generateToken(payload: object): string {\n"
        "  const token = jwt.sign(payload, SECRET);\n"
        "  return token;\n"
        "}\n"
    ),
    "src/server/auth/TokenManager.ts": "export class TokenManager {\n  refreshToken(): void {}\n}\n",
    "src/server/users/UserRepository.ts": "export class UserRepository {\n  findUser(id: string): void {}\n}\n",
    "src/index.ts": "export const answer = 42;\n",
    "broken.ts": "const a = 1;\n" * 14 + "import { from ;;; (\n",
    "package.json": '{"name": "sample"}\n',
    ".gitignore": "ignored/\n*.log\n",
    ".github/workflows/ci.yml": "on: push\n",
    ".env": f"SECRET={CANARY}\n",
    ".env.local": f"SECRET={CANARY}\n",
    ".env.example": "SECRET=\n",
    ".git/config": f"[core] {CANARY}\n",
    "node_modules/pkg/index.js": f"jwt.sign('{CANARY}')\n",
    "dist/bundle.js": "jwt.sign(built)\n",
    "build/out.js": "jwt.sign(built)\n",
    ".next/page.js": "jwt.sign(built)\n",
    ".context/cache.js": "jwt.sign(built)\n",
    "ignored/skip.ts": "jwt.sign(ignored)\n",
    "debug.log": "jwt.sign(logged)\n",
    "docs/guide.md": "# Guide\n\nHow authentication works here.\n\n## Tokens\n\nTokens are refreshed under a lock.\n",
}


class Letters:
    """Vectors by the letters of a text; counts how many it has made."""

    name = "letters"

    def __init__(self) -> None:
        self.made = 0

    def ready(self) -> bool:
        return True

    def embed(self, texts: Any) -> Any:
        self.made += len(texts)
        rows = np.array([[text.lower().count(c) + 0.01 for c in "abcdefghijklmnopqrstuvwxyz"] for text in texts])
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def make_project(root: Path, files: dict[str, str] | None = None) -> Path:
    """Write a project with these files."""
    for path, text in (FILES if files is None else files).items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode())
    return root


def settings(root: Path, **more: Any) -> Settings:
    given = {
        "embeddings": "off",
        "retry_pause": 0.0,
        "rate_limits": {"read_file": 0, "grep_codebase": 0, "context_search": 0},
    }
    return Settings(project=root, **(given | more))


def open_floor(root: Path, **more: Any) -> Shopfloor:
    return Shopfloor(settings(root, **more))


def use_embeddings(shopfloor: Shopfloor, embeddings: Embeddings) -> None:
    """Use another model than the settings say."""
    shopfloor.engine.search.embeddings.model = embeddings


def open_external(shopfloor: Shopfloor, principal: Principal = OPERATOR, **more: Any) -> ExternalContext:
    """Open the context that a tool of this principal gets."""
    return ExternalContext(shopfloor.engine.database, shopfloor.engine.search, principal, 0, **more)
