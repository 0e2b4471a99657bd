"""The dependency graph of a board as SVG: blockers on the left, tasks that wait for them on the right, each node a
link."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup, escape

from shopfloor.web.text import reveal_hidden

NODE_WIDTH, NODE_HEIGHT = 184, 46
GAP_X, GAP_Y = 40, 14
# Where an edge passes a layer between its ends, it gets its own narrow slot, so that it crosses no node.
SLOT_HEIGHT = 10
MARGIN = 4
MAX_TITLE_CHARACTERS = 25
SWEEPS = 6
# Tasks without dependencies are listed below the graph, in rows as wide as the graph, with at least this many per row.
MIN_COLUMNS = 4

Key = tuple[int, int]
"""A node: the number of its task and 0; or the number of an edge and a layer that it passes."""


@dataclass
class _Layout:
    """Nodes and slots by layer, in order, with their positions."""

    layers: list[list[Key]]
    edges: list[list[Key]]
    tops: dict[Key, float] = field(default_factory=dict)

    def height_of(self, key: Key) -> int:
        return SLOT_HEIGHT if key[1] else NODE_HEIGHT


def draw_board_graph(tasks: Sequence[dict[str, Any]], dependencies: Iterable[dict[str, int]], label: str) -> Markup:
    """Draw the tasks of a board and their blockers. Tasks without dependencies are listed below."""
    pairs = [(each["blocker"], each["task"]) for each in dependencies]
    linked = {number for pair in pairs for number in pair}
    layout = _lay_out([task["number"] for task in tasks if task["number"] in linked], pairs)
    by_number = {task["number"]: task for task in tasks}
    places = {
        key[0]: (MARGIN + layer * (NODE_WIDTH + GAP_X), MARGIN + layout.tops[key])
        for layer, keys in enumerate(layout.layers)
        for key in keys
        if key[1] == 0
    }
    bottom = max((y + NODE_HEIGHT + GAP_Y for _, y in places.values()), default=MARGIN)
    alone = [task["number"] for task in tasks if task["number"] not in linked]
    columns = max(len(layout.layers), MIN_COLUMNS)
    for index, number in enumerate(alone):
        row, column = divmod(index, columns)
        top = bottom + (GAP_Y if places else 0) + row * (NODE_HEIGHT + GAP_Y)
        places[number] = (MARGIN + column * (NODE_WIDTH + GAP_X // 4), top)
    width = max((x + NODE_WIDTH for x, _ in places.values()), default=0) + MARGIN
    height = max((y + NODE_HEIGHT for _, y in places.values()), default=0) + MARGIN
    svg = [
        (
            f'<svg class="graph board-graph" viewBox="0 0 {width:g} {height:g}" role="group" aria-label="{escape(label)}"'
            f' width="{width:g}" height="{height:g}">'
        )
    ]
    svg += [_draw_edge(layout, path, by_number) for path in layout.edges]
    svg += [_draw_node(by_number[number], x, y) for number, (x, y) in places.items()]
    svg.append("</svg>")
    return Markup("".join(svg))  # nosec B704 # titles and links are escaped in _draw_node, the rest are numbers


def _lay_out(numbers: Sequence[int], pairs: Sequence[tuple[int, int]]) -> _Layout:
    """Place each task to the right of all its blockers, and order the layers to minimize crossing edges."""
    layer_of = _assign_layers(numbers, pairs)
    layers: list[list[Key]] = [[] for _ in range(max(layer_of.values(), default=-1) + 1)]
    for number in numbers:
        layers[layer_of[number]].append((number, 0))
    edges = []
    for index, (blocker, task) in enumerate(pairs, 1):
        slots = [(index, layer) for layer in range(layer_of[blocker] + 1, layer_of[task])]
        for slot in slots:
            layers[slot[1]].append(slot)
        edges.append([(blocker, 0), *slots, (task, 0)])
    layout = _Layout(layers, edges)
    _order_layers(layout)
    _place_layers(layout)
    return layout


def _assign_layers(numbers: Sequence[int], pairs: Sequence[tuple[int, int]]) -> dict[int, int]:
    blockers: dict[int, list[int]] = defaultdict(list)
    for blocker, task in pairs:
        blockers[task].append(blocker)
    layer_of: dict[int, int] = {}
    # The store has no cycles, so each round settles at least one task. A long chain of tasks takes many rounds, not a
    # deep recursion.
    waiting = list(numbers)
    while waiting:
        settled = [number for number in waiting if all(blocker in layer_of for blocker in blockers[number])]
        for number in settled or waiting:
            layer_of[number] = 1 + max((layer_of.get(blocker, -1) for blocker in blockers[number]), default=-1)
        waiting = [number for number in waiting if number not in layer_of]
    return layer_of


def _list_neighbours(layout: _Layout) -> tuple[dict[Key, list[Key]], dict[Key, list[Key]]]:
    before: dict[Key, list[Key]] = defaultdict(list)
    after: dict[Key, list[Key]] = defaultdict(list)
    for path in layout.edges:
        for left, right in itertools.pairwise(path):
            before[right].append(left)
            after[left].append(right)
    return before, after


def _order_layers(layout: _Layout) -> None:
    """Sort each layer by the mean position of its neighbors, forward and back, a few times."""
    before, after = _list_neighbours(layout)
    for sweep in range(SWEEPS):
        forward = sweep % 2 == 0
        neighbours = before if forward else after
        for keys in layout.layers if forward else reversed(layout.layers):
            position = {key: index for layer in layout.layers for index, key in enumerate(layer)}

            def mean(key: Key, position: dict[Key, int] = position) -> float:
                near = [position[each] for each in neighbours[key]]  # noqa: B023 - used within this round only
                return sum(near) / len(near) if near else position[key]

            keys.sort(key=mean)


def _place_layers(layout: _Layout) -> None:
    """Give each node a height near that of its blockers, without overlaps."""
    before, _ = _list_neighbours(layout)
    for keys in layout.layers:
        wanted = []
        for key in keys:
            near = [layout.tops[each] + layout.height_of(each) / 2 for each in before[key]]
            wanted.append(sum(near) / len(near) - layout.height_of(key) / 2 if near else None)
        at = 0.0
        tops = []
        for key, top in zip(keys, wanted, strict=True):
            at = at if top is None else max(at, top)
            tops.append(at)
            at += layout.height_of(key) + GAP_Y
        # Keeping the order pushes nodes down, so the layer as a whole may be too low: shift it up by the mean
        # difference.
        offsets = [top - want for top, want in zip(tops, wanted, strict=True) if want is not None]
        shift = sum(offsets) / len(offsets) if offsets else 0.0
        layout.tops |= {key: round(top - shift, 1) for key, top in zip(keys, tops, strict=True)}
    lowest = min(layout.tops.values(), default=0.0)
    layout.tops = {key: top - lowest for key, top in layout.tops.items()}


def _draw_edge(layout: _Layout, path: Sequence[Key], tasks: dict[int, dict[str, Any]]) -> str:
    layer_of = {key: layer for layer, keys in enumerate(layout.layers) for key in keys}
    points = []
    for key in path:
        x = MARGIN + layer_of[key] * (NODE_WIDTH + GAP_X)
        y = MARGIN + layout.tops[key] + layout.height_of(key) / 2
        points.append((x, y))
    curve = f"M{points[0][0] + NODE_WIDTH} {points[0][1]:g}"
    x1, y1 = points[0][0] + NODE_WIDTH, points[0][1]
    for x, y in points[1:]:
        middle = (x1 + x) / 2
        curve += f"C{middle:g} {y1:g} {middle:g} {y:g} {x:g} {y:g}"
        # Where an edge passes a layer, it runs level below the layer's nodes.
        if (x, y) != points[-1]:
            curve += f"H{x + NODE_WIDTH}"
        x1, y1 = x + NODE_WIDTH, y
    x, y = points[-1]
    arrow = f"M{x - 6} {y - 3.5:g}L{x} {y:g}L{x - 6} {y + 3.5:g}"
    done = " done" if tasks[path[0][0]]["state"] == "COMPLETED" else ""
    return f'<path class="edge{done}" d="{curve}{arrow}"/>'


def _draw_node(task: dict[str, Any], x: float, y: float) -> str:
    title = reveal_hidden(task["title"])
    short = title if len(title) <= MAX_TITLE_CHARACTERS else f"{title[: MAX_TITLE_CHARACTERS - 1]}…"
    state = str(escape(task["state"].lower().replace("_", "-")))
    assignee = f" · {escape(reveal_hidden(task['assignee']))}" if task["assignee"] else ""
    return (
        f'<a href="{escape(task["href"])}"><title>{escape(title)} ({state.replace("-", " ")})</title>'
        f'<rect class="node {state}" x="{x:g}" y="{y:g}" width="{NODE_WIDTH}" height="{NODE_HEIGHT}" rx="6"/>'
        f'<circle class="dot {state}" cx="{x + 14:g}" cy="{y + 15:g}" r="4"/>'
        f'<text class="id" x="{x + 24:g}" y="{y + 19:g}">{escape(reveal_hidden(task["id"]))}{assignee}</text>'
        f'<text x="{x + 10:g}" y="{y + 36:g}">{escape(short)}</text></a>'
    )
