"""Settings: the only reader of the environment and of the config file.

Sources, highest precedence first: arguments (flags), environment `SHOPFLOOR_*`, `shopfloor.toml` in the project root,
defaults. An unknown key of the file or an invalid value raises BadSettings with the name of the key. An unknown variable
is ignored with a warning.

A plain pydantic model: the loader of pydantic-settings cost 120 ms at every start of the command line.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import os
import re
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from shopfloor.errors import BadSettings
from shopfloor.rule_texts import describe_rule

CONFIG_FILE = "shopfloor.toml"
DATA_FOLDER = ".shopfloor"
WORKTREE_FOLDER = "worktrees"
"""The folder for worktrees of runs and crews, inside the data folder."""
ENVIRONMENT_PREFIX = "SHOPFLOOR_"
OPERATOR_TOKEN_VARIABLE = "SHOPFLOOR_OPERATOR_TOKEN"  # nosec B105 # the name of a variable
API_KEY_VARIABLE = "OPENAI_API_KEY"
INNGEST_VARIABLES = ("INNGEST_EVENT_KEY", "INNGEST_DEV")

MAX_KEPT = 1_000_000
"""Days or hours beyond it, in microseconds before now, would not fit into a column."""

Names = tuple[str, ...]

# Variables that were already warned about: a process reads its settings more than once.
_WARNED: set[str] = set()

SECRET_NAMES: Names = (
    ".envrc", ".netrc", "_netrc", ".npmrc", ".pypirc", ".git-credentials", ".htpasswd", ".pgpass", "*.pem", "*.key",
    "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", ".ssh", ".aws",
    ".gnupg", ".env~", "#.env*#", ".#.env*", "..env.*",
)  # fmt: skip


class Hook(BaseModel):
    """A command that runs at a point of a run, as an argument vector."""

    # defer_build: the validators are built on first use, which saves `--help` 20 ms.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    command: tuple[str, ...] = Field(min_length=1)
    seconds: float = Field(60.0, gt=0)
    to_agent: bool = False


class WebhookTarget(BaseModel):
    """A URL that receives events, with its own filter, secret and number of concurrent deliveries."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    url: str = Field(pattern=r"^https?://[^\s/?#]+[^\s]*$")
    events: tuple[str, ...] = ()
    secret: str = Field("", repr=False)
    concurrency: int = Field(1, ge=1, le=16)


