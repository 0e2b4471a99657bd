"""The direction of data, and the other rules of the house, as data."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from shopfloor.store.database import Store, open_store

SOURCE = Path(__file__).resolve().parent.parent / "src" / "shopfloor"

# Who may import whom. A name with a dot allows that module alone.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "domain": {"errors"},
    "store": {"errors"},
    "settings": {"errors"},
    "gateways": {"domain", "errors"},
    "repositories": {"store", "domain", "errors"},
    "usecases": {"repositories", "gateways", "domain", "errors"},
    "toolkit": {"domain", "errors"},
    "toolsets": {"usecases", "repositories.work", "toolkit", "domain", "errors"},
    # The steps open Work and read tokens.
    "pipeline": {"usecases", "repositories.work", "gateways.tokens", "toolkit", "domain", "errors"},
    "background": {"usecases", "repositories", "gateways", "store", "domain", "errors"},
    "app": {
        *("usecases", "repositories", "gateways", "store", "domain", "errors"),
        *("background", "pipeline", "toolkit", "toolsets", "settings"),
    },
    "transports": {"app", "toolkit", "settings", "errors"},
    "chat": {"app", "toolkit", "settings", "errors"},
    # A page knows who looks at it.
    "web": {"app", "toolkit", "settings", "errors", "domain.actors"},
    # What a host program administers are use cases, in one Work each.
    "serving": {"app", "transports", "domain", "usecases", "repositories.work", "toolkit", "settings", "errors"},
    # The runner keeps its book through use cases, as serving does.
    "runner": {"serving", "toolkit", "settings", "errors", "domain", "gateways.logs"},
    "cli": {"serving", "runner", "toolkit", "settings", "errors", "domain.times"},
    "__init__": {"serving", "settings"},
    "__main__": {"cli"},
}

# The commands that serve are doors themselves.
MAY_ALSO_IMPORT: dict[str, set[str]] = {
    "transports/http.py": {"web", "chat"},
    "runner/book.py": {"usecases.loops", "repositories.work"},
    "toolsets/loop/tasks.py": {"repositories.tasks"},  # the type of the board that Work hands out
    "cli/floor.py": {"gateways.model"},
    "cli/doors.py": {"app", "gateways.logs", "transports.server"},
    "cli/streams.py": {"gateways.logs", "transports.stdio"},
}

# Each folder's own kits; whatever is not named here is nobody's.
THIRD_PARTY: dict[str, set[str]] = {
    "domain": {"pydantic_core"},
    "store": {"apsw", "greenlet", "psycopg", "psycopg_pool"},
    "settings": {"pydantic"},
    "gateways": {
        *("jwt", "argon2", "prometheus_client", "pydantic_core", "tree_sitter"),
        *("numpy", "onnx", "onnxruntime", "safetensors", "tokenizers"),
        *("inngest", "opentelemetry"),
    },
    "background": {"watchfiles"},
    "toolkit": {"pydantic", "pydantic_core"},
    "toolsets": {"pydantic", "pydantic_core"},
    "pipeline": {"pydantic_core"},
    "transports": {"starlette", "uvicorn", "pydantic_core"},
    "chat": {"agents", "openai", "starlette"},
    "web": {"starlette", "jinja2", "markupsafe", "markdown_it"},
    "runner": {"acp", "pydantic", "rich"},
    "cli": {"typer", "rich", "textual"},
}
ONLY_IN: dict[str, set[str]] = {
    "agents": {"chat/model.py"},
    "openai": {"chat/model.py"},
    "argon2": {"gateways/passwords.py"},
    "mcp": {"transports/mcp.py", "transports/exchange.py", "transports/stdio.py"},
    "textual": {"cli/screen.py"},
    "markdown_it": {"web/text.py"},
    "onnx": {"gateways/graph.py"},
    "mcp_types": {"transports/mcp.py", "transports/exchange.py", "transports/stdio.py"},
    "acp": {"runner/acp.py"},
    "psycopg": {
        *("store/postgres.py", "store/postgres_connection.py", "store/postgres_values.py", "store/postgres_wire.py"),
        "store/notify.py",
    },
    "greenlet": {"store/aside.py"},
    "apsw": {"store/sqlite.py", "store/sqlite_connection.py", "store/sqlite_writer.py"},
    "uvicorn": {"transports/server.py"},
    "jwt": {"gateways/jwts.py"},
    "inngest": {"gateways/outlets.py"},
    "opentelemetry": {"gateways/traces.py"},
}

# Imports inside of functions, each with its reason.
LATE_IMPORTS = {
    ("chat/model.py", "_kit"): "heavy, and optional",
    ("__init__.py", "__getattr__"): "the command line answers --help before the server is loaded",
    ("cli/options.py", "whole"): "a floor is too much to load for --help",
    ("cli/options.py", "streams"): "the same",
    ("cli/options.py", "doors"): "the doors are too much to load for any other command",
    ("serving.py", "serving"): "the doors are too much to load for a program that only calls",
    ("gateways/tokens.py", "_jwts"): "cryptography that most commands do not need",
    ("store/database.py", "_postgres"): "psycopg is optional",
    ("gateways/model.py", "_build"): "the graph is built once in the life of a model cache",
    ("transports/http.py", "_make"): "a floor is ready before its first MCP client has come",
    ("gateways/arrays.py", "__getattr__"): "a floor is ready before anybody searches",
    ("gateways/outlets.py", "_kit"): "Inngest's kit is heavy, and optional",
    ("gateways/traces.py", "__init__"): "OpenTelemetry is heavy, and off by default",
    ("gateways/traces.py", "_provider"): "its exporter is optional",
    ("gateways/embeddings.py", "_load"): "the model's runtime is heavy, and optional",
    ("cli/desk.py", "watch"): "the full screen is too much to load for any other command",
    ("cli/demo.py", "crew_files"): "only the demo needs the crew",
    ("cli/run.py", "_runner"): "the runner is too much to load for --help",
    ("cli/run.py", "_book"): "the runner is too much to load for --help",
    ("cli/run.py", "_prompts"): "the runner is too much to load for --help",
}

# How often `except Exception` and wider may stand in a file, and why.
CATCH_ALLS = {
    "chat/model.py": (1, "whatever the kit and the endpoint come up with, in our words"),
    "pipeline/refuse.py": (1, "the one catch-all of the request path"),
    "pipeline/record.py": (1, "writes it down and raises it again"),
    "pipeline/escalate.py": (1, "escalates it and raises it again"),
    "background/dispatcher.py": (2, "a broken subscriber must not stop the others"),
    "store/postgres.py": (3, "a lost transaction is told from a failed one; a thread must live"),
    "store/sqlite_writer.py": (3, "callers must be answered, and the thread must live"),
    "gateways/logs.py": (1, "what cannot be said must not stop whoever said it"),
    "gateways/outlets.py": (1, "whatever Inngest's kit comes up with, in our words"),
    "store/aside.py": (1, "it is raised where the outcome is awaited"),
    "store/listeners.py": (1, "a listener's failure is its own"),
    "runner/processes.py": (1, "a half started process is ended, and it is raised again"),
}

# What may stand in the braces of an f-string that is SQL, besides constants of the module: never a caller's word.
SAFE_IN_SQL = {
    "_parameters(names)": "the names of parameters: name0, name1, …",
    "self._holds('number')": "that a task is within the scope, put together from constants",
    "self._holds('blocker')": "the same for another parameter",
    "parameter": "the name of a parameter, a constant in the code",
    "self._connection.skip_locked": "'FOR UPDATE SKIP LOCKED' or nothing",
    "' AND '.join(filters)": "comparisons of columns with parameters, put together from constants",
    "filters": "comparisons of columns with parameters, put together from constants",
    "self._scope": "comparisons of columns with parameters, put together from constants",
    "self._scope.replace(':board', ':own_board')": "the same with another parameter",
    "', '.join((f':{name}' for name in names))": "the names of parameters, which the method makes itself",
    "', '.join((f':{name}' for name in values))": "the names of parameters, which are those of columns",
    "names": "the names of columns, which are keywords in the code",
    "''.join((f'{name} = :{name}, ' for name in changes))": "the names of columns, which are keywords in the code",
    "row[0] if row else 0": "the number that the same statement has just read",
    "column": "the name of a column, from a table of constants",
    "listed": "numbers, made by int()",
    "self._connection.skip_locked if claiming else ''": "'FOR UPDATE SKIP LOCKED' or nothing",
    "old": "numbers, made by the store itself",
    "where": "comparisons of columns with parameters, put together from constants",
    "', '.join(map(str, WEIGHTS))": "constants of the module",
    "''.join((f'{column} = :{column}, ' for column in changes))": "the names of columns, which are keywords in the code",
    "', '.join((f'{column} = :{column}' for column in changes))": "the names of columns, which are keywords in the code",
    "', '.join((str(int(number)) for number in numbers))": "numbers, made by int()",
    "', '.join((str(int(id)) for id in ids))": "numbers, made by int()",
    "candidates": "the rows that an index names, put together from constants",
    "judged": "comparisons of columns with parameters, put together from constants",
    "direction": "one of two constants",
    "_driver(sought)": "comparisons of columns with parameters, put together from constants",
    "', '.join((f':{name}' for name in named))": "the names of parameters, which the method makes itself",
    "name": "the name of a column, which is a keyword in the code",
    "source": "the name of a source, a constant in the code",
    "ref": "an expression over columns, a constant in the code",
    "at": "an expression over columns, a constant in the code",
}

FORBIDDEN_WORDS = {"manager", "managers", "helper", "helpers", "util", "utils", "base", "impl"}
ADJECTIVES = {"simple", "enhanced", "advanced", "new", "old", "better", "improved", "fast", "smart", "basic"}
NAMES_OF_OTHERS = {("transports/mcp.py", "_manager"): "the SDK's own word for it"}
SQL = re.compile(r"\b(SELECT\s.+\sFROM|INSERT\s+INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM|CREATE\s+(TABLE|INDEX)|PRAGMA)\b")


@cache
def sources() -> dict[str, ast.Module]:
    """Every module of ours, by its path."""
    return {str(path.relative_to(SOURCE)): ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")}


def folder_of(path: str) -> str:
    return path.partition("/")[0].removesuffix(".py")


def imports_of(tree: ast.AST) -> Iterator[str]:
    """The modules that are imported, also those for the type checker alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize("path", sorted(sources()))
