"""Check imports, SQL, catch-alls and names against tables, and compare the schemas of both engines."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from shopfloor.app import TOOLSETS
from shopfloor.store import Store, open_store

SOURCE = Path(__file__).resolve().parent.parent / "src" / "shopfloor"

# Who may import whom. A name with a dot allows that module alone.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "domain": {"errors"},
    "store": {"errors"},
    "rule_texts": set(),
    "settings": {"rule_texts", "errors"},
    "gateways": {"domain", "errors"},
    "repositories": {"store", "gateways", "domain", "errors"},
    # The one owner of the index; it reaches the store through repositories.
    "search": {"repositories", "gateways", "domain", "errors"},
    "usecases": {"search", "repositories", "gateways", "domain", "errors"},
    "signatures": {"rule_texts", "domain", "errors"},
    "toolkit": {"signatures", "domain", "errors"},
    "access": {"toolkit", "domain"},
    "telemetry": {"toolkit", "gateways", "domain", "errors"},
    "engine": {
        *("usecases", "search", "repositories", "store", "domain", "errors"),
        *("background", "pipeline", "telemetry", "toolkit", "settings"),
    },
    "toolsets": {"usecases", "search", "repositories.uow", "toolkit", "domain", "errors"},
    # The steps open Work and read tokens.
    "pipeline": {"usecases", "search.index", "repositories.uow", "gateways.tokens", "toolkit", "domain", "errors"},
    "background": {"usecases", "search", "repositories", "gateways", "store", "domain", "errors"},
    "app": {
        *("usecases", "search", "repositories", "gateways", "store", "domain", "errors"),
        *("background", "pipeline", "toolkit", "toolsets", "settings", "engine", "access", "telemetry"),
    },
    "transports": {"app", "engine", "access", "gateways.clock", "toolkit", "settings", "errors"},
    "chat": {"engine", "toolkit", "settings", "errors"},
    # A page knows who looks at it. The page of a new token shows how each client is connected with it.
    "web": {"connect.clients", "engine", "access", "toolkit", "errors", "domain.todos"},
    "serving": {"app", "engine", "transports", "domain.principals", "toolkit", "settings", "errors"},
    "runner": {"rule_texts", "serving", "toolkit", "settings", "errors", "domain", "gateways.logs", "gateways.files"},
    # Clients and their config files; it reaches the server through the tools that the command line hands to it.
    "connect": {"errors"},
    # Files of other trackers. What is read goes to the tools through the command line.
    "interchange": {"errors"},
    "cli": {
        "serving",
        "runner",
        "connect",
        "interchange",
        "toolkit",
        "settings",
        "errors",
        "domain.principals",
        "domain.text",
    },
    "__init__": {"serving", "settings"},
    "__main__": {"cli"},
}

# The commands that serve are transports themselves.
MAY_ALSO_IMPORT: dict[str, set[str]] = {
    "transports/http.py": {"web", "chat"},
    "transports/mcp_server.py": {"domain.principals"},  # the type of the caller whose tools it lists
    "transports/elicitation.py": {"domain.times"},  # the unit of the time that a form stays open
    "transports/handshake.py": {"domain.principals"},  # the same, for the instructions
    "toolsets/loop/tasks.py": {"repositories.tasks"},  # the type of the board that Work hands out
    "web/filters.py": {"domain.text"},  # how a tool's name reads
    "web/views/knowledge.py": {"domain.tokenizer"},  # the words of a query that a search looks for
    "app.py": {"runner.known_agents"},  # the agents that the pages offer for a new run
    "cli/admin.py": {"transports.server"},
    # Restoring, importing and migrating come before there is a store that an engine can be built on.
    "cli/backup.py": {"store", "transports.server"},
    "cli/imports.py": {"store.backups", "transports.server"},
    # It looks at a store that no engine can be built on, too.
    "cli/doctor.py": {"store"},
    "cli/options.py": {"store", "gateways.logs"},
    "cli/serve.py": {"engine", "gateways.logs", "transports.server"},
    "cli/stdio.py": {"gateways.logs", "transports.stdio"},
}

# The libraries that any file of a folder may import, and below those that only these files may.
THIRD_PARTY: dict[str, set[str]] = {
    "domain": {"pydantic_core"},
    "store": {"psycopg_pool"},
    "settings": {"pydantic"},
    "gateways": {
        "numpy",
        "onnxruntime",
        "prometheus_client",
        "pydantic_core",
        "safetensors",
        "tokenizers",
        "tree_sitter",
    },
    "search": {"numpy", "tree_sitter"},
    "background": {"watchfiles"},
    "signatures": {"pydantic"},
    "toolkit": {"pydantic", "pydantic_core"},
    "toolsets": {"pydantic", "pydantic_core"},
    "pipeline": {"pydantic_core"},
    "transports": {"pydantic_core", "starlette"},
    "chat": {"starlette"},
    "web": {"jinja2", "markupsafe", "starlette"},
    "runner": {"pydantic", "rich"},
    "connect": {"yaml"},
    "cli": {"rich", "typer"},
}
ONLY_IN: dict[str, set[str]] = {
    "agents": {"chat/model.py"},
    "openai": {"chat/model.py"},
    "argon2": {"gateways/passwords.py"},
    "mcp": {
        *("transports/mcp.py", "transports/mcp_server.py", "transports/direct_call.py", "transports/mcp_stdio.py"),
        "transports/elicitation.py",
        "connect/check.py",
    },
    "textual": {"cli/tui.py"},
    "markdown_it": {"web/text.py"},
    "onnx": {"gateways/minilm.py"},
    "mcp_types": {
        *("transports/mcp_server.py", "transports/direct_call.py", "transports/mcp_stdio.py"),
        "transports/elicitation.py",
    },
    "acp": {"runner/acp.py"},
    "psycopg": {
        *("store/postgres.py", "store/postgres_connection.py", "store/postgres_values.py", "store/postgres_wire.py"),
        "store/postgres_writers.py",
        "store/postgres_leadership.py",
        "store/postgres_notify.py",
        "store/postgres_watchdog.py",
    },
    "greenlet": {"store/cooperative.py"},
    "apsw": {"store/database_file.py", "store/sqlite.py", "store/sqlite_connection.py", "store/sqlite_writer.py"},
    "uvicorn": {"transports/server.py"},
    "jwt": {"gateways/jwts.py"},
    "httpx2": {"gateways/http_client.py", "connect/check.py"},
    "inngest": {"gateways/webhooks.py"},
    "opentelemetry": {"gateways/traces.py"},
}

# Imports inside of functions, each with its reason.
LATE_IMPORTS = {
    ("chat/model.py", "_load_sdk"): "heavy, and optional",
    ("__init__.py", "__getattr__"): "the command line answers --help before the server is loaded",
    ("cli/__init__.py", "main"): "most starts are not for completion, and loading it takes 30 ms",
    ("cli/connect.py", "_check"): "the MCP SDK takes longer to load than connect --list takes",
    ("cli/options.py", "check_database_exists"): "loading it takes longer than showing help",
    ("cli/options.py", "open_shopfloor"): "loading the engine takes longer than showing help",
    ("serving.py", "serving"): "the transports are too much to load for a program that only calls",
    ("gateways/tokens.py", "_jwts"): "cryptography that most commands do not need",
    ("store/__init__.py", "_import_postgres"): "psycopg is optional",
    ("gateways/embedding_model.py", "install"): "the graph is built once in the life of a model cache",
    ("transports/stdio.py", "serve"): "the first answer does not wait for the MCP SDK",
    ("transports/http.py", "_load"): "a server is ready before its first MCP client connects",
    ("search/vectors.py", "add"): "numpy: a server is ready before its first search",
    ("search/vectors.py", "nearest"): "numpy: a server is ready before its first search",
    ("search/vectors.py", "_nearest_by_sign"): "numpy: a server is ready before its first search",
    ("search/vectors.py", "_grow"): "numpy: a server is ready before its first search",
    ("search/vectors.py", "_pack_signs"): "numpy: a server is ready before its first search",
    ("search/vectors.py", "pack_vector"): "numpy: a server is ready before its first search",
    ("search/vectors.py", "unpack_vector"): "numpy: a server is ready before its first search",
    ("search/vectors.py", "unpack_vectors"): "numpy: a server is ready before its first search",
    ("search/word_similarity.py", "_measure_texts"): "numpy: a server is ready before its first search",
    ("search/word_similarity.py", "_sum_words"): "numpy: a server is ready before its first search",
    ("search/word_similarity.py", "_measure_words"): "numpy: a server is ready before its first search",
    ("search/word_similarity.py", "_measure_rarity"): "numpy: a server is ready before its first search",
    ("search/word_similarity.py", "_normalize"): "numpy: a server is ready before its first search",
    ("gateways/word_vectors.py", "load_vectors"): "numpy: a server is ready before its first search",
    ("gateways/embeddings.py", "embed"): "numpy: a server is ready before its first search",
    ("gateways/webhooks.py", "_sdk"): "Inngest's SDK is heavy, and optional",
    ("gateways/http_client.py", "send_request"): "most processes send no request, and httpx2 takes 0.1 s",
    ("gateways/http_client.py", "_open_client"): "the same",
    ("gateways/traces.py", "__init__"): "OpenTelemetry is heavy, and off by default",
    ("gateways/traces.py", "_build_provider"): "its exporter is optional",
    ("gateways/embeddings.py", "_load"): "the model's runtime is heavy, and optional",
}

# By file and function: why it may have `except Exception` or wider.
CATCH_ALLS = {
    ("background/dispatcher.py", "Dispatcher._deliver_external"): "a broken subscriber must not stop the others",
    ("background/dispatcher.py", "Dispatcher._hand_over"): "a broken subscriber must not stop the others",
    ("background/dispatcher.py", "Dispatcher._run_loop"): "the thread must live",
    ("background/housekeeping.py", "Housekeeper._log_errors"): "others reap a process without a heartbeat",
    ("background/launcher.py", "Launcher._run_loop"): "the thread must live: a later launch must still be started",
    ("chat/model.py", "converse"): "the SDK and the endpoint raise errors of many libraries",
    ("connect/check.py", "list_tools"): "the MCP SDK raises errors of several libraries, in groups",
    ("gateways/logs.py", "QueuedHandler.emit"): "a record that cannot be formatted must not fail its call",
    ("gateways/webhooks.py", "Inngest.__call__"): "Inngest's SDK raises errors of many libraries",
    ("pipeline/escalate.py", "escalate.step"): "escalates it and raises it again",
    ("pipeline/record.py", "record.step"): "writes it down and raises it again",
    ("pipeline/render_errors.py", "render_errors.step"): "the one catch-all of the request path",
    ("repositories/uow.py", "UnitOfWork.savepoint"): "rolls back to the savepoint and raises it again",
    ("runner/processes.py", "start_process"): "a half started process is ended, and it is raised again",
    ("runner/reaped_process.py", "start_reaped"): "a half started process is ended, and it is raised again",
    ("store/cooperative.py", "_Cooperative._resume"): "it is raised where the outcome is awaited",
    ("store/listeners.py", "guard.call"): "a listener's failure is its own",
    ("store/postgres.py", "PostgresStore._attempt"): "a lost transaction is distinguished from a failed one",
    ("store/postgres_connection.py", "PostgresConnection.savepoint"): "rolls back to the savepoint and raises it again",
    ("store/postgres_writers.py", "WriterPool._run_each_alone"): "it is raised where the caller waits",
    ("store/postgres_writers.py", "WriterPool._run_jobs"): "the thread must live",
    ("store/postgres_writers.py", "WriterPool.write"): "it is raised where the caller waits",
    ("store/sqlite_connection.py", "SqliteConnection.savepoint"): "rolls back to the savepoint and raises it again",
    ("store/sqlite_writer.py", "SqliteWriter._call"): "it is raised where the caller waits",
    ("store/sqlite_writer.py", "SqliteWriter._run_loop"): "the thread must live",
    ("store/sqlite_writer.py", "SqliteWriter._write"): "callers must be answered",
}

# By file: expressions in the braces of an f-string that is SQL, besides constants of the module, and why each is never
# the text of a caller.
SAFE_IN_SQL: dict[str, dict[str, str]] = {
    "repositories/decisions.py": {
        "' AND '.join(filters)": "comparisons of columns with parameters, built from constants",
        "', '.join((str(int(id)) for id in ids))": "numbers, made by int()",
        "', '.join((str(int(reference)) for reference in references))": "numbers, made by int()",
        "', '.join((f'(:{name})' for name in wanted))": "numbered parameters",
        "condition": "the condition that an index serves, one of several constants",
        "source": "the table, on SQLite with the name of an index",
        "column": "the name of a column, from a table of constants",
    },
    "repositories/discoveries.py": {
        "listed": "numbers, made by int()",
    },
    "repositories/file_access.py": {
        "', '.join((f':{name}' for name in named))": "the names of parameters, which the method makes itself",
    },
    "repositories/chunks.py": {
        "', '.join((f':{name}' for name in named))": "the names of parameters, which the method makes itself",
        "_join(common)": "a full-text query, which is passed as a parameter",
        "_join(common[place + 1:])": "a full-text query, which is passed as a parameter",
        "_join(common[place:place + 1])": "a full-text query, which is passed as a parameter",
        "_join(rare)": "a full-text query, which is passed as a parameter",
        "counted": "one count for each parameter, built from constants",
        "listed": "numbers, made by int()",
        "name": "the name of a parameter, which the method makes itself",
        "file_score": "one of two constants of the module",
        "score": "one of two constants of the module",
        "where": "comparisons of columns with parameters, built from constants",
    },
    "repositories/embeddings.py": {
        "by_id": "a constant of the engine, or nothing",
        "', '.join((f':{name}' for name in named))": "the names of parameters, which the method makes itself",
    },
    "store/postgres.py": {
        "table": "the name of a table, from the catalog of the database",
    },
    "store/transfer.py": {
        "_join(columns)": "names of columns, compared with the catalog of the database",
        "_join(names)": "names of columns, from the catalog of the database",
        "_order(connection, columns)": "names of columns, from the catalog of the database",
        "places": "the names of parameters, which the function makes itself",
        "table": "the name of a table, from the catalog of the database or compared with it",
    },
    "repositories/index.py": {
        "', '.join((f':{name}' for name in named))": "the names of parameters, which the method makes itself",
        "column": "the name of a column, from a table of constants",
    },
    "repositories/mail.py": {
        "', '.join((f'(:{name})' for name in wanted))": "numbered parameters",
        "', '.join((f':{name}' for name in marked))": "numbered parameters",
        "_INBOX_FILTERS[box]": "one of three constants",
        "source": "the table, on SQLite with the name of an index",
        "', '.join((str(int(id)) for id in ids))": "numbers, made by int()",
        "', '.join((str(int(id)) for id in mails))": "numbers, made by int()",
        "', '.join((str(int(id)) for id in [0, *expired]))": "numbers, made by int()",
        "self._receipts_by_mail()": "the table, on SQLite with the name of an index",
    },
    "repositories/outbox.py": {
        "', '.join((f'({tries}, :{name})' for tries, name in enumerate(latest)))": "numbers and numbered parameters",
        "_parameters(names)": "the names of parameters: name0, name1, …",
    },
    "repositories/notes.py": {
        "', '.join((str(int(number)) for number in numbers))": "numbers, made by int()",
        "where": "comparisons of columns with parameters, put together from constants",
        "direction": "one of two constants",
    },
    "repositories/seals.py": {
        "source": "the table, on SQLite with the name of an index",
    },
    "repositories/run_requests.py": {
        "where": "comparisons of columns with parameters, put together from constants",
    },
    "repositories/crews.py": {
        "''.join((f'{column} = :{column}, ' for column in changes))": "the names of columns, which are keyword arguments in the code",
        "column": "the name of a column, from a table of constants",
    },
    "repositories/launches.py": {
        "', '.join((f'{name} = :{name}' for name in changes))": "the names of columns, which are keyword arguments in the code",
        "name": "the name of a column, from a table of constants",
    },
    "repositories/runs.py": {
        "''.join((f'{column} = :{column}, ' for column in changes))": "the names of columns, which are keyword arguments in the code",
        "', '.join((f'{column} = :{column}' for column in changes))": "the names of columns, which are keyword arguments in the code",
        "column": "the name of a column, from a table of constants",
    },
    "repositories/transcripts.py": {"where": "nothing, or a comparison of a column with a parameter"},
    "repositories/tasks.py": {
        "''.join((f'{name} = :{name}, ' for name in changes))": "the names of columns, which are keyword arguments in the code",
        "', '.join((f':{name}' for name in names))": "the names of parameters, which the method makes itself",
        "', '.join((f':{name}' for name in values))": "the names of parameters, which are those of columns",
        "', '.join((str(int(id)) for id in ids))": "numbers, made by int()",
        "', '.join((str(int(number)) for number in numbers))": "numbers, made by int()",
        "filters": "comparisons of columns with parameters, built from constants",
        "name": "the name of a column, which is a keyword argument in the code",
        "names": "the names of columns, which are keyword arguments in the code",
        "parameter": "the name of a parameter, a constant in the code",
        "self._connection.skip_locked if claiming else ''": "'FOR UPDATE SKIP LOCKED' or nothing",
        "self._holds('blocker')": "that a task is within the scope, built from constants",
        "self._holds('number')": "that a task is within the scope, built from constants",
        "self._scope": "comparisons of columns with parameters, built from constants",
        "self._scope.replace(':board', ':own_board')": "comparisons of columns with parameters, built from constants",
        "which": "one of two constants",
    },
    "store/sqlite.py": {
        "name": "the name of a table, from the schema itself",
        "row[0] if row else 0": "the number that the same statement has just read",
    },
}

# Where an operator is created, and why.
OPERATORS = {
    ("domain/principals.py", "Principal(Kind.OPERATOR, 'operator')"): "its definition",
    ("domain/principals.py", "Principal(Kind.OPERATOR, LOCAL)"): "a caller of a server without credentials",
}

SQL_OF_OTHERS = {"interchange/vibe_kanban.py": "the database of another program"}

READS_ENVIRONMENT = {
    "settings.py": "settings come from it",
    "runner/processes.py": "a child process inherits it",
    "gateways/run_processes.py": "a run inherits it",
    "cli/__init__.py": "the shell asks for completions with a variable",
    "cli/output.py": "the terminal says its width and whether it shows colour with variables",
    "connect/locations.py": "it says where clients keep their config",
}

LAYERS_BELOW_TOOLSETS = ("domain", "errors", "store", "repositories", "gateways", "search", "usecases", "pipeline")

MAX_FUNCTION_LINES = 60

FORBIDDEN_WORDS = {"manager", "managers", "helper", "helpers", "util", "utils", "base", "impl"}
ADJECTIVES = {"simple", "enhanced", "advanced", "new", "old", "better", "improved", "fast", "smart", "basic"}
NAMES_OF_OTHERS = {("transports/mcp.py", "_new_session_manager"): "the SDK's own word for it"}
SQL = re.compile(r"\b(SELECT\s.+\sFROM|INSERT\s+INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM|CREATE\s+(TABLE|INDEX)|PRAGMA)\b")


@cache
def parse_sources() -> dict[str, ast.Module]:
    """Parse every module of the package, by its path."""
    return {str(path.relative_to(SOURCE)): ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")}


def folder_of(path: str) -> str:
    return path.partition("/")[0].removesuffix(".py")


def list_imports(tree: ast.AST) -> Iterator[str]:
    """Yield the imported modules, including those for the type checker alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def find_functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize("path", sorted(parse_sources()))
