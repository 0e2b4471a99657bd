"""Charts as SVG, drawn on the server: no script, no inline style. Colors are classes in charts.css."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise, product
from typing import Any

from markupsafe import Markup, escape

from shopfloor.web.text import reveal_hidden

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_BAR_STEP = 10
_ROW_HEIGHT = 22
_NODE_WIDTH, _NODE_HEIGHT, _GAP_X, _GAP_Y = 212, 44, 60, 14
_MAX_TITLE_CHARACTERS = 29
_DAYS_WIDTH, _AXIS_WIDTH = 560, 36

Point = tuple[int, int]


def draw_bars(
    values: Sequence[tuple[str, float, float]], *, label: str, height: int = 96, noun: str = "call"
) -> Markup:
    """Draw one bar for each (name, value, part that failed), with the ends of the axis and the highest value below."""
    highest = max((value for _, value, _ in values), default=0)
    top = highest or 1
    most = f"at most {_count(highest, noun)} per minute" if highest else f"no {noun}s"
    width = _BAR_STEP * max(len(values), 1)
    # The picture is stretched to the width of the page. Text would be stretched with it, so it stays outside.
    svg = ['<div class="minutes">', _open_svg(width, height + 1, label, "chart bars", "none")]
    svg.append(f'<line class="axis" x1="0" y1="{height}.5" x2="{width}" y2="{height}.5"/>')
    for index, (name, value, failed) in enumerate(values):
        x = index * _BAR_STEP
        title = f"{reveal_hidden(name)}: {_count(value, noun)}" + (f", {failed:g} failed" if failed else "")
        svg.append(f"<g><title>{escape(title)}</title>")
        svg.append(f'<rect class="hit-area" x="{x}" y="0" width="{_BAR_STEP}" height="{height}"/>')
        for kind, amount in (("bar", value), ("bad", failed)):
            if amount:
                size = round(amount / top * (height - 4), 1)
                svg.append(
                    f'<rect class="{kind}" x="{x + 1}" y="{height - size:g}" width="8" height="{size:g}" rx="1"/>'
                )
        svg.append("</g>")
    svg.append(
        f'</svg><p class="axis-labels"><span>1 h ago</span><span>{escape(most)}</span><span>now</span></p></div>'
    )
    return Markup("".join(svg))  # nosec B704 # names are escaped above, the rest are numbers


def draw_days(
    values: Sequence[tuple[str, float, str]],
    *,
    label: str,
    height: int = 120,
    width: int = 560,
    part: Sequence[float] = (),
) -> Markup:
    """Draw one bar for each (day, value, tooltip), with an axis. `part` is the share that is marked."""
    top = _round_up(max((value for _, value, _ in values), default=0))
    step = width / max(len(values), 1)
    svg = [_open_svg(width + _AXIS_WIDTH, height + 24, label, "chart days")]
    for share in (0, 0.5, 1):
        y = 8 + height * (1 - share)
        svg.append(f'<line class="axis" x1="{_AXIS_WIDTH}" y1="{y:g}" x2="{width + _AXIS_WIDTH}" y2="{y:g}"/>')
        svg.append(
            f'<text class="tick" x="{_AXIS_WIDTH - 6}" y="{y + 4:g}" text-anchor="end">{_shorten_number(top * share)}</text>'
        )
    every = max(1, math.ceil(len(values) * 80 / width))
    for index, (day, value, text) in enumerate(values):
        x = _AXIS_WIDTH + index * step
        svg.append(f"<g><title>{_name_day(day)}: {escape(text)}</title>")
        svg.append(f'<rect class="hit-area" x="{x:g}" y="8" width="{step:g}" height="{height}"/>')
        marked = part[index] if part else 0
        for kind, amount in (("bar", value), ("bad", marked)):
            if amount:
                size = round(amount / top * height, 1)
                svg.append(
                    f'<rect class="{kind}" x="{x + step * 0.15:.1f}" y="{8 + height - size:g}" width="{step * 0.7:.1f}"'
                    f' height="{size:g}" rx="2"/>'
                )
        if index % every == 0:
            svg.append(
                f'<text class="tick" x="{x + step / 2:.1f}" y="{height + 22}" text-anchor="middle">{_name_day(day)}</text>'
            )
        svg.append("</g>")
    svg.append("</svg>")
    return Markup("".join(svg))  # nosec B704 # texts are escaped above, the rest are numbers


def draw_burn_down(points: Sequence[dict[str, Any]], *, label: str, height: int = 96) -> Markup:
    """Draw the number of open tasks of an epic over time as an area, and above it the number of all its tasks as a
    line."""
    top = _round_up(max((point["tasks"] for point in points), default=0))
    step = _DAYS_WIDTH / max(len(points) - 1, 1)
    # Points within one day are labeled by time, others by date.
    same_day = len({point["at"][:10] for point in points}) == 1
    values = [
        (_name_moment(point["at"], same_day), point["tasks"] - point["completed"], point["tasks"]) for point in points
    ]

    def trace(column: int) -> str:
        # Draw a single point as a level line, or it would not be visible.
        shown = values if len(values) > 1 else [*values, *values]
        return "M" + "L".join(
            f"{_AXIS_WIDTH + index * step:.1f} {8 + height * (1 - int(value[column]) / top):.1f}"
            for index, value in enumerate(shown)
        )

    right, bottom = _AXIS_WIDTH + _DAYS_WIDTH, 8 + height
    svg = [_open_svg(right + 4, height + 26, label, "chart progress")]
    for share in (0, 0.5, 1):
        y = 8 + height * (1 - share)
        svg.append(f'<line class="axis" x1="{_AXIS_WIDTH}" y1="{y:g}" x2="{right}" y2="{y:g}"/>')
        svg.append(f'<text class="tick" x="{_AXIS_WIDTH - 6}" y="{y + 4:g}" text-anchor="end">{top * share:g}</text>')
    svg.append(f'<path class="area" d="{trace(1)}V{bottom}H{_AXIS_WIDTH}Z"/>')
    svg.append(f'<path class="line" d="{trace(1)}"/><path class="line scope" d="{trace(2)}"/>')
    for index, (moment, open, tasks) in enumerate(values):
        x = _AXIS_WIDTH + (index - 0.5) * step
        svg.append(
            f'<g><title>{escape(f"{moment}: {open} of {tasks} tasks open")}</title><rect class="hit-area"'
            f' x="{max(x, _AXIS_WIDTH):.1f}" y="8" width="{step:.1f}" height="{height}"/></g>'
        )
    for index, anchor in ((0, "start"), (-1, "end")):
        if values and (index == 0 or len(values) > 1):
            x = _AXIS_WIDTH if index == 0 else right
            text = escape(values[index][0])
            svg.append(f'<text class="tick" x="{x}" y="{height + 24}" text-anchor="{anchor}">{text}</text>')
    svg.append("</svg>")
    return Markup("".join(svg))  # nosec B704 # moments are escaped above, the rest are numbers


def _name_moment(at: str, same_day: bool) -> str:
    """Return `13:05` or `Jan 31 13:05` for a time, and `Jan 31` for the beginning of a day."""
    if same_day:
        return at[11:16]
    return _name_day(at[:10]) if at[11:16] == "00:00" else f"{_name_day(at[:10])} {at[11:16]}"


def _name_day(day: str) -> str:
    """Return `Jan 31` for `2026-01-31`, in English regardless of the server's locale."""
    _, month, number = day.split("-")
    return f"{_MONTHS[int(month) - 1]} {int(number)}"


