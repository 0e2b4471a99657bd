"""Output of commands: JSON, tables that fit the terminal, colored states, times and counts in words."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from shopfloor.domain.text import format_json

# A wide column shrinks to this width before an optional column is left out, and only then further.
READABLE_WIDTH = 16
TEXT_WIDTH = 28
MIN_WIDTH = 6
GAP = "  "
LINE_CHARACTERS = 60

_MINUTE, _HOUR, _DAY = 60, 60 * 60, 24 * 60 * 60
_MAX_AGE = 30 * _DAY

_RESET = "\x1b[0m"
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_STATE_STYLES = {
    "red": ("failed", "error", "stopped", "stopping", "interrupted", "blocked", "alarm"),
    "yellow": ("silent", "paused", "pausing", "review", "assigned", "question", "answer", "permission", "stuck"),
    "green": ("working", "running", "completed", "done", "ok", "in progress", "installed"),
    "cyan": ("waiting", "decision"),
    "dim": ("idle", "retired", "cancelled", "revoked", "expired"),
}
STYLE_BY_STATE = {state: style for style, states in _STATE_STYLES.items() for state in states}
# Columns whose words are colored.
_STATE_COLUMNS = ("state", "outcome", "kind", "wants")


def print_result(value: Any, as_json: bool, text: str) -> None:
    """Print a value as one line of JSON, or as text for people."""
    # Flushed: otherwise a command with --follow would write to a pipe only after 8 KiB.
    print(format_json(value) if as_json else text, flush=True)


def is_terminal() -> bool:
    """Return whether the output is read by a person."""
    return sys.stdout.isatty()


def read_data(body: Any) -> Any:
    """Return a tool's response without the envelope of its toolset."""
    return body["data"] if isinstance(body, dict) and body.keys() >= {"success", "data"} else body


def format_words(value: Any, depth: int = 0) -> list[str]:
    """Format a tool's value as lines for people: one field per line, without empty fields."""
    indent = "  " * depth
    if isinstance(value, list):
        blocks = [format_words(each, depth + 1) for each in value]
        return [f"{indent}- {line.strip()}" if at == 0 else line for block in blocks for at, line in enumerate(block)]
    if not isinstance(value, dict):
        return [indent + line for line in to_printable_lines("-" if value is None else str(value)).split("\n")]
    fields = {name: each for name, each in value.items() if each not in (None, "", [], {})}
    width = max((len(name) for name, each in fields.items() if not isinstance(each, dict | list)), default=0)
    lines = []
    for name, each in fields.items():
        if isinstance(each, dict | list):
            lines += [f"{indent}{paint(name, 'dim')}", *format_words(each, depth + 1)]
        else:
            first, *rest = to_printable_lines(_format_plain(name, each)).split("\n")
            lines.append(f"{indent}{paint(name.ljust(width), 'dim')}  {first}")
            lines += [f"{indent}{'':{width}}  {line}" for line in rest]
    return lines or [f"{indent}-"]


def _format_plain(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) and (name.endswith("At") or name in ("timestamp", "deadline")):
        return format_age(value)
    return str(value)


def format_milliseconds(count: float) -> str:
    """Format a duration: 0.8 ms, 350 ms, 9.3 s."""
    if count >= 1000:
        return f"{count / 1000:.1f} s"
    return f"{count:.0f} ms" if count >= 10 else f"{count:.1f} ms"


def format_table(
    rows: list[dict[str, Any]],
    empty: str,
    *,
    optional: Iterable[str] = (),
    readable: int = READABLE_WIDTH,
    text: str | None = None,
) -> str:
    """Format rows in columns that fit the terminal; without rows, return the sentence for an empty table.

    On a narrow terminal, optional columns without a value are left out first, then cells are cut to `readable`, then
    further optional columns are left out, the last one first. The first column is an id that people copy, so it is
    never cut. The column `text` is cut after the others: it keeps TEXT_WIDTH as long as they are readable.
    """
    if not rows:
        return empty
    columns = {
        name: ["-" if row[name] is None else to_printable(str(row[name]).replace("\n", " ")) for row in rows]
        for name in rows[0]
    }
    widths = {name: max(map(measure, (name, *cells))) for name, cells in columns.items()}
    space = find_width()
    if space is not None and _sum_widths(widths) > space:
        empty_columns = {name for name in optional if set(columns.get(name, ())) == {"-"}}
        widths = {name: width for name, width in widths.items() if name not in empty_columns}
    widths = _fit_widths(widths, list(optional), space, {text: TEXT_WIDTH}, readable)
    lines = [GAP.join(_pad(name, width) for name, width in widths.items()).rstrip()]
    painted = [paint(lines[0], "dim")]
    for at in range(len(rows)):
        cells = []
        for name, width in widths.items():
            text = columns[name][at]
            style = STYLE_BY_STATE.get(text.lower()) if name in _STATE_COLUMNS else None
            cells.append(paint(_pad(text, width), style) if style else _pad(text, width))
        painted.append(GAP.join(cells).rstrip())
    return "\n".join(painted)