def test_data_flows_one_way(path):
    allowed = MAY_IMPORT[folder_of(path)] | MAY_ALSO_IMPORT.get(path, set()) | {folder_of(path)}
    for module in imports_of(sources()[path]):
        if module.startswith("shopfloor."):
            _, folder, *rest = module.split(".")
            assert folder in allowed or f"{folder}.{rest[0]}" in allowed, f"{path} imports {module}"


def test_no_toolset_imports_another():
    for path, tree in sources().items():
        if path.startswith("toolsets/"):
            own = path.split("/")[1]
            others = {name.split(".")[2] for name in imports_of(tree) if name.startswith("shopfloor.toolsets.")}
            assert others <= {own}, path


@pytest.mark.parametrize("path", sorted(sources()))
def test_each_folder_has_its_own_kits(path):
    for module in imports_of(sources()[path]):
        kit = module.partition(".")[0]
        if kit in sys.stdlib_module_names or kit in ("shopfloor", "__future__"):
            continue
        if kit in ONLY_IN:
            assert path in ONLY_IN[kit], f"{path} imports {kit}"
        else:
            assert kit in THIRD_PARTY.get(folder_of(path), set()), f"{path} imports {kit}"


def test_every_folder_is_in_the_table():
    assert {folder_of(path) for path in sources()} <= set(MAY_IMPORT)


