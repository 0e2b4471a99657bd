"""Files as text."""

from __future__ import annotations

from shopfloor.errors import NotText


def decode_text(data: bytes, path: str) -> tuple[str, bool]:
    """Return the text of a file, and whether it is invalid UTF-8. Binary files raise NotText."""
    if b"\0" in data:
        raise NotText(path=path, size=len(data), hint="Only text can be read")
    try:
        return data.decode(), False
    except UnicodeDecodeError:
        return data.decode(errors="replace"), True


def count_lines(text: str) -> int:
    """Count the lines of a text. An empty last line does not count."""
    return text.count("\n") + (bool(text) and not text.endswith("\n"))