def _fit_widths(
    widths: dict[str, int], optional: list[str], space: int | None, floors: Mapping[str | None, int], readable: int
) -> dict[str, int]:
    """Return the columns to show, with their widths."""
    if space is None:
        return widths
    first = next(iter(widths))
    fitted = dict(widths)
    dropping = [name for name in optional if name in widths]
    while _sum_widths(fitted) > space:
        excess = {name: width - floors.get(name, readable) for name, width in fitted.items() if name != first}
        widest = max(excess, key=lambda name: excess[name], default=first)
        if excess.get(widest, 0) > 0:
            fitted[widest] -= 1
        elif dropping:
            widths = {name: width for name, width in widths.items() if name != dropping[-1]}
            dropping.pop()
            fitted = dict(widths)
        elif floors or readable > MIN_WIDTH:
            floors, readable = {}, MIN_WIDTH
        else:
            return fitted
    return fitted


def _sum_widths(widths: dict[str, int]) -> int:
    return sum(widths.values()) + len(GAP) * (len(widths) - 1)


def _pad(text: str, width: int) -> str:
    text = shorten(text, width)
    return text + " " * (width - measure(text))


def shorten(text: str, width: int) -> str:
    """Cut a text to a width, with an ellipsis at its end."""
    if measure(text) <= width:
        return text
    while text and measure(text) >= width:
        text = text[:-1]
    return text.rstrip() + "…"


def shorten_line(text: str) -> str:
    """Cut a line to the width of the terminal."""
    space = find_width()
    return text if space is None else shorten(text, space)


def wrap(text: str, *, indent: int) -> list[str]:
    """Return a text as indented lines that fit the terminal. No word is cut."""
    lead = " " * indent
    space = find_width()
    if space is None:
        return [lead + text]
    return textwrap.wrap(
        text, space, initial_indent=lead, subsequent_indent=lead + GAP, break_long_words=False, break_on_hyphens=False
    )


def format_first_line(text: str) -> str:
    """Return the first line, at most 60 characters of it, with a mark if there is more."""
    line, _, rest = text.partition("\n")
    if len(line) <= LINE_CHARACTERS:
        return f"{line} …" if rest.strip() else line
    return f"{line[: LINE_CHARACTERS - 1]}…"


def measure(text: str) -> int:
    """Return the width of a text on the terminal, in columns."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def find_width() -> int | None:
    """Return the width of the terminal, or None if the output is a file or a pipe, which has no limit."""
    if os.environ.get("COLUMNS", "").isdecimal() or sys.stdout.isatty():
        return shutil.get_terminal_size().columns
    return None


def paint(text: str, *styles: str) -> str:
    """Return the text in color if the output is a terminal and NO_COLOR is not set."""
    if not _has_colour() or not text:
        return text
    return f"\x1b[{';'.join(_STYLES[style] for style in styles)}m{text}{_RESET}"


def paint_state(state: str) -> str:
    """Return the word for a state in its color."""
    style = STYLE_BY_STATE.get(state.lower())
    return paint(state, style) if style else state


def _has_colour() -> bool:
    # https://no-color.org: any non-empty value switches color off. FORCE_COLOR is its counterpart, for CI logs.
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def format_age(moment: str | None, now: datetime | None = None) -> str:
    """Return the distance of a tool's timestamp from now, such as `3 min ago`; after 30 days, the date."""
    if moment is None:
        return "-"
    then = datetime.fromisoformat(moment)
    seconds = ((now or datetime.now(UTC)) - then).total_seconds()
    size = abs(seconds)
    if size < 1:
        return "now"
    if size >= _MAX_AGE:
        return then.astimezone().date().isoformat()
    return f"{format_duration(size)} ago" if seconds > 0 else f"in {format_duration(size)}"


def format_iterations(run: dict[str, Any]) -> str:
    """Return how many iterations a run has begun, and of how many: 4 of 50. The first one is number 0."""
    begun = run["iteration"] + 1
    return f"{begun} of {run['iterations']}" if run["iterations"] else str(begun)


def format_duration(seconds: float) -> str:
    """Return a duration in its largest unit, such as `40 s`, `3 min`, `2 h` or `5 d`."""
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def format_count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun in the right form, such as `1 file` or `2 files`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def format_bytes(number: int) -> str:
    """Return a size in its largest unit, such as `512 B` or `1.2 MB`."""
    size = float(number)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def to_printable(text: str) -> str:
    """Replace control characters, so that text from agents cannot control the terminal."""
    return "".join(char if char.isprintable() or char == "\t" else "�" for char in text)


def to_printable_lines(text: str) -> str:
    """Replace control characters, but keep line breaks."""
    return "\n".join(to_printable(line.removesuffix("\r")) for line in text.split("\n"))