def test_modules_import_only_permitted_folders(path):
    allowed = MAY_IMPORT[folder_of(path)] | MAY_ALSO_IMPORT.get(path, set()) | {folder_of(path)}
    ours = [module for module in list_imports(parse_sources()[path]) if module.startswith("shopfloor.")]
    assert [
        module for module in ours if allowed.isdisjoint((module.split(".")[1], ".".join(module.split(".")[1:3])))
    ] == []


def find_used_permissions(path: str, allowed: set[str]) -> set[str]:
    """Return the permissions that the imports of a file make use of."""
    ours = (module.split(".")[1:3] for module in list_imports(parse_sources()[path]) if module.startswith("shopfloor."))
    return {name for folder, *rest in ours for name in (folder, ".".join([folder, *rest])) if name in allowed}


def test_every_import_permission_is_used():
    used: dict[str, set[str]] = {folder: set() for folder in MAY_IMPORT}
    for path in parse_sources():
        folder = folder_of(path)
        used[folder] |= find_used_permissions(path, MAY_IMPORT[folder] - MAY_ALSO_IMPORT.get(path, set()))
    assert used == MAY_IMPORT
    for path, allowed in MAY_ALSO_IMPORT.items():
        assert find_used_permissions(path, allowed) == allowed, path
        needed = {name for name in allowed if {name, name.partition(".")[0]}.isdisjoint(MAY_IMPORT[folder_of(path)])}
        assert needed == allowed, f"{path} may import the rest like every file of its folder"


