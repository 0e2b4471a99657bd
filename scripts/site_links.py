"""A hook of mkdocs: links to files of the repository that are not part of the site become plain text."""

from __future__ import annotations

import re
from typing import Any

_OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+((?:tests|src|scripts|examples)/[^)]+|[A-Z]+\.md)\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace such a link by the path of its file."""
    return _OUTSIDE.sub(r"`\2`", markdown)
