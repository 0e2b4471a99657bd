"""Write the results of a run into docs/reliability.md, each between its own marks."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import astuple, fields
from pathlib import Path

from chaos.growth import Figures
from chaos.ledger import Findings
from chaos.soak import Soak, compute_median, select_quiet

DOCS = Path(__file__).resolve().parent.parent / "docs"
CHART = DOCS / "growth.svg"
Result = tuple[str, int, Findings]
"""A scenario, its rounds, and what was found."""
_COLORS = ("#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2", "#be185d", "#4d7c0f")


def replace_section(name: str, lines: Sequence[str], page: str = "reliability.md") -> None:
    """Replace the section of that name in a page of the documentation."""
    path = DOCS / page
    text = path.read_text("utf-8")
    pattern = re.compile(rf"(<!-- run: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    assert pattern.search(text), name
    body = "\n" + "\n".join(lines) + "\n\n"
    path.write_text(pattern.sub(lambda match: match[1] + body + match[2], text), "utf-8")


def replace_chaos_rows(results: Sequence[Result]) -> None:
    """Replace the rows of these scenarios in the table of faults, and leave the others as they are."""
    path = DOCS / "reliability.md"
    text = path.read_text("utf-8")
    for result in results:
        text, count = re.subn(rf"^\| {result[0]} \|.*$", _format_chaos_row(*result), text, flags=re.MULTILINE)
        assert count == 1, result[0]
    path.write_text(text, "utf-8")


def format_chaos(results: Sequence[Result]) -> list[str]:
    """Return a table: a row for each scenario."""
    names = [field.name.replace("_", " ") for field in fields(Findings)]
    lines = [f"| fault | rounds | {' | '.join(names)} |", f"|---|{'---|' * (len(names) + 1)}"]
    return lines + [_format_chaos_row(*result) for result in results]


def _format_chaos_row(name: str, rounds: int, found: Findings) -> str:
    return f"| {name} | {rounds} | {' | '.join(map(str, astuple(found)))} |"


def format_soak(soak: Soak) -> list[str]:
    """Return a table: the server at the end of each fifth of the time, with the median of p99 in it."""
    step = max(1, len(soak.samples) // 5)
    minutes = soak.samples[-1].seconds / 60
    lines = [
        f"{soak.agents} agents, {soak.calls:,} calls in {minutes:.0f} minutes, {soak.failed} failed.",
        f"Integrity: {soak.integrity}.",
        "",
        "| minute | memory (MB) | file handles | WAL (MB) | p99 (ms) | p99 in quiet samples (ms) | quiet samples |",
        "|---|---|---|---|---|---|---|",
    ]
    for end in range(step, len(soak.samples) + 1, step):
        part = soak.samples[end - step : end]
        last, quiet = part[-1], select_quiet(part)
        lines.append(
            f"| {last.seconds / 60:.1f} | {last.memory_bytes / 1e6:.0f} | {last.open_files} | {last.wal_bytes / 1e6:.1f}"
            f" | {compute_median(part, 'p99_ms'):.0f} | {compute_median(quiet, 'p99_ms') if quiet else math.nan:.0f}"
            f" | {len(quiet)} of {len(part)} |"
        )
    problems = soak.list_problems()
    return [*lines, "", f"Problems: {', '.join(problems)}." if problems else "No problem was found."]


def format_growth(figures: Figures) -> list[str]:
    """Return a table: milliseconds by number of rows."""
    sizes = sorted({size for row in figures.values() for size in row})
    lines = [f"| what | {' | '.join(f'{size:,}' for size in sizes)} | growth |", f"|---|{'---|' * (len(sizes) + 1)}"]
    lines += [
        f"| {name} | {' | '.join(f'{row[size]:.2f}' if size in row else '' for size in sizes)}"
        f" | {row[max(row)] / row[min(row)]:.1f} × |"
        for name, row in figures.items()
    ]
    return [*lines, "", "![Milliseconds by number of rows](growth.svg)"]


def draw_growth(figures: Figures) -> str:
    """Return the calls as an SVG: rows to the right and milliseconds upwards, both logarithmic."""
    calls = {name: row for name, row in figures.items() if not name.startswith("job:")}
    sizes = sorted({size for row in calls.values() for size in row})
    left, top, width, height = 60, 20, 460, 260

    def place(rows: int, milliseconds: float) -> str:
        span = max(1.0, math.log10(sizes[-1]) - math.log10(sizes[0]))
        x = left + (math.log10(rows) - math.log10(sizes[0])) / span * width
        y = top + height - (math.log10(max(milliseconds, 0.1)) + 1) / 4 * height
        return f"{x:.1f},{y:.1f}"

    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 330" font-family="sans-serif" font-size="12">',
        '<rect width="720" height="330" fill="white"/>',
    ]
    for power in range(-1, 4):
        y = top + height - (power + 1) / 4 * height
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{left + width}" y2="{y:.1f}" stroke="#e5e7eb"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{10**power:g} ms</text>')
    for size in sizes:
        x = place(size, 0.1).partition(",")[0]
        parts.append(f'<text x="{x}" y="{top + height + 20}" text-anchor="middle">{size:,} rows</text>')
    for number, (name, row) in enumerate(calls.items()):
        color, y = _COLORS[number % len(_COLORS)], top + 16 + number * 20
        points = " ".join(place(size, row[size]) for size in sizes if size in row)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts.append(f'<text x="{left + width + 24}" y="{y}" fill="{color}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
