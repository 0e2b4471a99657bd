"""Charts, drawn here as SVG: no script, no style, nothing from outside. Colours are classes of the style sheet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from markupsafe import Markup, escape

from shopfloor.web.text import visible

_NODE_WIDTH, _NODE_HEIGHT, _GAP_X, _GAP_Y = 190, 44, 70, 14


def bars(values: Sequence[tuple[str, float, float]], *, label: str, height: int = 96, unit: str = "calls") -> Markup:
    """One bar for each (name, value, part that went wrong)."""
    top = max((value for _, value, _ in values), default=0) or 1
    width = 10 * max(len(values), 1)
    drawn = [_svg_open(width, height + 1, label, "chart bars", "none")]
    drawn.append(f'<line class="axis" x1="0" y1="{height}.5" x2="{width}" y2="{height}.5"/>')
    for at, (name, value, wrong) in enumerate(values):
        tall = round(value / top * (height - 4), 1)
        bad = round(wrong / top * (height - 4), 1)
        title = f"{visible(name)}: {value:g} {unit}" + (f", {wrong:g} failed" if wrong else "")
        drawn.append(f"<g><title>{escape(title)}</title>")
        drawn.append(f'<rect class="touch" x="{at * 10}" y="0" width="10" height="{height}"/>')
        if value:
            drawn.append(
                f'<rect class="bar" x="{at * 10 + 1}" y="{height - tall:g}" width="8" height="{tall:g}" rx="1"/>'
            )
        if wrong:
            drawn.append(
                f'<rect class="bad" x="{at * 10 + 1}" y="{height - bad:g}" width="8" height="{bad:g}" rx="1"/>'
            )
        drawn.append("</g>")
    drawn.append("</svg>")
    return Markup("".join(drawn))  # nosec B704: names are escaped above, the rest are numbers


def steps(values: Sequence[tuple[str, int]], *, label: str, unit: str) -> Markup:
    """A row for each (name, count), longest the most frequent."""
    top = max((count for _, count in values), default=0) or 1
    height = 22 * max(len(values), 1)
    drawn = [_svg_open(420, height, label, "chart steps")]
    for at, (name, count) in enumerate(values):
        wide = round(count / top * 240, 1)
        y = at * 22
        drawn.append(
            f"<g><title>{escape(visible(name))}: {count} {escape(unit)}</title>"
            f'<text class="tick" x="88" y="{y + 15}" text-anchor="end">{escape(visible(name))}</text>'
            f'<rect class="bar" x="96" y="{y + 4}" width="{max(wide, 1 if count else 0):g}" height="14" rx="2"/>'
            f'<text class="tick" x="{100 + wide:g}" y="{y + 15}">{count}</text></g>'
        )
    drawn.append("</svg>")
    return Markup("".join(drawn))  # nosec B704: names are escaped above, the rest are numbers


def quantiles(p50: float | None, p95: float | None, p99: float | None, top: float) -> Markup:
    """Three marks on one line: where half, most and nearly all calls were answered."""
    if p50 is None or p95 is None or p99 is None:
        return Markup("")
    p50_at, p95_at, p99_at = (_along(value, top) for value in (p50, p95, p99))
    label = f"p50 {p50:g} ms, p95 {p95:g} ms, p99 {p99:g} ms"
    return Markup(  # nosec B704: numbers only
        _svg_open(124, 14, label, "chart span") + f'<line class="axis" x1="2" y1="7.5" x2="122" y2="7.5"/>'
        f'<line class="reach" x1="{p50_at:.1f}" y1="7" x2="{p99_at:.1f}" y2="7"/>'
        f'<circle class="mark" cx="{p50_at:.1f}" cy="7" r="3.5"/>'
        f'<circle class="mark p95" cx="{p95_at:.1f}" cy="7" r="3"/>'
        f'<circle class="mark p99" cx="{p99_at:.1f}" cy="7" r="2.5"/></svg>'
    )


def _along(value: float, top: float) -> float:
    """Where a time lies between 0.1 ms and the longest one, each tenfold as far as the next."""
    return 4 + 116 * max(0.0, math.log10(max(value, 0.1) * 10)) / max(math.log10(max(top, 1) * 10), 1)


def graph(task: dict[str, Any], before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]) -> Markup:
    """What a task waits for on its left, what waits for it on its right; each a link."""
    rows = max(len(before), len(after), 1)
    height = rows * (_NODE_HEIGHT + _GAP_Y) + _GAP_Y
    columns = [column for column in (list(before), [task], list(after)) if column]
    width = len(columns) * _NODE_WIDTH + (len(columns) - 1) * _GAP_X + 4
    places: list[list[tuple[int, int]]] = []
    for at, column in enumerate(columns):
        x = 2 + at * (_NODE_WIDTH + _GAP_X)
        start = (height - len(column) * (_NODE_HEIGHT + _GAP_Y) + _GAP_Y) // 2
        places.append([(x, start + row * (_NODE_HEIGHT + _GAP_Y)) for row in range(len(column))])
    drawn = [_svg_open(width, height, f"What {task['id']} waits for, and what waits for it", "graph")]
    for left, right in pairwise(places):
        drawn += [_edge(from_, to) for from_ in left for to in right]
    for column, spots in zip(columns, places, strict=True):
        drawn += [_node(each, x, y, here=each is task) for each, (x, y) in zip(column, spots, strict=True)]
    drawn.append("</svg>")
    return Markup("".join(drawn))  # nosec B704: titles and links are escaped in _node


def _edge(from_: tuple[int, int], to: tuple[int, int]) -> str:
    x1, y1 = from_[0] + _NODE_WIDTH, from_[1] + _NODE_HEIGHT // 2
    x2, y2 = to[0], to[1] + _NODE_HEIGHT // 2
    middle = (x1 + x2) // 2
    arrow = f"M{x2 - 7} {y2 - 4}L{x2} {y2}L{x2 - 7} {y2 + 4}"
    return f'<path class="edge" d="M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}{arrow}"/>'


def _node(task: dict[str, Any], x: int, y: int, *, here: bool) -> str:
    title = visible(task["title"])
    short = title if len(title) <= 24 else f"{title[:23]}…"
    state = str(escape(task["state"].lower()))
    return (
        f'<a href="{escape(task["href"])}"><title>{escape(title)} ({state})</title>'
        f'<rect class="node {state}{" here" if here else ""}" x="{x}" y="{y}" width="{_NODE_WIDTH}"'
        f' height="{_NODE_HEIGHT}" rx="6"/>'
        f'<text class="id" x="{x + 10}" y="{y + 17}">{escape(visible(task["id"]))} · {state.replace("_", " ")}</text>'
        f'<text x="{x + 10}" y="{y + 34}">{escape(short)}</text></a>'
    )


def _svg_open(width: float, height: float, label: str, kind: str, fit: str = "xMinYMin meet") -> str:
    role = "group" if kind == "graph" else "img"  # a graph has links in it
    return (
        f'<svg class="{kind}" viewBox="0 0 {width:g} {height:g}" role="{role}" aria-label="{escape(label)}"'
        f' width="{width:g}" height="{height:g}" preserveAspectRatio="{fit}">'
    )
