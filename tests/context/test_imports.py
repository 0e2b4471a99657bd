"""Imports: extracted from the tree, resolved to files of the project, through the gate."""

from __future__ import annotations

from pathlib import Path

import pytest

from shopfloor.domain.places import language_of
from shopfloor.errors import ImportsUnreadable
from shopfloor.gateways.files import Files
from shopfloor.gateways.imports import imports_of
from shopfloor.gateways.resolve import Resolver
from tests.context.support import make_project

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
def test_imports_lead_to_files_of_the_project(tmp_path: Path, name: str):
    tree, path, expected = PROJECTS[name]
    files = Files(make_project(tmp_path / "p", tree))
    language = language_of(path)
    imports = imports_of(path, language, files.read(path).data)
    assert Resolver(files).resolve(path, language, imports) == expected


@pytest.mark.parametrize(
    ("path", "source", "line"),
    [("a.py", b"x = 1\ndef (:\n", 2), ("a.ts", b"let x = 1;\nimport { from ;;; (\n", 2), ("a.go", b"package a\nfunc {\n", 2),
     ("a.rs", b"fn main() {}\nfn (((\n", 2), ("A.java", b"class A {}\nclass {{{\n", 2)],
)  # fmt: skip
def test_a_file_that_cannot_be_parsed_names_the_line(path: str, source: bytes, line: int):
    with pytest.raises(ImportsUnreadable) as refused:
        imports_of(path, language_of(path), source)
    assert refused.value.facts == {"path": path, "details": f"Syntax error at line {line}"}


def test_other_languages_import_nothing_here():
    assert imports_of("a.md", "markdown", b"import x\n") == ()


def test_an_import_never_leads_outside_or_to_secrets(tmp_path: Path):
    root = make_project(
        tmp_path / "p",
        {"a.ts": 'import x from "../outside";\nimport y from "./.env";\nimport z from "./link";\nimport n from "./node_modules/q/i";\n',
         ".env": "S=1", "node_modules/q/i.ts": ""},
    )  # fmt: skip
    (tmp_path / "outside.ts").write_text("")
    (root / "link.ts").symlink_to(tmp_path / "outside.ts")
    files = Files(root)
    assert (
        Resolver(files).resolve("a.ts", "typescript", imports_of("a.ts", "typescript", files.read("a.ts").data)) == []
    )