def test_no_toolset_imports_another():
    imported = {
        (path, name.split(".")[2])
        for path, tree in parse_sources().items()
        if path.startswith("toolsets/")
        for name in list_imports(tree)
        if name.startswith("shopfloor.toolsets.")
    }
    assert imported, "every toolset imports its own contract"
    assert {(path, other) for path, other in imported if other != path.split("/")[1]} == set()


def test_each_library_is_imported_where_the_tables_say():
    folders: dict[str, set[str]] = {}
    files: dict[str, set[str]] = {}
    for path, tree in parse_sources().items():
        for library in {module.partition(".")[0] for module in list_imports(tree)}:
            if library in ONLY_IN:
                files.setdefault(library, set()).add(path)
            elif library not in sys.stdlib_module_names and library != "shopfloor":
                folders.setdefault(folder_of(path), set()).add(library)
    assert folders == THIRD_PARTY
    assert files == ONLY_IN


def test_every_folder_is_in_the_import_table():
    assert {folder_of(path) for path in parse_sources()} == set(MAY_IMPORT)


def test_late_imports_are_listed():
    found = {
        (path, function.name)
        for path, tree in parse_sources().items()
        for function in find_functions(tree)
        if any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(function))
    }
    assert found == set(LATE_IMPORTS)


def test_only_the_background_opens_units_of_work_as_the_operator():
    """Let other parts act as their caller, or as the server before and without one."""
    calls = [
        (path, node) for path, tree in parse_sources().items() for node in ast.walk(tree) if isinstance(node, ast.Call)
    ]
    opened = {
        folder_of(path)
        for path, call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("read", "write", "later")
        if any(isinstance(argument, ast.Name) and argument.id == "OPERATOR" for argument in call.args)
    }
    assert opened == {"background"}
    created = {(path, ast.unparse(call)) for path, call in calls if ast.unparse(call).startswith("Principal(Kind.OPER")}
    assert created == set(OPERATORS)


