"""Turn `:name` parameters, as the repositories write them, into PostgreSQL's own notation."""

from __future__ import annotations

import re
from functools import lru_cache

# Strings, quoted names, comments and casts are tokens too, so that a colon inside them is not taken for a parameter.
_TOKEN = re.compile(
    r"""
      [eE]'(?:[^'\\]|\\.|'')*'          # text with backslashes
    | '(?:[^']|'')*'                    # text
    | "(?:[^"]|"")*"                    # a quoted name
    | --[^\n]*                          # a comment
    | /\*.*?\*/                         # a long comment
    | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$   # text between dollars
    | ::                                # a cast
    | :(?P<name>[A-Za-z_]\w*)
    """,
    re.VERBOSE | re.DOTALL,
)


# Cached: every statement passes through here, and the repositories have a fixed number of them.
@lru_cache(maxsize=4096)
def number_parameters(sql: str) -> tuple[str, tuple[str, ...]]:
    """Return the statement with `$1`, `$2`, … in place of `:name`, and the names in that order."""
    names: list[str] = []

    def number(token: re.Match[str]) -> str:
        name = token["name"]
        if name is None:
            return token[0]
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}"

    return _TOKEN.sub(number, sql), tuple(names)