class PermissionRule(BaseModel):
    """The answer to permission requests of one kind of operation, on paths that match a pattern."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    kind: str = "*"
    path: str | None = None
    answer: Literal["allow", "deny", "ask"]


Moment = Literal["session_start", "pre_iteration", "post_iteration", "on_task_complete", "on_error", "session_end"]


class Settings(BaseModel):
    """All settings. docs/settings.md is generated from their descriptions."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    project: Path = Field(Path(), description="The project root: the folder that agents work on.")
    data: Path = Field(Path(DATA_FOLDER), description="The data folder. A relative path starts at the project root.")
    database: str = Field(
        "", description="sqlite:///FILE or postgresql://…; by default shopfloor.db in the data folder."
    )
    database_direct: str | None = Field(
        None,
        description="The address of PostgreSQL itself if `database` is a pooler in transaction mode, such as PgBouncer.",
    )
    workspace: str = Field(
        "default",
        min_length=1,
        max_length=100,
        description="An isolated tenant of the database. Nothing is visible across workspaces.",
    )
    host: str = Field(
        "127.0.0.1",
        description="The address to listen on. Any address other than loopback requires a credential first.",
    )
    port: int = Field(3001, ge=0, le=65535, description="The port to listen on; 0 chooses a free one.")
    workers: int = Field(
        1, ge=1, le=64, description="Number of server processes that share the port; more than one needs PostgreSQL."
    )
    profile: Names = Field(
        ("factory", "todo", "context"), min_length=1, description="The toolsets that /mcp and /mcp/execute serve."
    )
    allowed_hosts: Names = Field((), description="Additional host names that clients may use for this server.")
    allowed_origins: Names = Field(
        (), description="Origins of web pages (scheme://host:port) that may call this server."
    )
    public_url: str | None = Field(
        None,
        description="The URL at which clients reach this server through a proxy, for links, cookies and OAuth metadata.",
    )
    trusted_proxies: Names = Field(
        (), description="Addresses or networks of proxies whose X-Forwarded-For and X-Forwarded-Proto headers count."
    )
    issuer: str | None = Field(None, description="The OAuth issuer of users' tokens. Set it together with jwks_url.")
    jwks_url: str | None = Field(None, description="The URL of the issuer's public keys (JWKS).")
    audience: str = Field("shopfloor", min_length=1, description="The audience that users' tokens must name.")
    user_token_days: int = Field(30, ge=1, le=3650, description="Lifetime of a user's token, in days.")
    rate_limits: dict[str, int] = Field(
        default_factory=dict, description="Maximum number of calls per minute and caller, by tool; 0 is no limit."
    )
    roles: dict[str, dict[Literal["allow", "deny"], list[str]]] = Field(
        default_factory=dict,
        description="Additional permissions of agent types, and additional agent types, in the factory toolset.",
    )
    calls: int = Field(64, ge=1, le=10_000, description="Maximum number of concurrent calls; further calls get 503.")
    waits: int = Field(10_000, ge=1, description="Maximum number of waiting calls.")
    retries: int = Field(3, ge=0, le=10, description="Maximum number of retries after a transient failure.")
    retry_pause: float = Field(1.0, ge=0, le=60, description="Seconds between retries.")
    session_days: int = Field(7, ge=1, le=365, description="Lifetime of a browser session, in days.")
    chat_base_url: str | None = Field(
        None, description="The OpenAI-compatible endpoint of the chat assistant; by default OpenAI's."
    )
    chat_model: str = Field("gpt-4o", min_length=1, description="The model of the chat assistant.")
    chat_api: Literal["chat_completions", "responses"] = Field(
        "chat_completions", description="The OpenAI protocol that the endpoint speaks."
    )
    chat_timeout: int = Field(60, ge=1, le=600, description="Time limit of a chat turn, in seconds.")
    chat_steps: int = Field(12, ge=1, le=100, description="Maximum number of model requests per chat turn.")
    chat_turns: int = Field(20, ge=0, description="Maximum number of chat turns per minute and user; 0 is no limit.")
    chat_history: int = Field(40, ge=1, le=200, description="Number of recent messages that the model sees.")
    agent_silence_seconds: int = Field(
        420,
        ge=10,
        le=604_800,
        description="Seconds without a call after which the tasks of an agent return to the queue.",
    )
    elicitation: bool = Field(
        True, description="Also show agents' questions to the people at their clients, if the client supports it."
    )
    secret_names: Names = Field(
        SECRET_NAMES, description="Names of files and folders that are never read; * matches any characters."
    )
    search_tokens: int = Field(
        6000,
        ge=500,
        le=50_000,
        description="Maximum size of the results of one search, in tokens of four characters; the rest is on the next page.",
    )
    embeddings: Literal["local", "openai", "off"] = Field("local", description="Embedding provider.")
    embeddings_model: str = Field(
        "text-embedding-3-small", description="The embedding model of an OpenAI-compatible endpoint."
    )
    embed_chunks: bool = Field(
        True,
        description=(
            "Embed each function and class as well, after the overviews of all files: slightly better results for ten "
            "times the work."
        ),
    )
    openai_base_url: str = Field(
        default_factory=lambda: os.environ.get("OPENAI_BASE_URL", ""),
        description="The OpenAI-compatible endpoint for embeddings; by default the variable OPENAI_BASE_URL.",
    )
    model_cache: Path = Field(
        default_factory=lambda: (
            Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "shopfloor" / "models"
        ),
        description="The folder of the local embedding model; by default ~/.cache/shopfloor/models.",
    )
    keep_log_days: int = Field(
        365,
        ge=0,
        le=MAX_KEPT,
        description="Days to keep rows of the log; 0 keeps them forever. Only sealed rows are deleted.",
    )
    max_log_rows: int = Field(
        0,
        ge=0,
        description="Maximum number of sealed rows of the log; beyond it the oldest are deleted. 0 is no limit.",
    )
    keep_mail_days: int = Field(
        0, ge=0, le=MAX_KEPT, description="Days to keep mail that all recipients have dealt with; 0 keeps it forever."
    )
    keep_transcript_days: int = Field(
        90, ge=0, le=MAX_KEPT, description="Days to keep transcripts of agent sessions; 0 keeps them forever."
    )
    keep_event_days: int = Field(30, ge=1, le=MAX_KEPT, description="Days to keep delivered events.")
    keep_answer_hours: int = Field(
        24, ge=1, le=MAX_KEPT, description="Hours to keep responses to calls with an idempotency key."
    )
    archive: bool = Field(
        True,
        description="Write log, mail and transcripts to the folder archive in the data folder before they are deleted.",
    )
    webhooks: tuple[WebhookTarget, ...] = Field(
        (),
        repr=False,
        description="URLs (http or https) that receive events as JSON, or tables with url, events, secret and concurrency.",
    )
    webhook_secret: str = Field("", repr=False, description="The secret that signs webhook requests.")
    notify: Names = Field(
        (),
        repr=False,
        description="Where people are notified of mail, questions and approvals: slack:URL, ntfy:URL, mailto:ADDRESS.",
    )
    smtp_url: str = Field(
        "", repr=False, description="The server that sends e-mail, such as smtp://user:password@host:587."
    )
    webhook_previous_secret: str = Field(
        "",
        repr=False,
        description="The previous webhook secret, which also signs requests until all receivers have the new one.",
    )
    webhook_private_addresses: bool = Field(
        False, description="Allow webhooks to addresses of this machine and of private networks."
    )
    inngest: bool = Field(False, description="Send every event to Inngest, as configured by the INNGEST_ variables.")
    traces: bool = Field(
        False, description="Send a span for each call over OTLP, as configured by the OTEL_ variables."
    )
    log: Literal["auto", "json", "pretty"] = Field(
        "auto", description="Log format; auto is pretty on a terminal and json elsewhere."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Minimum log level.")

    run: dict[str, Any] = Field(default_factory=dict, description="Defaults for the options of shopfloor run.")
    launch_runs: bool = Field(True, description="Let the operator start and schedule runs from the pages.")
    run_toolsets: Names = Field(
        ("loop", "context", "factory"),
        description="The toolsets for the agent of a run; from the factory, only mail.",
    )
    run_permissions: tuple[PermissionRule, ...] = Field(
        (), description="Rules for permission requests of agents; the first match decides."
    )
    hooks: dict[Moment, tuple[Hook, ...]] = Field(
        default_factory=dict, description="Lifecycle hooks: commands that run at points of a run."
    )

    def __init__(self, **given: Any) -> None:
        # The project comes first: it locates the config file and a relative data folder.
        environment = _read_environment()
        project = _parse_path(
            "project", given.get("project") or environment.get("project") or _find_project_root()
        ).resolve()
        # The worktrees of a repository share the data folder and, unless they have their own, the config file of the
        # project in the main one.
        home = project if (project / DATA_FOLDER).is_dir() else _find_main_project(project) or project
        given_data = given.get("data") or environment.get("data")
        data = project / _parse_path("data", given_data) if given_data else home / DATA_FOLDER
        # Agents work in the worktrees in the data folder, and must not choose the settings of the next run.
        worktrees = (data / WORKTREE_FOLDER).resolve()
        homes = [folder for folder in (project, home) if not folder.is_relative_to(worktrees)]
        config_file = next((path for folder in homes if (path := folder / CONFIG_FILE).is_file()), None)
        try:
            configured = {} if config_file is None else tomllib.loads(config_file.read_text("utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
            raise BadSettings(f"{config_file} cannot be read: {error}") from error
        values = configured | environment | given | {"project": project}
        start = project if given_data else home
        values["data"] = start / _parse_path("data", values.get("data") or DATA_FOLDER)
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise BadSettings(_format_errors(error)) from None

    @field_validator(
        "profile",
        "allowed_hosts",
        "allowed_origins",
        "trusted_proxies",
        "run_toolsets",
        "secret_names",
        "notify",
        mode="before",
    )
    @classmethod
    def _split_list(cls, value: Any) -> Any:
        # Environment variables are text. The config file has lists.
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("rate_limits", "roles", "run", "run_permissions", "hooks", mode="before")
    @classmethod
    def _parse_json(cls, value: Any) -> Any:
        # Environment variables are text. The config file has tables.
        return _load_json(value) if isinstance(value, str) else value

    @field_validator("rate_limits")
    @classmethod
    def _check_rate_limits(cls, value: dict[str, int]) -> dict[str, int]:
        if any(limit < 0 for limit in value.values()):
            raise ValueError("a limit must be 0 (no limit) or a number of calls per minute")
        return value

    @field_validator("public_url")
    @classmethod
    def _check_public_url(cls, value: str | None) -> str | None:
        # A path is not supported: the pages and the metadata use addresses from the root of the host.
        if value is not None and not re.fullmatch(r"https?://[A-Za-z0-9.:\[\]-]+/?", value):
            raise ValueError("public_url must be scheme://host[:port] without a path")
        return value and value.rstrip("/")

    @field_validator("trusted_proxies")
    @classmethod
    def _check_trusted_proxies(cls, value: Names) -> Names:
        for proxy in value:
            ipaddress.ip_network(proxy)
        return value

    @field_validator("webhooks", mode="before")
    @classmethod
    def _parse_webhooks(cls, value: Any) -> Any:
        # An environment variable is a list of URLs, or JSON. The config file has URLs and tables.
        if isinstance(value, str):
            value = _load_json(value) if value.lstrip().startswith("[") else cls._split_list(value)
        if not isinstance(value, list | tuple):
            return value
        targets = [{"url": each} if isinstance(each, str) else each for each in value]
        for target in targets:
            url = target.get("url") if isinstance(target, dict) else getattr(target, "url", None)
            if not isinstance(url, str) or not re.fullmatch(r"https?://[^\s/?#]+[^\s]*", url):
                raise ValueError("a webhook must be a URL that starts with http:// or https://")
            _check_address(url)
        return targets

    @field_validator("webhooks")
    @classmethod
    def _check_webhooks(cls, value: tuple[WebhookTarget, ...]) -> tuple[WebhookTarget, ...]:
        return tuple({target.url: target for target in reversed(value)}.values())[::-1]

    @field_validator("notify")
    @classmethod
    def _check_notify(cls, value: Names) -> Names:
        for address in value:
            if not re.fullmatch(r"(?:slack|ntfy):https?://[^\s/?#]+/[^\s]+|mailto:[^\s@]+@[^\s@]+", address):
                raise ValueError("notify must be slack:URL, ntfy:URL or mailto:ADDRESS")
            _check_address(address.partition(":")[2])
        return tuple(dict.fromkeys(value))

    @field_validator("smtp_url")
    @classmethod
    def _check_smtp_url(cls, value: str) -> str:
        if value and not re.fullmatch(r"smtps?://[^\s/]+/?", value):
            raise ValueError("smtp_url must be smtp://[user:password@]host[:port] or smtps://…")
        _check_address(value)
        return value

    @model_validator(mode="after")
    def _check_combinations(self) -> Settings:
        if (self.issuer is None) != (self.jwks_url is None):
            raise ValueError("issuer and jwks_url must be set together")
        if self.inngest and not any(os.environ.get(name) for name in INNGEST_VARIABLES):
            raise ValueError(f"inngest needs {INNGEST_VARIABLES[0]}, or {INNGEST_VARIABLES[1]} for a dev server")
        return self

    @property
    def chat_key(self) -> str | None:
        """The API key of the chat model, from the environment only."""
        # It is not a setting: a setting could be shown, logged or written to a file.
        return os.environ.get(API_KEY_VARIABLE) or None

    @property
    def embeddings_key(self) -> str:
        """The API key of the embedding endpoint, from the environment only."""
        return os.environ.get(API_KEY_VARIABLE, "")

    @property
    def operator_token(self) -> str | None:
        """The operator's token for approvals of commands without a terminal, from the environment only."""
        return os.environ.get(OPERATOR_TOKEN_VARIABLE)

    @property
    def database_url(self) -> str:
        """The URL of the database."""
        return self.database or f"sqlite://{self.data / 'shopfloor.db'}"

    @property
    def database_file(self) -> Path | None:
        """The file of a SQLite database, or None."""
        scheme, _, path = self.database_url.partition("://")
        return Path(path) if scheme == "sqlite" and path else None

    @property
    def loopback(self) -> bool:
        """True if only this machine can reach the server."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    # 0.0.0.0 and names other than localhost count as reachable from elsewhere, so they need a credential.
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _load_json(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def _check_address(url: str) -> None:
    """Raise ValueError for a URL whose host or port cannot be read, as the code that uses it would."""
    if urlsplit(url).port == 0:
        raise ValueError("port 0 cannot be connected to")


def _parse_path(name: str, value: Any) -> Path:
    try:
        return Path(value).expanduser()
    except (TypeError, RuntimeError):
        raise BadSettings(f"{name} must be a path (given: {value!r})") from None


def _read_environment() -> dict[str, str]:
    """Read the settings in the environment, by name."""
    prefix = ENVIRONMENT_PREFIX
    found = {name.removeprefix(prefix).lower(): value for name, value in os.environ.items() if name.startswith(prefix)}
    found.pop(OPERATOR_TOKEN_VARIABLE.removeprefix(prefix).lower(), None)
    for name in sorted(found.keys() - Settings.model_fields.keys() - _WARNED):
        # A misspelled name would otherwise leave the default in force silently. It is not an error: Kubernetes
        # sets SHOPFLOOR_SERVICE_HOST and others for a service of this name, and clients keep tokens in variables.
        _WARNED.add(name)
        near = get_close_matches(name, Settings.model_fields, n=1, cutoff=0.75)
        meant = f"; did you mean {prefix}{near[0].upper()}?" if near else ""
        logging.getLogger(__name__).warning("Ignoring %s%s, which is not a setting%s", prefix, name.upper(), meant)
    return {name: value for name, value in found.items() if name in Settings.model_fields}


def _find_project_root() -> Path:
    """Return the nearest folder with a data folder or a config file, in this worktree or the main one, or the current one."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / DATA_FOLDER).is_dir() or (folder / CONFIG_FILE).is_file():
            return folder
        # Checked before the parent folders: the worktrees of a crew are inside the project's data folder.
        main = _find_main_worktree(folder)
        if main is not None and (shared := _find_main_project(here)) is not None:
            return folder / shared.relative_to(main)
    return here


def _find_main_project(folder: Path) -> Path | None:
    """Return the project in the main worktree whose folder is or contains the counterpart of `folder`.

    A project has a data folder. None outside a linked worktree, or if this user owns no such folder.
    """
    folder = folder.resolve()
    top = next((each for each in (folder, *folder.parents) if (each / ".git").exists()), None)
    main = None if top is None else _find_main_worktree(top)
    if top is None or main is None:
        return None
    place = main / folder.relative_to(top)
    while place.is_relative_to(main):
        try:
            # Another user's data folder may hold another team's secrets, or be a trap.
            if (place / DATA_FOLDER).stat().st_uid == os.getuid() and (place / DATA_FOLDER).is_dir():
                return place
        except OSError:
            pass
        place = place.parent
    return None


def _find_main_worktree(top: Path) -> Path | None:
    """Return the main folder of the repository that the linked worktree `top` belongs to, or None if it is not one.

    Read from git's files: a command would follow GIT_DIR, which hooks set, and take longer than all other settings.
    """
    try:
        pointer = _read_regular_file(top / ".git").removeprefix("gitdir:").strip()
        own = (top / pointer).resolve()
        # A submodule has no common folder. A .git file that points at a worktree elsewhere is ignored.
        common = (own / _read_regular_file(own / "commondir").strip()).resolve()
        back = (own / _read_regular_file(own / "gitdir").strip()).resolve()
    except (OSError, ValueError):
        return None
    # `.bare` is the usual name of a bare repository with worktrees beside it.
    if back != (top / ".git").resolve() or common.name not in (".git", ".bare") or not (common / "HEAD").is_file():
        return None
    return common.parent


def _read_regular_file(path: Path) -> str:
    # An agent may have left a pipe, whose reader waits for a writer.
    if not path.is_file():
        raise FileNotFoundError(path)
    return path.read_text()


def _describe_unknown(name: str) -> str:
    return f"Unknown setting {name!r}; expected one of {', '.join(sorted(Settings.model_fields))}"


def _format_errors(error: ValidationError) -> str:
    sentences = []
    for problem in error.errors(include_url=False):
        key = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            sentences.append(_describe_unknown(key))
        else:
            field = Settings.model_fields.get(key.partition(".")[0])
            # Passwords and the URLs of webhooks, which are often secrets, must not reach the log.
            given = f" (given: {problem['input']!r})" if field is not None and field.repr else ""
            is_own = problem["type"] == "value_error"
            text = f": {problem['msg'].removeprefix('Value error, ')}" if is_own else f" {describe_rule(problem)}"
            sentences.append(f"{key or 'settings'}{text}{given}")
    return "; ".join(sentences)
