"""Test the documentation: generated parts are current, links resolve, examples parse."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest
import typer
import yaml

from scripts import generate_docs
from shopfloor import cli
from shopfloor.settings import Settings

CHECKOUT = Path(__file__).resolve().parent.parent
PAGES = sorted([*CHECKOUT.glob("*.md"), *CHECKOUT.glob("docs/**/*.md")])


def read_page(name: str) -> str:
    return (CHECKOUT / name).read_text("utf-8")


def test_readme_is_short():
    assert 75 <= len(read_page("README.md").splitlines()) <= 150


def list_anchors(path: Path) -> set[str]:
    """Return the anchors of a page: explicit ones, and those that GitHub makes of headings."""
    text = path.read_text("utf-8")
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r'<a id="([^"]+)">', text))


def list_links(path: Path) -> list[tuple[Path, str]]:
    """Return the links of a page to files and anchors of the repository."""
    links = re.findall(r"\]\((?!https?://)([^)#]*)(?:#([^)]+))?\)", path.read_text("utf-8"))
    return [(path.parent / target if target else path, anchor) for target, anchor in links]


def test_pages_have_links():
    assert sum(len(list_links(path)) for path in PAGES) > 100


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_links_lead_to_a_page_and_an_anchor(path):
    links = list_links(path)
    assert [target for target, _ in links if not target.exists()] == []
    assert [(target, anchor) for target, anchor in links if anchor and anchor not in list_anchors(target)] == []


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/bench.md"])
def test_files_that_a_page_names_exist(name):
    folders = (CHECKOUT, CHECKOUT / "src" / "shopfloor", CHECKOUT / "bench")
    named = re.findall(r"`([\w/.-]+\.(?:py|md|toml|txt|yaml)|[\w/]+/)`", read_page(name))
    assert named
    assert [file for file in named if not any((folder / file).exists() for folder in folders)] == []


def list_examples(language: str) -> list[str]:
    """Return the code blocks of all pages in a language."""
    block = re.compile(rf"^ *```{language}\n(.*?)^ *```", flags=re.MULTILINE | re.DOTALL)
    codes = (code for path in PAGES for code in block.findall(path.read_text("utf-8")))
    return ["\n".join(line.removeprefix("   ") for line in code.splitlines()) for code in codes]


@pytest.mark.parametrize("code", list_examples("python"))
def test_examples_in_python_parse(code):
    assert ast.parse(code).body


@pytest.mark.parametrize("code", list_examples("toml"))
def test_examples_in_toml_parse(code):
    assert tomllib.loads(code)


@pytest.mark.parametrize("name", ["README.md", "docs/python.md", "docs/todo.md"])
def test_python_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"^```python\n(.*?)^```", read_page(name), flags=re.MULTILINE | re.DOTALL)
    exec(compile(code, name, "exec"), {})


def test_every_shell_example_uses_a_command_and_options_that_exist():
    commands = dict(generate_docs.walk_commands(typer.main.get_command(cli.app), "shopfloor"))
    checked = 0
    for path in PAGES:
        for block in re.findall(r"^```sh\n(.*?)^```", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL):
            for line in re.findall(r"^(shopfloor [^#\n]+)", block, flags=re.MULTILINE):
                command = max((name for name in commands if f"{line} ".startswith(f"{name} ")), key=len, default=None)
                assert command is not None, f"{path.name}: {line}"
                given = generate_docs.list_options(commands[command])
                known = {name for option in given for name in (*option.opts, *option.secondary_opts)}
                others = command in ("shopfloor tool", "shopfloor demo")  # their options are those of another program
                options = set() if others else set(re.findall(r"(?<= )--[\w-]+", line))
                assert options <= known, f"{path.name}: {line}"
                checked += 1
    assert checked >= 25


def test_every_page_is_in_the_navigation_of_the_site():
    # `make site` needs packages that the tests do not have, and fails on a page that is missing here.
    site = yaml.safe_load((CHECKOUT / "mkdocs.yml").read_text("utf-8"))
    listed = [page for section in site["nav"] for pages in section.values() for each in pages for page in each.values()]
    docs = CHECKOUT / "docs"
    assert sorted(listed) == sorted(str(path.relative_to(docs)) for path in docs.glob("**/*.md"))
    assert site["theme"]["font"] is False


def test_picture_of_the_readme_is_light():
    assert 50_000 < (CHECKOUT / "docs" / "demo.webp").stat().st_size <= 500_000


# --- generated pages ---


@pytest.mark.parametrize("path", generate_docs.list_pages())
def test_generated_pages_are_current(path):
    assert read_page(path) == generate_docs.render_page(path), "run `make docs` or `python -m scripts.generate_docs`"


def test_generated_pages_do_not_depend_on_the_environment(monkeypatch):
    before = [generate_docs.render_page(path) for path in generate_docs.list_pages()]
    for name, value in {"COLUMNS": "40", "TERM": "dumb", "XDG_CACHE_HOME": "/x", "OPENAI_BASE_URL": "http://x"}.items():
        monkeypatch.setenv(name, value)
    assert [generate_docs.render_page(path) for path in generate_docs.list_pages()] == before


def test_page_without_markers_is_rejected():
    with pytest.raises(ValueError, match="markers of the generated part 'settings' are missing"):
        generate_docs.replace_part("# Settings\n", "settings", "x")


def test_every_setting_has_a_description():
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


def test_every_command_and_option_has_help():
    commands = dict(generate_docs.walk_commands(typer.main.get_command(cli.app), "shopfloor"))
    assert len(commands) > 50
    assert [path for path, command in commands.items() if not command.help] == []
    options = ((path, option) for path, command in commands.items() for option in generate_docs.list_options(command))
    assert [(path, option.opts[0]) for path, option in options if not option.help] == []