def find_catch_alls(node: ast.AST, function: str = "") -> Iterator[str]:
    """Yield the function of each `except Exception` or wider."""
    for child in ast.iter_child_nodes(node):
        inner = function
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{function}.{child.name}".lstrip(".")
        elif isinstance(child, ast.ExceptHandler) and (
            child.type is None or ast.unparse(child.type) in ("Exception", "BaseException")
        ):
            yield function
        yield from find_catch_alls(child, inner)


def test_catch_alls_are_listed():
    found = [(path, function) for path, tree in parse_sources().items() for function in find_catch_alls(tree)]
    assert sorted(found) == sorted(CATCH_ALLS)


def find_strings(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Yield every string in the code, except docstrings."""
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


def test_sql_is_only_in_repositories_and_store():
    found = {path for path, tree in parse_sources().items() if any(SQL.search(text) for _, text in find_strings(tree))}
    assert SQL_OF_OTHERS.keys() <= found
    assert {folder_of(path) for path in found - SQL_OF_OTHERS.keys()} == {"repositories", "store"}


def test_layers_below_the_toolsets_name_no_tool_and_no_command():
    """Keep hints in the contract that shows them: the same error reaches commands, pages and models."""
    names = {tool for toolset in TOOLSETS.values() for tool in toolset.tools}
    names = {name for name in names if "_" in name or "-" in name}
    pattern = re.compile(rf"\bshopfloor [a-z]+ |\bshopfloor [a-z]+$|(?<![\w-])(?:{'|'.join(sorted(names))})(?![\w-])")
    found = {
        (path, text)
        for path, tree in parse_sources().items()
        if folder_of(path) in LAYERS_BELOW_TOOLSETS
        for _, text in find_strings(tree)
        if pattern.search(text)
    }
    assert found == set()


def test_texts_below_the_toolsets_name_no_argument():
    """Leave names of arguments to the contracts: `dueAt` is `--due` on the command line."""
    names = {
        name for toolset in TOOLSETS.values() for tool in toolset.tools.values() for name in tool.schema["properties"]
    }
    pattern = re.compile(rf"\b(?:{'|'.join(sorted(name for name in names if not name.islower()))})\b")
    found = {
        (path, text)
        for path, tree in parse_sources().items()
        if folder_of(path) in LAYERS_BELOW_TOOLSETS
        for _, text in find_strings(tree)
        if " " in text and pattern.search(text)
    }
    assert found == set()


def test_sql_is_built_from_constants_only():
    found: dict[str, set[str]] = {}
    for path, tree in parse_sources().items():
        if folder_of(path) not in ("repositories", "store"):
            continue
        constants = {
            target.id
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in (node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) and _is_sql(node)):
            for part in node.values:
                if isinstance(part, ast.FormattedValue) and not _is_constant(part.value):
                    found.setdefault(path, set()).add(ast.unparse(part.value))
        found[path] = found.get(path, set()) - constants
    assert {path: expressions for path, expressions in found.items() if expressions} == {
        path: set(reasons) for path, reasons in SAFE_IN_SQL.items()
    }


def _is_constant(node: ast.expr) -> bool:
    """Report whether an expression is one of two constants, or a clause of the engine."""
    if isinstance(node, ast.IfExp):
        return all(isinstance(each, ast.Constant) for each in (node.body, node.orelse))
    return isinstance(node, ast.Attribute) and node.attr in ("for_update", "skip_locked", "by_row_id")


def _is_sql(node: ast.JoinedStr) -> bool:
    text = "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
    return re.search(r"\b(SELECT|INSERT|UPDATE|DELETE|WHERE|AND|ORDER BY|LIMIT|LISTEN|PRAGMA)\b|= :", text) is not None


def test_functions_have_at_most_60_lines():
    """Measure without signature and docstring: a command has a parameter for each option."""
    found = {}
    for path, tree in parse_sources().items():
        for function in find_functions(tree):
            first = function.body[ast.get_docstring(function) is not None :] or function.body
            length = (function.end_lineno or 0) - first[0].lineno + 1
            if length > MAX_FUNCTION_LINES:
                found[path, function.name] = length
    assert found == {}


def split_words(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def test_names_avoid_vague_words():
    found = set()
    for path, tree in parse_sources().items():
        assert split_words(Path(path).stem).isdisjoint(FORBIDDEN_WORDS | ADJECTIVES), path
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found |= {(path, node.name)} if split_words(node.name) & FORBIDDEN_WORDS else set()
    assert found == set(NAMES_OF_OTHERS)


def test_files_that_read_the_environment_are_listed():
    found = {
        path
        for path, tree in parse_sources().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv")
    }
    assert found == set(READS_ENVIRONMENT)


# --- the two schemas ---

TYPES = {"INTEGER": "bigint", "TEXT": "text", "BLOB": "bytea", "REAL": "double precision"}
Columns = dict[str, dict[str, tuple[str, bool, str | None]]]
Indexes = dict[str, tuple[str, bool, bool, list[str]]]
"""By name: the table, whether it is unique, whether it has only some of the rows, and the columns."""

KEYS_ON_SQLITE = {"decision_workspace", "epic_workspace", "event_workspace"}
"""Indexes on SQLite that are the primary key on PostgreSQL."""

WORDS_ON_POSTGRES = {"chunk_words_search"}
"""Indexes on PostgreSQL only: on SQLite the FTS5 table is its own index."""


def test_both_engines_have_the_same_tables_columns_and_types(tmp_path, postgres_database):
    sqlite, postgres = open_store(f"sqlite://{tmp_path}/floor.db"), open_store(postgres_database)
    try:
        theirs = postgres_columns(postgres)
        assert set(theirs.pop("chunk_words")) == {"id", "words"}  # on SQLite an FTS5 table, which has no columns
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
        lambda conn: conn.fetch_all("SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'")
    )
    return [name for (name,) in rows if not name.startswith("sqlite_")]


def sqlite_columns(store: Store) -> Columns:
    tables: Columns = {}
    for table in sqlite_tables(store):
        rows = store.read(
            lambda conn, table=table: conn.fetch_all(  # type: ignore[misc]
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
                lambda conn, table=table: conn.fetch_all(  # type: ignore[misc]
                    "SELECT name FROM pragma_table_info(:table) WHERE pk > 0 ORDER BY pk", table=table
                )
            )
        ]
        for table in sqlite_tables(store)
    }


def sqlite_indexes(store: Store) -> Indexes:
    rows = store.read(
        lambda conn: conn.fetch_all(
            'SELECT master.name, master.tbl_name, list."unique", list.partial, info.name FROM sqlite_master AS master,'
            " pragma_index_list(master.tbl_name) AS list, pragma_index_info(master.name) AS info"
            " WHERE master.type = 'index' AND master.sql IS NOT NULL AND list.name = master.name"
            " ORDER BY master.name, info.seqno"
        )
    )
    return _group_columns(rows)


def postgres_columns(store: Store) -> Columns:
    rows = store.read(
        lambda conn: conn.fetch_all(
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
        lambda conn: conn.fetch_all(
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
        lambda conn: conn.fetch_all(
            "SELECT class.relname::text, owner.relname::text, indisunique, indpred IS NOT NULL, attribute.attname::text"
            " FROM pg_index JOIN pg_class AS class ON class.oid = indexrelid JOIN pg_class AS owner ON owner.oid = indrelid"
            " CROSS JOIN LATERAL unnest(indkey) WITH ORDINALITY AS part (number, place)"
            " JOIN pg_attribute AS attribute ON attribute.attrelid = indrelid AND attribute.attnum = part.number"
            " WHERE owner.relnamespace = 'public'::regnamespace"
            " AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conindid = indexrelid)"
            " ORDER BY class.relname, part.place"
        )
    )
    return _group_columns(rows)


def _group_columns(rows: list[tuple[Any, ...]]) -> Indexes:
    indexes: Indexes = {}
    for index, table, unique, partial, column in rows:
        indexes.setdefault(index, (table, bool(unique), bool(partial), []))[3].append(column)
    return indexes
