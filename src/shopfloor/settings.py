"""Settings: the only reader of the environment and of the config file.

Sources, first one wins: arguments (flags), environment `SHOPFLOOR_*`, `shopfloor.toml` in the project root,
defaults. An unknown key or a bad value stops the start, by name.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from shopfloor.errors import BadSettings

CONFIG = "shopfloor.toml"
DATA = ".shopfloor"
PREFIX = "SHOPFLOOR_"
CHAT_KEY = "OPENAI_API_KEY"
INNGEST = ("INNGEST_EVENT_KEY", "INNGEST_DEV")

Names = tuple[str, ...]

SECRET_NAMES: Names = (
    ".envrc", ".netrc", "_netrc", ".npmrc", ".pypirc", ".git-credentials", ".htpasswd", ".pgpass", "*.pem", "*.key",
    "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", ".ssh", ".aws",
    ".gnupg",
)  # fmt: skip


class Hook(BaseModel):
    """A command that runs at a moment of a run, as an argument vector."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    command: tuple[str, ...] = Field(min_length=1)
    seconds: float = Field(60.0, gt=0)
    to_agent: bool = False


class PermissionRule(BaseModel):
    """What to answer when the agent of a run asks for a kind of deed, on paths that fit a pattern."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    kind: str = "*"
    path: str | None = None
    answer: Literal["allow", "deny", "ask"]


Moment = Literal["session_start", "pre_iteration", "post_iteration", "on_task_complete", "on_error", "session_end"]


class Settings(BaseModel):
    """Everything that can be set; docs/settings.md is tested to name each."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    project: Path = Field(Path(), description="The project root: what agents work on.")
    data: Path = Field(Path(DATA), description="The data folder; a relative one lies in the project root.")
    database: str = Field("", description="sqlite:///FILE or postgresql://…; by default a file in the data folder.")
    workspace: str = Field("default", min_length=1, max_length=100, description="Keeps teams apart on one database.")
    host: str = Field("127.0.0.1", description="The address to listen on.")
    port: int = Field(3001, ge=0, le=65535, description="The port to listen on; 0 takes a free one.")
    profile: Names = Field(
        ("factory", "todo", "context"), min_length=1, description="The toolsets that /mcp and /mcp/execute serve."
    )
    allowed_hosts: Names = Field((), description="Further names that clients may call this server by.")
    allowed_origins: Names = Field((), description="Web pages (scheme://host:port) that may call this server.")
    issuer: str | None = Field(None, description="The OAuth issuer that signs the tokens of users.")
    jwks_url: str | None = Field(None, description="Where the issuer publishes its keys.")
    audience: str = Field("shopfloor", min_length=1, description="The audience that tokens of users must name.")
    user_token_days: int = Field(30, ge=1, le=3650, description="How long a user's own token lives.")
    rate_limits: dict[str, int] = Field(default_factory=dict, description="Calls a minute per tool; 0 is no limit.")
    roles: dict[str, dict[Literal["allow", "deny"], list[str]]] = Field(
        default_factory=dict, description="Further rights of agent types, and further types, for the factory."
    )
    calls: int = Field(64, ge=1, le=10_000, description="Calls under way at once; one more is told to come back.")
    waits: int = Field(10_000, ge=1, description="Calls that may wait for something at once.")
    retries: int = Field(3, ge=0, le=10, description="Attempts after the first, when a failure may pass.")
    retry_pause: float = Field(1.0, ge=0, le=60, description="Seconds between attempts.")
    session_days: int = Field(7, ge=1, le=365, description="How long somebody stays signed in on a page.")
    chat_base_url: str | None = Field(None, description="An OpenAI-compatible endpoint for the chat assistant.")
    chat_model: str = Field("gpt-4o", min_length=1, description="The model of the chat assistant.")
    chat_api: Literal["chat_completions", "responses"] = Field(
        "chat_completions", description="Which of the two OpenAI protocols the endpoint speaks."
    )
    chat_timeout: int = Field(60, ge=1, le=600, description="Seconds that one turn of the chat may take.")
    chat_steps: int = Field(12, ge=1, le=100, description="How often the model may be asked in one turn.")
    chat_turns: int = Field(20, ge=0, description="Turns a minute per user; 0 is no limit.")
    chat_history: int = Field(40, ge=1, le=200, description="How many of the last messages the model is shown.")
    agent_silence_seconds: int = Field(
        420, ge=10, le=604_800, description="How long an agent may be silent before its tasks go back to the queue."
    )
    secret_names: Names = Field(SECRET_NAMES, description="Names of files that agents never read; * is anything.")
    embeddings: Literal["local", "openai", "off"] = Field("local", description="Who makes vectors for search.")
    embeddings_model: str = Field("text-embedding-3-small", description="The model of an OpenAI-compatible endpoint.")
    openai_base_url: str = Field(
        default_factory=lambda: os.environ.get("OPENAI_BASE_URL", ""),
        description="The OpenAI-compatible endpoint; by default OPENAI_BASE_URL.",
    )
    model_cache: Path = Field(
        default_factory=lambda: _cache_home() / "shopfloor" / "models", description="Where the local model is kept."
    )
    webhooks: Names = Field((), description="Addresses (http or https) that get every event as JSON.")
    webhook_secret: str = Field("", repr=False, description="Signs what goes to web hooks.")
    inngest: bool = Field(False, description="Send every event to Inngest, as its variables INNGEST_… say.")
    traces: bool = Field(False, description="Send a span for each call over OTLP, as the variables OTEL_… say.")
    log: Literal["auto", "json", "pretty"] = Field("auto", description="How log lines look.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="What is worth a line.")

    run: dict[str, Any] = Field(default_factory=dict, description="Defaults for the options of shopfloor run.")
    run_toolsets: Names = Field(("loop",), description="The toolsets that the agent of a run gets.")
    run_permissions: tuple[PermissionRule, ...] = Field((), description="Answers to what agents of runs ask leave for.")
    hooks: dict[Moment, tuple[Hook, ...]] = Field(default_factory=dict, description="Commands at moments of a run.")

    def __init__(self, **given: Any) -> None:
        environment = _environment()
        project = _path("project", given.get("project") or environment.get("project") or _project_root()).resolve()
        values = _config_file(project) | environment | given | {"project": project}
        values["data"] = project / _path("data", values.get("data") or DATA)
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise BadSettings(_explained(error)) from None

    @field_validator(
        "profile", "allowed_hosts", "allowed_origins", "run_toolsets", "secret_names", "webhooks", mode="before"
    )
    @classmethod
    def _split(cls, value: Any) -> Any:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("rate_limits", "roles", "run", "run_permissions", "hooks", mode="before")
    @classmethod
    def _parse(cls, value: Any) -> Any:
        return json.loads(value) if isinstance(value, str) else value

    @field_validator("rate_limits")
    @classmethod
    def _not_negative(cls, value: dict[str, int]) -> dict[str, int]:
        if any(limit < 0 for limit in value.values()):
            raise ValueError("a limit is 0 (none) or more calls a minute")
        return value

    @field_validator("webhooks")
    @classmethod
    def _addresses(cls, value: Names) -> Names:
        for address in value:
            if not re.fullmatch(r"https?://[^\s/?#]+[^\s]*", address):
                raise ValueError("a web hook is an address that begins with http:// or https://")
        return tuple(dict.fromkeys(value))

    @model_validator(mode="after")
    def _together(self) -> Settings:
        if (self.issuer is None) != (self.jwks_url is None):
            raise ValueError("issuer and jwks_url go together: set both or none")
        if self.inngest and not any(os.environ.get(name) for name in INNGEST):
            raise ValueError(f"inngest needs {INNGEST[0]}, or {INNGEST[1]} for a dev server")
        return self

    @property
    def chat_key(self) -> str | None:
        """The key for the model; only the environment holds it, so that no file and no log does."""
        return os.environ.get(CHAT_KEY) or None

    @property
    def embeddings_key(self) -> str:
        """The key of the endpoint for vectors; from the environment alone, never from a file."""
        return os.environ.get(CHAT_KEY, "")

    @property
    def database_url(self) -> str:
        """Where the store is."""
        return self.database or f"sqlite://{self.data / 'shopfloor.db'}"

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def _path(name: str, value: Any) -> Path:
    try:
        return Path(value).expanduser()
    except (TypeError, RuntimeError):
        raise BadSettings(f"{name}: Input should be a path (given: {value!r})") from None


def _config_file(project: Path) -> dict[str, Any]:
    path = project / CONFIG
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadSettings(f"{path} cannot be read: {error}") from error


def _environment() -> dict[str, str]:
    """The settings of the environment, by their names."""
    found = {name[len(PREFIX) :].lower(): value for name, value in os.environ.items() if name.startswith(PREFIX)}
    for name in sorted(found):
        if name not in Settings.model_fields:
            raise BadSettings(f"{PREFIX}{name.upper()} is not a setting; {_known()}")
    return found


def _project_root() -> Path:
    """The current folder, or the nearest one above it that is a floor already."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / DATA).is_dir() or (folder / CONFIG).is_file():
            return folder
    return here


def _cache_home() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()


def _known() -> str:
    return f"settings are {', '.join(sorted(Settings.model_fields))}"


def _explained(error: ValidationError) -> str:
    sentences = []
    for problem in error.errors(include_url=False):
        key = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            sentences.append(f"{key} is not a setting; {_known()}")
        else:
            given = "" if not key else f" (given: {problem['input']!r})"
            sentences.append(f"{key or 'settings'}: {problem['msg'].removeprefix('Value error, ')}{given}")
    return "; ".join(sentences)
