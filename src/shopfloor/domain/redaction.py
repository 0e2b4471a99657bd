"""Redact text that looks like a secret: logs have more readers than the calls themselves."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

REDACTED = "***"
_MAX_TOKEN_CHARACTERS = 4096

# Prefixes that only tokens of well-known services have.
_PREFIXES = (
    *("glpat-", "glrt-", "gldt-", "github_pat_", "dckr_pat_", "shpat_", "sk_live_", "sk_test_", "rk_live_", "rk_test_"),
    *("whsec_", "dop_v1_", "lin_api_", "sntrys_", "sntryu_", "nvapi-", "ATATT3", "hvs.", "ya29.", "pypi-AgE", "xapp-"),
    *("AGE-SECRET-KEY-1", "1//0"),
)

# Prefixes of ordinary words too: only a long run of letters and digits after them is a token.
_SHORT_PREFIXES = ("npm_", "hf_", "gsk_", "xai-", "tok_", "key-", "secret_")

_NAME = (
    r"passw(?:or)?d|passphrase|passcode|pwd|secret|token|authorization|cookie|credential|bearer"
    r"|(?:api|access|account|private|signing|encryption)[_-]?key|connection[_-]?string"
)
_SECRET_NAME = re.compile(rf"{_NAME}|^(?:auth|otp|pin)$", re.IGNORECASE)
# Every part takes time linear in the text, because callers control what is logged.
_SECRET_VALUE = re.compile(
    r"sf[aoprv]_[a-z0-9]{8,}_[A-Za-z0-9_-]{20,}"
    r"|(?<![A-Za-z0-9_-])(?=[A-Za-z0-9_-]*eyJ)[A-Za-z0-9_-]{13,}+\.[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]*+"
    rf"|(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, _PREFIXES))})[A-Za-z0-9_./=-]{{16,}}"
    rf"|(?<![A-Za-z0-9])(?:{'|'.join(_SHORT_PREFIXES)})[A-Za-z0-9]{{24,}}"
    r"|\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}|\bgh[pousr]_[A-Za-z0-9]{20,}"
    r"|\bxox[a-z]-[A-Za-z0-9-]{10,}|(?<=hooks\.slack\.com/services/)[A-Za-z0-9/]{20,}"
    r"|\bA(?:KIA|SIA)[0-9A-Z]{16}\b|\bAIza[0-9A-Za-z_-]{35}|\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\Z)"
    r"|(?i:\bBearer\s+)[A-Za-z0-9._~+/=-]{12,}"
    r"|(?i:\bBasic\s+)(?=[A-Za-z+/]{0,200}[0-9=])[A-Za-z0-9+/]{12,}={0,2}"
    r"|(?<=://)[^/\s:@\"]+:[^/\s@\"]+(?=@)",
    re.DOTALL,
)
# A name and its value in the middle of text: password=…, API_KEY: …, ?sig=…, Cookie: a=…; b=…
_ASSIGNED = re.compile(
    r"(\bcookie:\s{0,3}(?=[^\s=;]{1,200}=))[^\r\n]+"
    rf"|((?=[paste?&cb])(?:(?:{_NAME})[A-Za-z0-9_-]{{0,24}}[\"']?|[?&](?:key|sig|signature|code))(?:"
    r"\s{0,3}=\s{0,3}[\"']?(?=[^\s\"',;&*]{4})|:\s{0,3}[\"']?(?=[^\s\"',;&0-9]{0,200}[0-9])(?=[^\s\"',;&*]{6})"
    r"))[^\s\"',;&]+",
    re.IGNORECASE,
)
# Every match of a pattern contains one of these. A plain text search costs a tenth of a pattern.
_HINTS = (
    *("pass", "pwd", "secret", "token", "key", "auth", "cookie", "credential", "begin", "bearer", "basic", "://"),
    *("connection", "sig=", "signature=", "code=", '"otp', '"pin', "eyj", "xox", "akia", "asia", "aiza", "sg."),
    *(
        "sfa_",
        "sfo_",
        "sfp_",
        "sfr_",
        "sfv_",
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "ghr_",
        "glpat-",
        "glrt-",
        "gldt-",
        "pat_",
    ),
    *("_live_", "_test_", "whsec_", "_v1_", "lin_api_", "sntry", "nvapi-", "atatt3", "hvs.", "ya29.", "pypi-age"),
    *("xapp-", "1//0", "npm_", "hf_", "gsk_", "xai-", "tok_"),
)
# A lone surrogate cannot be encoded; it is shown as its number.
_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")

_SHORT_HINT = re.compile(r"(?:\b|\\[bfnrt]|\\u[0-9a-f]{4})[spr]k-")  # in JSON, an escape may precede it


def redact(text: str) -> str:
    """Return the text without anything that looks like a secret."""
    if not may_contain_secret(text):
        return text
    if text[:1] in ("{", "["):
        with suppress(ValueError, RecursionError):  # JSON inside text has names too
            given = json.loads(text)
            if (masked := redact_value(given)) != given:
                return to_json_text(masked)
    return _ASSIGNED.sub(_keep_field_name, _SECRET_VALUE.sub(REDACTED, text))


def redact_json(text: str) -> str:
    """Redact JSON; as plain text if it contains a number too long for Python to parse."""
    try:
        return to_json_text(redact_value(json.loads(text)))
    except ValueError:
        # Python parses integers of at most 4,300 digits.
        return to_json_text(_ASSIGNED.sub(_keep_field_name, _SECRET_VALUE.sub(REDACTED, text)))


def cut_texts(text: str, limit: int) -> str:
    """Return JSON with at most `limit` characters of text: the rest is dropped, including a possible partial token."""
    left = limit

    def cut(value: Any) -> Any:
        nonlocal left
        if isinstance(value, dict):
            return {cut(key): cut(content) for key, content in value.items() if left > 0}
        if isinstance(value, list):
            return [cut(item) for item in value if left > 0]
        if not isinstance(value, str):
            return value
        kept = value[:left]
        left -= len(kept)
        return kept if len(kept) == len(value) else kept[:-_MAX_TOKEN_CHARACTERS]

    try:
        return to_json_text(cut(json.loads(text)))
    except (ValueError, RecursionError):
        return to_json_text(text[: limit - _MAX_TOKEN_CHARACTERS])


def redact_value(value: Any) -> Any:
    """Redact every text in a JSON value, and the value of every field with a secret-looking name."""
    if isinstance(value, dict):
        redacted = {}
        for key, content in value.items():
            # True, false and null reveal that there is a secret, not its value.
            is_secret = content is not None and not isinstance(content, bool) and _SECRET_NAME.search(key) is not None
            redacted[redact(key)] = REDACTED if is_secret else redact_value(content)
        return redacted
    if isinstance(value, list):
        return [redact_value(item) for item in value]
    return redact(value) if isinstance(value, str) else value


def may_contain_secret(text: str) -> bool:
    """Return whether the text may contain a secret, by a fast check."""
    # Every call is logged, and most contain nothing that looks like a secret: the patterns run only on the rest.
    folded = text.casefold()
    return any(map(folded.__contains__, _HINTS)) or ("k-" in folded and _SHORT_HINT.search(folded) is not None)


def to_json_text(value: Any) -> str:
    """Return the value as JSON, even if a caller sent characters that no store accepts."""
    try:
        return to_json(value, fallback=str, inf_nan_mode="null").decode()
    except PydanticSerializationError:
        pass
    try:
        text = json.dumps(value, default=str, separators=(",", ":"), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        return json.dumps({"unreadable": type(error).__name__})
    # One such entry, stored as an escape, made every later read of the log fail, from its page on.
    return _LONE_SURROGATE.sub(lambda half: rf"\\u{ord(half[0]):04x}", text)


def _keep_field_name(found: re.Match[str]) -> str:
    return f"{found[found.lastindex or 0]}{REDACTED}"


def escape_unprintable(name: str) -> str:
    """Return a caller's name with control characters escaped and its length limited, for logs and errors."""
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in name[:100])
    return shown if len(name) <= 100 else f"{shown}…"
