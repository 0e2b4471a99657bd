"""What looks like a secret, and the text without it: logs are read by more people than the calls they tell of."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

MASK = "***"

_PREFIXES = (
    *("glpat-", "glrt-", "gldt-", "github_pat_", "dckr_pat_", "shpat_", "sk_live_", "sk_test_", "rk_live_", "rk_test_"),
    *("whsec_", "dop_v1_", "lin_api_", "sntrys_", "sntryu_", "nvapi-", "ATATT3", "hvs.", "ya29.", "pypi-AgE", "xapp-"),
    *("AGE-SECRET-KEY-1", "1//0"),
)
"""How the tokens of well-known services begin; nothing else does."""

_SHORT_PREFIXES = ("npm_", "hf_", "gsk_", "xai-", "tok_", "key-", "secret_")
"""The same where words begin so too: only a long run of letters and digits behind them is a token."""

_NAME = (
    r"passw(?:or)?d|passphrase|passcode|pwd|secret|token|authorization|cookie|credential|bearer"
    r"|(?:api|access|account|private|signing|encryption)[_-]?key|connection[_-]?string"
)
_SECRET_NAME = re.compile(rf"{_NAME}|^(?:auth|otp|pin)$", re.IGNORECASE)
# Every part takes time in proportion to the text: what is logged is written by whoever calls.
_SECRET_VALUE = re.compile(
    r"sf[aopr]_[a-z0-9]{8,}_[A-Za-z0-9_-]{20,}"
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
# Whatever any of them matches has one of these in it. To look for plain text costs a tenth of a pattern.
_HINTS = (
    *("pass", "pwd", "secret", "token", "key", "auth", "cookie", "credential", "begin", "bearer", "basic", "://"),
    *("connection", "sig=", "signature=", "code=", '"otp', '"pin', "eyj", "xox", "akia", "asia", "aiza", "sg."),
    *("sfa_", "sfo_", "sfp_", "sfr_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "glpat-", "glrt-", "gldt-", "pat_"),
    *("_live_", "_test_", "whsec_", "_v1_", "lin_api_", "sntry", "nvapi-", "atatt3", "hvs.", "ya29.", "pypi-age"),
    *("xapp-", "1//0", "npm_", "hf_", "gsk_", "xai-", "tok_"),
)
_HALF = re.compile(r"[\ud800-\udfff]")
"""Half a character: whoever reads the log later could not write it down; it is shown by its number."""

_SHORT_HINT = re.compile(r"(?:\b|\\[bfnrt]|\\u[0-9a-f]{4})[spr]k-")  # in JSON, what stands before may be an escape


def mask(text: str) -> str:
    """The text without anything that looks like a secret."""
    if not may_tell(text):
        return text
    if text[:1] in ("{", "["):
        with suppress(ValueError, RecursionError):  # JSON inside of text has names too
            given = json.loads(text)
            if (masked := masked_value(given)) != given:
                return as_json(masked)
    return _ASSIGNED.sub(_kept_name, _SECRET_VALUE.sub(MASK, text))


def masked_json(text: str) -> str:
    """JSON with everything in it masked; as one text where a number in it is longer than Python reads."""
    try:
        return as_json(masked_value(json.loads(text)))
    except ValueError:
        return as_json(_ASSIGNED.sub(_kept_name, _SECRET_VALUE.sub(MASK, text)))


def masked_value(value: Any) -> Any:
    """A value as JSON has it, with every text in it masked, and whatever stands under a telling name."""
    if isinstance(value, dict):
        return {mask(key): MASK if _tells(key, content) else masked_value(content) for key, content in value.items()}
    if isinstance(value, list):
        return [masked_value(item) for item in value]
    return mask(value) if isinstance(value, str) else value


def may_tell(text: str) -> bool:
    """Whether it is worth looking for secrets in this text."""
    folded = text.casefold()
    return any(map(folded.__contains__, _HINTS)) or ("k-" in folded and _SHORT_HINT.search(folded) is not None)


def as_json(value: Any) -> str:
    """The value as JSON, also where a caller sent what no store could keep."""
    try:
        return to_json(value, fallback=str, inf_nan_mode="null").decode()
    except PydanticSerializationError:
        pass
    try:
        text = json.dumps(value, default=str, separators=(",", ":"), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        return json.dumps({"unreadable": type(error).__name__})
    return _HALF.sub(lambda half: rf"\\u{ord(half[0]):04x}", text)


def _tells(name: str, content: Any) -> bool:
    return content is not None and not isinstance(content, bool) and _SECRET_NAME.search(name) is not None


def _kept_name(found: re.Match[str]) -> str:
    return f"{found[found.lastindex or 0]}{MASK}"
