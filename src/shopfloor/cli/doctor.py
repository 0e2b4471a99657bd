"""shopfloor doctor"""

from __future__ import annotations

import http.client
import os
import shutil
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import typer

from shopfloor.cli.connect import describe_server, find_server_url
from shopfloor.cli.options import AsJson, call_desk, command, create_app, open_shopfloor
from shopfloor.cli.output import format_bytes, format_table, print_result
from shopfloor.connect import connections
from shopfloor.errors import ShopfloorError
from shopfloor.settings import Settings
from shopfloor.store import schema_version
from shopfloor.store.migrate import load_migrations

if TYPE_CHECKING:
    from shopfloor.serving import Shopfloor

MIN_FREE_BYTES = 1_000_000_000
PROGRAMS = {"git": "runs commit and use worktrees with it"}

app = create_app()
Finding = dict[str, Any]


@command(app, "doctor", "host", "port")
def examine(settings: Settings, as_json: AsJson = False) -> None:
    """Check for problems: settings, disk, database, clock, port, outbox, log, clients. Each finding has its fix.

    Exits with 1 if there is a problem. Warnings do not count.
    """
    findings = [*_check_folder(settings), *_check_port(settings), *_check_programs()]
    schema = _check_schema(settings)
    findings.append(schema)
    # Opening a place without a database would create one.
    if schema["level"] == "ok":
        try:
            with open_shopfloor(settings) as shopfloor:
                findings.append(_check_server(shopfloor))
                findings += call_desk(shopfloor, "doctor")["findings"]
                findings += _check_clients(settings, shopfloor)
        except ShopfloorError as error:
            findings.append(_finding("server", "problem", error.message, error.hint))
    ok = not any(finding["level"] == "problem" for finding in findings)
    print_result({"ok": ok, "findings": findings}, as_json, _format(findings))
    if not ok:
        raise typer.Exit(1)


def _finding(check: str, level: str, message: str, fix: str | None = None) -> Finding:
    return {"check": check, "level": level, "message": message, "fix": fix}


def _format(findings: list[Finding]) -> str:
    table = format_table(
        [{"check": each["check"], "state": each["level"], "message": each["message"]} for each in findings], ""
    )
    fixes = [f"  {each['check']}: {each['fix']}" for each in findings if each["fix"] and each["level"] != "ok"]
    return "\n".join([table, *(["", "To do:", *fixes] if fixes else [])])


def _check_folder(settings: Settings) -> Iterator[Finding]:
    data = settings.data
    if not data.exists():
        yield _finding("data folder", "ok", f"{data} does not exist yet")
    elif data.stat().st_mode & 0o077:
        yield _finding("data folder", "warning", f"others can read {data}", f"chmod 700 {data}")
    elif not os.access(data, os.W_OK | os.X_OK):
        yield _finding("data folder", "problem", f"{data} is not writable", f"chown -R $USER {data}")
    else:
        yield _finding("data folder", "ok", str(data))
    free = shutil.disk_usage(next(each for each in (data, *data.parents) if each.exists())).free
    level, fix = (
        ("ok", None) if free >= MIN_FREE_BYTES else ("warning", "Free some space; see keep_log_days and compact")
    )
    yield _finding("disk", level, f"{format_bytes(free)} free", fix)


def _check_schema(settings: Settings) -> Finding:
    known = len(load_migrations("sqlite"))
    try:
        found = schema_version(settings.database_url)
    except ShopfloorError as error:
        fix = "Try again" if error.transient else "Check the setting database"
        return _finding("schema", "problem", error.message, error.hint or fix)
    if found > known:
        return _finding("schema", "problem", f"version {found} is newer than {known}", "Install a newer shopfloor")
    if 0 < found < known:
        return _finding("schema", "problem", f"version {found} is older than {known}", "shopfloor migrate")
    if found == 0:
        place = settings.database_file or "the address of the setting database"
        fix = "shopfloor init, or name the --project, the --data folder or the --database that has it"
        return _finding("schema", "warning", f"there is no database yet at {place}", fix)
    return _finding("schema", "ok", f"version {found}")


def _check_port(settings: Settings) -> Iterator[Finding]:
    host, port = settings.host, settings.port
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.settimeout(2)
        if port == 0 or probe.connect_ex(("127.0.0.1" if host == "0.0.0.0" else host, port)) != 0:  # nosec B104
            yield _finding("port", "ok", f"{port} is free; no server runs there")
            return
    ready = _read_ready(host, port)
    if ready is None:
        yield _finding(
            "port", "problem", f"another program uses {port}", "Choose another port: shopfloor serve --port N"
        )
    elif ready == "":
        yield _finding("port", "ok", f"a Shopfloor server is ready at {port}")
    else:
        yield _finding("port", "problem", f"the server at {port} is not ready: {ready}", "See the log of the server")


def _check_server(shopfloor: Shopfloor) -> Finding:
    """Return the address of this project's server: the one at the port may belong to another project."""
    url = find_server_url(shopfloor)
    return _finding("server", "ok", f"the server of this project is at {url}" if url else "none runs for this project")


def _read_ready(host: str, port: int) -> str | None:
    """Return why the server at the port is not ready, an empty text if it is, and None if it is not Shopfloor."""
    # Not gateways/http_client: a proxy from the environment does not reach a port of this machine.
    connection = http.client.HTTPConnection("127.0.0.1" if host == "0.0.0.0" else host, port, timeout=5)  # nosec B104
    try:
        connection.request("GET", "/readyz")
        response = connection.getresponse()
        body = response.read(2000).decode(errors="replace")
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    if response.status == 200 and "ready" in body:
        return ""
    return body if response.status == 503 else None


def _check_programs() -> Iterator[Finding]:
    for name, use in PROGRAMS.items():
        found = shutil.which(name)
        yield (
            _finding(name, "ok", found)
            if found
            else _finding(name, "warning", f"not installed; {use}", f"Install {name}")
        )


def _check_clients(settings: Settings, shopfloor: Shopfloor) -> Iterator[Finding]:
    for row in connections.list_connections(describe_server(settings, shopfloor)):
        name = f"{row['client']} ({row['scope']})"
        if row["state"] == "connected":
            yield _finding("client", "ok", f"{name} acts as {row['agent']}")
        else:
            yield _finding("client", "warning", f"{name}: {row['state']}", f"shopfloor connect {row['client']}")
