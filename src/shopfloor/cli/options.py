"""Shared by all commands: options from the settings, the server in this process, and output."""

from __future__ import annotations

import functools
import inspect
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shopfloor.cli.help import PROJECT_OPTIONS, Command, Group
from shopfloor.cli.lazy_group import HELP_OPTIONS
from shopfloor.errors import BadSettings
from shopfloor.settings import Settings

if TYPE_CHECKING:
    from shopfloor.serving import Shopfloor
    from shopfloor.toolkit import ReportProgress

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Continue with new entries until Ctrl-C.")]
# Seconds between polls of a command with --follow.
POLL_SECONDS = 0.5


def create_app(help: str | None = None, *, invoke_without_command: bool = False) -> typer.Typer:
    """Return a group of commands, or without a help text a container for single commands."""
    return typer.Typer(
        cls=Group,
        help=help,
        no_args_is_help=not invoke_without_command,
        invoke_without_command=invoke_without_command,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings=HELP_OPTIONS,
    )


def command(
    app: typer.Typer,
    name: str,
    *flags: str,
    read_only: bool = False,
    existing: bool | Callable[[dict[str, Any]], bool] = False,
    **facts: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a command whose first parameter is the settings, built from flags, environment and config file.

    A `read_only` command does not create a data folder. An `existing` one is rejected where there is no database; it
    may depend on the arguments.
    """

    def register(run: Callable[..., Any]) -> Callable[..., Any]:
        app.command(name, cls=Command, **facts)(with_settings(run, *flags, read_only=read_only, existing=existing))
        return run

    return register


def default_command(app: typer.Typer) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the default action of a group without a command: it lists something, and changes nothing."""

    def register(run: Callable[..., Any]) -> Callable[..., Any]:
        with_options = with_settings(run, read_only=True)

        def run_unless_named(context: typer.Context, **given: Any) -> Any:
            return None if context.invoked_subcommand else with_options(**given)

        parameters = list(inspect.signature(with_options).parameters.values())
        here = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        run_unless_named.__signature__ = inspect.Signature([here, *parameters])  # type: ignore[attr-defined]
        run_unless_named.__annotations__ = {p.name: p.annotation for p in [here, *parameters]}
        run_unless_named.__doc__ = run.__doc__
        app.callback()(run_unless_named)
        return run

    return register


def with_settings(
    run: Callable[..., Any],
    *flags: str,
    read_only: bool = False,
    existing: bool | Callable[[dict[str, Any]], bool] = False,
) -> Callable[..., Any]:
    """Return the function with options in place of its first parameter, the settings."""
    wanted = (*PROJECT_OPTIONS, *flags)

    @functools.wraps(run)
    def run_with_settings(**given: Any) -> Any:
        flags = {flag: given.pop(flag) for flag in wanted}
        settings = Settings(**{flag: value for flag, value in flags.items() if value is not None})
        # A mistyped --project would silently create an empty project. It is checked here and not in the settings: a
        # host program may name a folder that does not exist yet.
        if not settings.project.is_dir():
            raise BadSettings(
                f"project: folder {settings.project} not found; name the folder that agents work on, or create it first"
            )
        if existing(given) if callable(existing) else existing:
            check_database_exists(settings)
        if not read_only:
            return run(settings, **given)
        with spare_data_folder(settings) as spared:
            return run(spared, **given)

    signature = inspect.signature(run, eval_str=True)
    own = list(signature.parameters.values())[1:]
    # Typer builds the options from signature and annotations, so both describe the wrapper's parameters.
    run_with_settings.__signature__ = signature.replace(parameters=[*own, *map(_build_option, wanted)])  # type: ignore[attr-defined]
    run_with_settings.__annotations__ = {p.name: p.annotation for p in [*own, *map(_build_option, wanted)]}
    return run_with_settings


def check_database_exists(settings: Settings) -> None:
    """Reject a place without a database. There, a nightly backup would succeed with a new and empty one."""
    file = settings.database_file
    if file is not None and not file.exists():
        raise BadSettings(f"There is no database at {file}", hint="Name the --project or the --data folder that has it")
    if file is None:
        from shopfloor.store import schema_version  # noqa: PLC0415 - loading it takes longer than showing help

        if schema_version(settings.database_url) == 0:
            raise BadSettings("The database has no Shopfloor tables", hint="Name the --database that has them")


@contextmanager
def spare_data_folder(settings: Settings) -> Iterator[Settings]:
    """Yield the settings, with a temporary data folder if there is none: a read-only command creates none."""
    database = settings.database.removeprefix("sqlite://")
    if database != settings.database and database and not Path(database).exists():
        raise BadSettings(f"database: file {database} not found")
    data = settings.data
    # A path through a file is left to the command, which reports it.
    if data.exists() or not next(each for each in data.parents if each.exists()).is_dir():
        yield settings
        return
    if sys.stderr.isatty():
        print(f"There is no data folder at {data} yet: shopfloor init, or name a --project", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="shopfloor-") as empty:
        yield settings.model_copy(update={"data": Path(empty)})


def _build_option(name: str) -> inspect.Parameter:
    field = Settings.model_fields[name]
    kind = int if field.annotation is int else str
    option = typer.Option(f"--{name.replace('_', '-')}", help=field.description, show_default=False)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
    )


@contextmanager
def open_shopfloor(settings: Settings) -> Iterator[Shopfloor]:
    """Open the project in this process, without background work. A server may run at the same time."""
    from shopfloor.gateways.logs import configure_command_logging  # noqa: PLC0415 - as below
    from shopfloor.serving import Shopfloor  # noqa: PLC0415 - loading the engine takes longer than showing help

    configure_command_logging()
    shopfloor = Shopfloor(settings, kind="cli")
    try:
        yield shopfloor
    finally:
        shopfloor.close()


def call_desk(
    shopfloor: Shopfloor, tool: str, /, *, progress: ReportProgress | None = None, **given: Any
) -> dict[str, Any]:
    """Call a desk tool as the operator and return its response; raise its error."""
    # An option that is not given is None. Tools distinguish an absent argument from an empty one.
    input = {name: value for name, value in given.items() if value is not None}
    token = shopfloor.settings.operator_token
    return shopfloor.engine.call_desk(tool, input, "cli", progress, token=token, attended=sys.stdin.isatty())


def list_desk(shopfloor: Shopfloor, tool: str, key: str, **given: Any) -> Iterator[dict[str, Any]]:
    """Yield the items of all pages of a listing desk tool."""
    cursor: str | None = None
    while True:
        page = call_desk(shopfloor, tool, **given, limit=200, cursor=cursor)
        yield from page[key]
        cursor = page.get("nextCursor")
        if cursor is None:
            return


def poll_changes(
    follow: bool, read: Callable[[], Any], select: Callable[[Any], Any] = lambda value: value
) -> Iterator[Any]:
    """Yield the result of `read`; with `follow`, again whenever the part that `select` returns has changed."""
    last = None
    while True:
        value = read()
        text = json.dumps(select(value), sort_keys=True)
        if text != last:
            if last is not None:
                print()
            yield value
        last = text
        if not follow:
            return
        try:
            time.sleep(POLL_SECONDS)
        except KeyboardInterrupt:
            return