def _shorten_number(value: float) -> str:
    """Return `500k` for 500000, for an axis."""
    for size, unit in ((1_000_000, "M"), (1000, "k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def _round_up(value: float) -> float:
    """Return a round number that is at least the value, for the end of an axis."""
    if value <= 2:
        return 2
    size = 10.0 ** math.floor(math.log10(value))
    return next(size * step for step in (1, 2, 4, 6, 8, 10) if size * step >= value)


def _count(value: float, noun: str) -> str:
    """Return `1 call` or `2 calls`."""
    return f"{value:.0f} {noun}{'' if value == 1 else 's'}"


def draw_histogram(values: Sequence[tuple[str, int]], *, label: str, noun: str) -> Markup:
    """Draw one row for each (name, count)."""
    top = max((count for _, count in values), default=0) or 1
    svg = [_open_svg(420, _ROW_HEIGHT * max(len(values), 1), label, "chart")]
    for index, (name, count) in enumerate(values):
        width = round(count / top * 240, 1)
        y = index * _ROW_HEIGHT
        svg.append(
            f"<g><title>{escape(reveal_hidden(name))}: {escape(_count(count, noun))}</title>"
            f'<text class="tick" x="88" y="{y + 15}" text-anchor="end">{escape(reveal_hidden(name))}</text>'
            f'<rect class="bar" x="96" y="{y + 4}" width="{max(width, 1 if count else 0):g}" height="14" rx="2"/>'
            f'<text class="tick" x="{100 + width:g}" y="{y + 15}">{count}</text></g>'
        )
    svg.append("</svg>")
    return Markup("".join(svg))  # nosec B704 # names are escaped above, the rest are numbers


def draw_quantiles(p50: float | None, p95: float | None, p99: float | None, top: float) -> Markup:
    """Draw three quantiles of a duration in milliseconds as marks on one line that ends at `top`."""
    if p50 is None or p95 is None or p99 is None:
        return Markup("")
    # The axis is logarithmic, from 0.1 ms to `top`.
    span = max(math.log10(max(top, 1) * 10), 1)
    x50, x95, x99 = (4 + 116 * max(0.0, math.log10(max(each, 0.1) * 10)) / span for each in (p50, p95, p99))
    label = f"p50 {p50:g} ms, p95 {p95:g} ms, p99 {p99:g} ms"
    return Markup(  # nosec B704 # numbers only
        _open_svg(124, 14, label, "chart") + f'<line class="axis" x1="2" y1="7.5" x2="122" y2="7.5"/>'
        f'<line class="range" x1="{x50:.1f}" y1="7" x2="{x99:.1f}" y2="7"/>'
        f'<circle class="mark" cx="{x50:.1f}" cy="7" r="3.5"/>'
        f'<circle class="mark p95" cx="{x95:.1f}" cy="7" r="3"/>'
        f'<circle class="mark p99" cx="{x99:.1f}" cy="7" r="2.5"/></svg>'
    )


def draw_dependencies(
    task: dict[str, Any], blockers: Sequence[dict[str, Any]], dependents: Sequence[dict[str, Any]]
) -> Markup:
    """Draw a task's blockers on its left and the tasks that wait for it on its right; each node is a link."""
    columns = [column for column in (list(blockers), [task], list(dependents)) if column]
    height = max(map(len, columns)) * (_NODE_HEIGHT + _GAP_Y) + _GAP_Y
    width = len(columns) * _NODE_WIDTH + (len(columns) - 1) * _GAP_X + 4
    positions: list[list[Point]] = []
    for index, column in enumerate(columns):
        # Each column is vertically centered in the graph.
        top = (height - len(column) * (_NODE_HEIGHT + _GAP_Y) + _GAP_Y) // 2
        x = 2 + index * (_NODE_WIDTH + _GAP_X)
        positions.append([(x, top + row * (_NODE_HEIGHT + _GAP_Y)) for row in range(len(column))])
    svg = [_open_svg(width, height, f"What {task['id']} depends on, and what depends on it", "graph")]
    for left, right in pairwise(positions):
        for (x1, y1), (x2, y2) in product(left, right):
            start, end = (x1 + _NODE_WIDTH, y1 + _NODE_HEIGHT // 2), (x2, y2 + _NODE_HEIGHT // 2)
            middle = (start[0] + end[0]) // 2
            curve = f"M{start[0]} {start[1]}C{middle} {start[1]} {middle} {end[1]} {end[0]} {end[1]}"
            arrow = f"M{end[0] - 7} {end[1] - 4}L{end[0]} {end[1]}L{end[0] - 7} {end[1] + 4}"
            svg.append(f'<path class="edge" d="{curve}{arrow}"/>')
    for column, points in zip(columns, positions, strict=True):
        svg += [_draw_node(each, x, y, current=each is task) for each, (x, y) in zip(column, points, strict=True)]
    svg.append("</svg>")
    return Markup("".join(svg))  # nosec B704 # titles and links are escaped in _draw_node


def _draw_node(task: dict[str, Any], x: int, y: int, *, current: bool) -> str:
    title = reveal_hidden(task["title"])
    short = title if len(title) <= _MAX_TITLE_CHARACTERS else f"{title[: _MAX_TITLE_CHARACTERS - 1]}…"
    state = str(escape(task["state"].lower()))
    name = escape(reveal_hidden(task["id"]))
    return (
        f'<a href="{escape(task["href"])}"><title>{escape(title)} ({state})</title>'
        f'<rect class="node {state}{" current" if current else ""}" x="{x}" y="{y}" width="{_NODE_WIDTH}"'
        f' height="{_NODE_HEIGHT}" rx="6"/>'
        f'<text class="id" x="{x + 10}" y="{y + 17}">{name} · {state.replace("_", " ")}</text>'
        f'<text x="{x + 10}" y="{y + 34}">{escape(short)}</text></a>'
    )


def _open_svg(width: float, height: float, label: str, kind: str, fit: str = "xMinYMin meet") -> str:
    # Screen readers skip links inside an image.
    role = "group" if kind == "graph" else "img"
    return (
        f'<svg class="{kind}" viewBox="0 0 {width:g} {height:g}" role="{role}" aria-label="{escape(label)}"'
        f' width="{width:g}" height="{height:g}" preserveAspectRatio="{fit}">'
    )