def test_imports_stand_at_the_top_but_for_these():
    found = {
        (path, function.name)
        for path, tree in sources().items()
        for function in functions(tree)
        if any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(function))
    }
    assert found == set(LATE_IMPORTS)


def test_everything_is_caught_only_here():
    found = {
        path: sum(
            isinstance(node, ast.ExceptHandler)
            and (node.type is None or ast.unparse(node.type) in ("Exception", "BaseException"))
            for node in ast.walk(tree)
        )
        for path, tree in sources().items()
    }
    assert {path: count for path, count in found.items() if count} == {
        path: count for path, (count, _) in CATCH_ALLS.items()
    }


def texts(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Every text in the code, f-strings whole, docstrings left out."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield node, "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node, node.value


def test_sql_is_written_in_repositories_and_in_the_store_only():
    for path, tree in sources().items():
        if folder_of(path) not in ("repositories", "store"):
            assert [text for _, text in texts(tree) if SQL.search(text)] == [], path


def test_sql_is_put_together_from_constants_only():
    used = set()
    for path, tree in sources().items():
        if folder_of(path) not in ("repositories", "store"):
            continue
        constants = {
            target.id
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in (node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)):
            if not _is_sql(node):
                continue
            for part in node.values:
                if isinstance(part, ast.FormattedValue):
                    expression = ast.unparse(part.value)
                    safe = _made_of_constants(part.value) or expression in constants | set(SAFE_IN_SQL)
                    assert safe, f"{path}: {{{expression}}} in SQL"
                    used.add(expression)
    assert set(SAFE_IN_SQL) <= used, "this is no longer used"


def _made_of_constants(node: ast.expr) -> bool:
    """One of two texts, or a clause that the engine has its own word for."""
    if isinstance(node, ast.IfExp):
        return all(isinstance(each, ast.Constant) for each in (node.body, node.orelse))
    return isinstance(node, ast.Attribute) and node.attr in ("for_update", "skip_locked")


def _is_sql(node: ast.JoinedStr) -> bool:
    text = "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
    return re.search(r"\b(SELECT|INSERT|UPDATE|DELETE|WHERE|AND|ORDER BY|LIMIT|LISTEN|PRAGMA)\b|= :", text) is not None


def words(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def test_names_say_what_things_do():
    for path, tree in sources().items():
        assert words(Path(path).stem).isdisjoint(FORBIDDEN_WORDS | ADJECTIVES), path
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                assert (path, node.name) in NAMES_OF_OTHERS or words(node.name).isdisjoint(FORBIDDEN_WORDS), node.name


def test_nothing_but_the_settings_reads_the_environment():
    for path, tree in sources().items():
        if path not in (
            "settings.py",
            "runner/processes.py",
            "cli/crew.py",
            "cli/demo.py",
        ):  # a child process inherits it
            read = [
                node
                for node in ast.walk(tree)
                if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv")
            ]
            assert read == [], path


# --- the two schemas ---

TYPES = {"INTEGER": "bigint", "TEXT": "text", "BLOB": "bytea", "REAL": "double precision"}
Columns = dict[str, dict[str, tuple[str, bool, str | None]]]
Indexes = dict[str, tuple[str, bool, bool, list[str]]]
"""By name: the table, whether it is unique, whether it has only some of the rows, and the columns."""

KEYS_ON_SQLITE = {"decision_workspace", "epic_workspace", "event_workspace"}
"""Where the number alone is SQLite's key; PostgreSQL's key is this index."""

WORDS_ON_POSTGRES = {"passage_words_found"}
"""On SQLite the FTS5 table is its own index."""


def test_both_engines_have_the_same_tables_columns_and_types(tmp_path, postgres_database):
    sqlite, postgres = open_store(f"sqlite://{tmp_path}/floor.db"), open_store(postgres_database)
    try:
        theirs = postgres_columns(postgres)
        assert set(theirs.pop("passage_words")) == {"id", "words"}  # on SQLite an FTS5 table, which has no columns
        assert sqlite_columns(sqlite) == theirs
        keys = postgres_keys(postgres)
        for table, key in sqlite_keys(sqlite).items():
            assert keys[table] in (key, ["workspace", *key])  # SQLite's own numbers are keys by themselves
        ours, theirs_too = sqlite_indexes(sqlite), postgres_indexes(postgres)
        assert (ours.keys() - theirs_too.keys(), theirs_too.keys() - ours.keys()) == (KEYS_ON_SQLITE, WORDS_ON_POSTGRES)
        for name in KEYS_ON_SQLITE:
            table, _, _, columns = ours.pop(name)
            assert columns == keys[table]
        assert ours == {name: index for name, index in theirs_too.items() if name not in WORDS_ON_POSTGRES}
    finally:
        sqlite.close()
        postgres.close()


def test_both_engines_have_the_same_migrations():
    folders = [SOURCE / "store" / "migrations" / engine for engine in ("sqlite", "postgres")]
    first, second = (sorted(path.name for path in folder.glob("*.sql")) for folder in folders)
    assert first == second


def sqlite_tables(store: Store) -> list[str]:
    rows = store.read(
        lambda conn: conn.all("SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'")
    )
    return [name for (name,) in rows if not name.startswith("sqlite_")]


def sqlite_columns(store: Store) -> Columns:
    tables: Columns = {}
    for table in sqlite_tables(store):
        rows = store.read(
            lambda conn, table=table: conn.all(  # type: ignore[misc]
                'SELECT name, type, "notnull" OR pk > 0, dflt_value FROM pragma_table_info(:table)', table=table
            )
        )
        tables[table] = {name: (TYPES[kind], bool(required), default) for name, kind, required, default in rows}
    return tables


def sqlite_keys(store: Store) -> dict[str, list[str]]:
    return {
        table: [
            name
            for (name,) in store.read(
                lambda conn, table=table: conn.all(  # type: ignore[misc]
                    "SELECT name FROM pragma_table_info(:table) WHERE pk > 0 ORDER BY pk", table=table
                )
            )
        ]
        for table in sqlite_tables(store)
    }


def sqlite_indexes(store: Store) -> Indexes:
    rows = store.read(
        lambda conn: conn.all(
            'SELECT master.name, master.tbl_name, list."unique", list.partial, info.name FROM sqlite_master AS master,'
            " pragma_index_list(master.tbl_name) AS list, pragma_index_info(master.name) AS info"
            " WHERE master.type = 'index' AND master.sql IS NOT NULL AND list.name = master.name"
            " ORDER BY master.name, info.seqno"
        )
    )
    return _grouped(rows)


def postgres_columns(store: Store) -> Columns:
    rows = store.read(
        lambda conn: conn.all(
            "SELECT table_name::text, column_name::text, data_type::text, is_nullable = 'NO', column_default::text"
            " FROM information_schema.columns WHERE table_schema = 'public' ORDER BY table_name, ordinal_position"
        )
    )
    tables: Columns = {}
    for table, name, kind, required, default in rows:
        tables.setdefault(table, {})[name] = (kind, bool(required), default and re.sub("::.*", "", default))
    return tables


def postgres_keys(store: Store) -> dict[str, list[str]]:
    rows = store.read(
        lambda conn: conn.all(
            "SELECT table_name::text, column_name::text FROM information_schema.table_constraints"
            " JOIN information_schema.key_column_usage USING (constraint_name, table_name)"
            " WHERE constraint_type = 'PRIMARY KEY' ORDER BY table_name, ordinal_position"
        )
    )
    keys: dict[str, list[str]] = {}
    for table, name in rows:
        keys.setdefault(table, []).append(name)
    return keys


def postgres_indexes(store: Store) -> Indexes:
    rows = store.read(
        lambda conn: conn.all(
            "SELECT class.relname::text, owner.relname::text, indisunique, indpred IS NOT NULL, attribute.attname::text"
            " FROM pg_index JOIN pg_class AS class ON class.oid = indexrelid JOIN pg_class AS owner ON owner.oid = indrelid"
            " CROSS JOIN LATERAL unnest(indkey) WITH ORDINALITY AS part (number, place)"
            " JOIN pg_attribute AS attribute ON attribute.attrelid = indrelid AND attribute.attnum = part.number"
            " WHERE owner.relnamespace = 'public'::regnamespace"
            " AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conindid = indexrelid)"
            " ORDER BY class.relname, part.place"
        )
    )
    return _grouped(rows)


def _grouped(rows: list[tuple[Any, ...]]) -> Indexes:
    indexes: Indexes = {}
    for index, table, unique, partial, column in rows:
        indexes.setdefault(index, (table, bool(unique), bool(partial), []))[3].append(column)
    return indexes
