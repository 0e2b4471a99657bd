"""Imports are extracted from the syntax tree and resolved to files of the project, through the path gate."""

from __future__ import annotations

from pathlib import Path

import pytest

from shopfloor.domain.file_kinds import detect_language
from shopfloor.errors import ImportParseError
from shopfloor.gateways.files import Files
from shopfloor.gateways.import_parser import Import, parse_imports
from shopfloor.gateways.import_resolver import ImportResolver
from tests.toolsets.context.support import make_project

PROJECTS: dict[str, tuple[dict[str, str], str, list[str]]] = {
    "python, a package below src": (
        {
            "src/app/__init__.py": "",
            "src/app/main.py": (
                "import os\nimport app.db\nfrom app import models, missing\nfrom . import views as v\n"
                "from .deep.inner import (thing, other)\nfrom .. import nothing\n"
                "def late():\n    from app.late import x\n"
            ),
            "src/app/db.py": "", "src/app/models.py": "", "src/app/views/__init__.py": "",
            "src/app/deep/__init__.py": "", "src/app/deep/inner.py": "", "src/app/late.py": "",
        },
        "src/app/main.py",
        ["src/app/db.py", "src/app/__init__.py", "src/app/models.py", "src/app/views/__init__.py",
         "src/app/deep/inner.py", "src/app/late.py"],
    ),
    "python, scripts side by side": (
        {"tools/run.py": "import shared\nimport json\n", "tools/shared.py": ""}, "tools/run.py", ["tools/shared.py"],
    ),
    "typescript, relative, index and .js for .ts": (
        {
            "src/a.ts": 'import {x} from "./b";\nexport * from "./lib";\nimport y from "./c.js";\nconst z = require("./d.json");\n'
                        'const l = await import("./e");\nimport "../../outside";\nimport React from "react";\n',
            "src/b.ts": "", "src/lib/index.tsx": "", "src/c.ts": "", "src/d.json": "{}", "src/e.js": "",
        },
        "src/a.ts",
        ["src/b.ts", "src/lib/index.tsx", "src/c.ts", "src/d.json", "src/e.js"],
    ),
    "typescript, paths and baseUrl of an extended tsconfig": (
        {
            "tsconfig.base.json": '{ // shared\n "compilerOptions": {"baseUrl": ".", "paths": {"@app/*": ["src/app/*"], "config": ["src/config.ts"],},},}',
            "tsconfig.json": '{"extends": "./tsconfig.base"}',
            "src/main.tsx": 'import a from "@app/auth";\nimport c from "config";\nimport u from "src/util";\n',
            "src/app/auth.ts": "", "src/config.ts": "", "src/util.ts": "",
        },
        "src/main.tsx",
        ["src/app/auth.ts", "src/config.ts", "src/util.ts"],
    ),
    "python, source folders of a monorepo": (
        {
            "py/tests/test_total.py": "import shop.total\nfrom common import words\n", "py/src/shop/__init__.py": "",
            "py/src/shop/total.py": "", "lib/common/__init__.py": "", "lib/common/words.py": "",
        },
        "py/tests/test_total.py",
        ["py/src/shop/total.py", "lib/common/words.py"],
    ),
    "typescript, a pnpm workspace, nested workspaces and exclusions": (
        {
            "pnpm-workspace.yaml": 'packages:\n  # all of them\n  - "libs/*"  # here\n  - \'!libs/old\'\ncatalog:\n  - "x/*"\n',
            "libs/core/package.json": '{"name": "@p/core"}', "libs/core/src/index.ts": "",
            "libs/old/package.json": '{"name": "@p/old"}', "libs/old/src/index.ts": "",
            "apps/package.json": '{"workspaces": ["ui-*"]}',
            "apps/ui-kit/package.json": '{"name": "kit"}', "apps/ui-kit/src/index.ts": "",
            "apps/web/main.ts": 'import a from "@p/core";\nimport b from "kit";\nimport c from "@p/old";\n',
        },
        "apps/web/main.ts",
        ["libs/core/src/index.ts", "apps/ui-kit/src/index.ts"],
    ),
    "rust, modules with a path and a workspace in a folder": (
        {
            "rs/Cargo.toml": '[workspace]\nmembers = ["crates/*"]\n',
            "rs/crates/one/Cargo.toml": '[package]\nname = "one"\n',
            "rs/crates/one/src/lib.rs": '#[cfg(unix)]\n#[path = "os/linux.rs"]\nmod sys;\nuse two_it::thing;\n',
            "rs/crates/one/src/os/linux.rs": "",
            "rs/crates/two/Cargo.toml": '[package]\nname = "two-it"\n', "rs/crates/two/src/thing.rs": "",
        },
        "rs/crates/one/src/lib.rs",
        ["rs/crates/one/src/os/linux.rs", "rs/crates/two/src/thing.rs"],
    ),
    "javascript, packages of a workspace": (
        {
            "package.json": '{"workspaces": ["packages/*"]}',
            "packages/core/package.json": '{"name": "@x/core", "main": "lib/main.js"}', "packages/core/lib/main.js": "",
            "packages/core/extra.js": "",
            "packages/web/index.js": 'import core from "@x/core";\nimport e from "@x/core/extra";\n',
        },
        "packages/web/index.js",
        ["packages/core/lib/main.js", "packages/core/extra.js"],
    ),
    "go, the module of go.mod": (
        {
            "go.mod": "module example.com/shop\n\ngo 1.22\n",
            "main.go": 'package main\n\nimport (\n\t"fmt"\n\tauth "example.com/shop/internal/auth"\n\t"example.com/other/x"\n)\n\nfunc main() { fmt.Println(auth.X) }\n',
            "internal/auth/auth.go": "package auth\n", "internal/auth/token.go": "package auth\n",
            "internal/auth/auth_test.go": "package auth\n",
        },
        "main.go",
        ["internal/auth/auth.go", "internal/auth/token.go"],
    ),
    "go, modules of a workspace, and one in place of another": (
        {
            "go.work": "go 1.22\n\nuse ./a\nuse (\n\t./b\n)\n", "a/go.mod": "module ex.com/a\n\nreplace ex.com/c v1.0.0 => ../forks/c\n",
            "b/go.mod": "module ex.com/b\n", "forks/c/go.mod": "module ex.com/c\n",
            "a/main.go": 'package main\nimport "ex.com/b/pkg"\nimport _ "ex.com/c"\nimport . "ex.com/a/dot"\n',
            "b/pkg/p.go": "package pkg\n", "forks/c/c.go": "package c\n", "a/dot/d.go": "package dot\n",
        },
        "a/main.go",
        ["b/pkg/p.go", "forks/c/c.go", "a/dot/d.go"],
    ),
    "rust, a test with modules of its own": (
        {
            "Cargo.toml": '[package]\nname = "my-x"\n', "src/lib.rs": "", "src/z.rs": "",
            "tests/it.rs": "use my_x::z::Q;\nmod common;\n", "tests/common/mod.rs": "",
        },
        "tests/it.rs",
        ["src/z.rs", "tests/common/mod.rs"],
    ),
    "java, modules side by side": (
        {
            "a/src/test/java/com/x/MainTest.java": (
                "package com.x;\nimport com.y.Outer.Inner;\nimport com.x.Main;\nimport com.y.Missing;\nclass MainTest {}\n"
            ),
            "a/src/main/java/com/x/Main.java": "", "b/src/main/java/com/y/Outer.java": "",
        },
        "a/src/test/java/com/x/MainTest.java",
        ["b/src/main/java/com/y/Outer.java", "a/src/main/java/com/x/Main.java"],
    ),
    "typescript, several extended configs": (
        {
            "web/tsconfig.json": '{"extends": ["../a.json", "../b"]}',
            "a.json": '{"compilerOptions": {"strict": true}}', "b.json": '{"compilerOptions": {"paths": {"~/*": ["./web/src/*"]}}}',
            "web/src/a.ts": 'import type {X} from "~/b";\n', "web/src/b.ts": "",
        },
        "web/src/a.ts",
        ["web/src/b.ts"],
    ),
    "rust, modules and a workspace": (
        {
            "Cargo.toml": '[workspace]\nmembers = ["crates/*"]\n',
            "crates/app/Cargo.toml": '[package]\nname = "app"\n',
            "crates/app/src/main.rs": "mod config;\nuse crate::store::{rows::Row, Table};\nuse my_util::text::trim;\nuse std::io;\nmod inline { }\nfn main() {}\n",
            "crates/app/src/config.rs": "use super::store;\n", "crates/app/src/store/mod.rs": "", "crates/app/src/store/rows.rs": "",
            "crates/util/Cargo.toml": '[package]\nname = "my-util"\n', "crates/util/src/lib.rs": "", "crates/util/src/text.rs": "",
        },
        "crates/app/src/main.rs",
        ["crates/app/src/config.rs", "crates/app/src/store/rows.rs", "crates/app/src/store/mod.rs", "crates/util/src/text.rs"],
    ),
    "java, source roots, static and everything": (
        {
            "src/main/java/com/acme/app/Main.java": (
                "package com.acme.app;\nimport com.acme.auth.Token;\nimport static com.acme.auth.Keys.make;\n"
                "import com.acme.model.*;\nimport java.util.List;\npublic class Main {}\n"
            ),
            "src/main/java/com/acme/auth/Token.java": "", "src/main/java/com/acme/auth/Keys.java": "",
            "src/main/java/com/acme/model/A.java": "", "src/main/java/com/acme/model/B.java": "",
        },
        "src/main/java/com/acme/app/Main.java",
        ["src/main/java/com/acme/auth/Token.java", "src/main/java/com/acme/auth/Keys.java",
         "src/main/java/com/acme/model/A.java", "src/main/java/com/acme/model/B.java"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROJECTS)
def test_imports_resolve_to_files_of_the_project(tmp_path: Path, name: str):
    tree, path, expected = PROJECTS[name]
    files = Files(make_project(tmp_path / "p", tree))
    language = detect_language(path)
    imports = parse_imports(path, language, files.read(path).data)
    assert ImportResolver(files).resolve(path, language, imports) == expected


@pytest.mark.parametrize(
    ("path", "source", "line"),
    [("a.py", b"x = 1\ndef (:\n", 2), ("a.ts", b"let x = 1;\nimport { from ;;; (\n", 2), ("a.go", b"package a\nfunc {\n", 2),
     ("a.rs", b"fn main() {}\nfn (((\n", 2), ("A.java", b"class A {}\nclass {{{\n", 2)],
)  # fmt: skip
def test_parse_error_names_the_line(path: str, source: bytes, line: int):
    with pytest.raises(ImportParseError) as rejection:
        parse_imports(path, detect_language(path), source)
    assert rejection.value.facts == {"path": path, "details": f"Syntax error at line {line}"}


def test_other_languages_have_no_imports():
    assert parse_imports("a.md", "markdown", b"import x\n") == ()


def test_import_never_resolves_outside_the_project_or_to_secrets(tmp_path: Path):
    root = make_project(
        tmp_path / "p",
        {"a.ts": 'import x from "../outside";\nimport y from "./.env";\nimport z from "./link";\nimport n from "./node_modules/q/i";\n',
         ".env": "S=1", "node_modules/q/i.ts": ""},
    )  # fmt: skip
    (tmp_path / "outside.ts").write_text("")
    (root / "link.ts").symlink_to(tmp_path / "outside.ts")
    files = Files(root)
    assert (
        ImportResolver(files).resolve(
            "a.ts", "typescript", parse_imports("a.ts", "typescript", files.read("a.ts").data)
        )
        == []
    )


@pytest.mark.parametrize(
    ("manifest", "text"),
    [
        ("Cargo.toml", "workspace = 5\ndependencies = 5\npackage = 5"),
        ("Cargo.toml", "dependencies = ['x']\n[workspace]\nmembers = 5"),
        ("Cargo.toml", "package.name = 5\n[dependencies]\nx = {path = 5}\n[workspace]\nmembers = [5]"),
        ("package.json", '{"name": 5, "workspaces": 5}'),
        ("package.json", '{"workspaces": {"packages": [5]}}'),
        ("tsconfig.json", '{"extends": 5, "compilerOptions": 5}'),
        ("tsconfig.json", '{"extends": [5], "compilerOptions": {"baseUrl": 5, "paths": {"x": 5, "*": [5]}}}'),
    ],
)
def test_manifest_with_values_of_other_types_resolves_to_nothing(tmp_path: Path, manifest: str, text: str):
    files = Files(make_project(tmp_path / "p", {manifest: text}))
    for path, language in (("src/main.rs", "rust"), ("a.ts", "typescript")):
        assert ImportResolver(files).resolve(path, language, [Import("x::y"), Import("x")]) == []


def test_packages_of_pnpm_are_read_with_quotes_comments_and_blank_lines(tmp_path: Path):
    workspace = (
        "# a workspace\npackages:\r\n  # all\n\n  - 'libs/*'  # ours\n  - \"tools\"\n-  apps/*\nother:\n- 'no/*'\n"
    )
    tree = {f"{folder}/package.json": f'{{"name": "{folder[-1]}"}}' for folder in ("libs/a", "tools", "apps/b", "no/c")}
    index = {f"{folder}/src/index.ts": "" for folder in ("libs/a", "tools", "apps/b", "no/c")}
    files = Files(make_project(tmp_path / "p", {"pnpm-workspace.yaml": workspace, **tree, **index}))
    found = ImportResolver(files).resolve("a.ts", "typescript", [Import(name) for name in "asbc"])
    assert found == ["libs/a/src/index.ts", "tools/src/index.ts", "apps/b/src/index.ts"]
