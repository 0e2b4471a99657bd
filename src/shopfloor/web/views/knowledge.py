"""Search over everything, and the state of the index."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

from shopfloor.domain.tokenizer import extract_terms
from shopfloor.errors import IndexEmpty
from shopfloor.toolkit import Json
from shopfloor.web.text import reveal_hidden, strip_markdown
from shopfloor.web.views.view import Given, parse_number
from shopfloor.web.visitor import Visitor

KINDS = {
    "code": "Code",
    "task": "Tasks",
    "comment": "Comments",
    "mail": "Mail",
    "decision": "Decisions",
    "discovery": "Discoveries",
    "session": "Runs",
}
MAX_TITLE_CHARACTERS = 120
EXCERPT_LINES = 6
NOTHING_TO_SEARCH = "There is nothing to search yet: the project has no files, and agents have recorded nothing."


async def load_knowledge(visitor: Visitor, given: Given) -> Json:
    """Search everything for `q`; without it, load the state of the index and the discoveries."""
    query = given.get("q", "").strip()[:500]
    kind = given.get("kind", "") if given.get("kind") in KINDS else ""
    page = parse_number(given.get("page", "")) or 1
    problem = None
    if query:
        answer = await visitor.call(
            "search", {"query": query, "page": min(page, 50), **({"source": kind} if kind else {})}
        )
        if answer.error is None:
            return {
                "q": query,
                "kind": kind,
                "kinds": KINDS,
                "page": page,
                "found": answer.body,
                "hits": fold_duplicates([describe_hit(hit, query) for hit in answer.body["results"]]),
                "problem": None,
                "seen": None,
                "is_live": False,
            }
        problem = NOTHING_TO_SEARCH if isinstance(answer.error, IndexEmpty) else answer.body["error"]
    return {
        "q": query,
        "kind": kind,
        "kinds": KINDS,
        "page": 1,
        "found": None,
        "hits": [],
        "problem": problem,
        "seen": await visitor.ask("search_overview"),
    }


def describe_hit(hit: Json, query: str) -> Json:
    """Return a result with its title, its page, and an excerpt with the words of the query marked."""
    lines = [line for line in hit["content"].splitlines() if line.strip()]
    is_code = hit["path"] is not None
    if is_code:
        title = f"{hit['path']}:{hit['startLine']}"
        body = hit["content"].strip("\n").splitlines()[:EXCERPT_LINES]
    else:
        title = strip_markdown(lines[0]) if lines else hit["id"]
        body = [strip_markdown(line) for line in lines[1 : 1 + EXCERPT_LINES]]
    return {
        **hit,
        "title": mark_words(title[:MAX_TITLE_CHARACTERS], query),
        "excerpt": mark_words("\n".join(body), query),
        "href": find_href(hit),
        "isCode": is_code,
    }


def find_href(hit: Json) -> str | None:
    """Return the page of a result, or None if it has none."""
    source, id = hit["source"], hit["id"]
    number = re.search(r"\d+", id)
    match source:
        case "task" | "comment" if hit["session"] and number:
            return f"/boards/run/{hit['session']}/{number[0]}"
        case "task" | "comment" if id.startswith("task-") and number:
            return f"/tasks/{number[0]}"
        case "mail":
            return f"/inbox/{id}"
        case "session":
            return f"/runs/{hit['session']}"
        case "decision" if hit["reference"]:
            return f"/activity/{hit['reference']}"
        case "discovery":
            return f"/knowledge#{id}"
    return None


def fold_duplicates(hits: list[Json]) -> list[Json]:
    """Return each title and text once, with the number of identical results."""
    folded: dict[tuple[str, str, str], Json] = {}
    for hit in hits:
        key = (hit["source"], str(hit["title"]), str(hit["excerpt"]))
        if key in folded:
            folded[key]["same"] += 1
        else:
            folded[key] = {**hit, "same": 0}
    return list(folded.values())


def mark_words(text: str, query: str) -> Markup:
    """Escape a text and mark the words of the query in it, without stop words."""
    words = sorted((term for term in extract_terms(query) if len(term) > 1), key=len, reverse=True)
    if not words:
        return escape(reveal_hidden(text))
    pattern = re.compile("|".join(map(re.escape, words)), re.IGNORECASE)
    parts: list[Markup] = []
    at = 0
    shown = reveal_hidden(text)
    for match in pattern.finditer(shown):
        parts += [escape(shown[at : match.start()]), Markup("<mark>{}</mark>").format(match[0])]
        at = match.end()
    return Markup("").join([*parts, escape(shown[at:])])
