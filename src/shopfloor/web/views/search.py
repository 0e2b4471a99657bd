"""Search by name: the page, and the response for the command palette."""

from __future__ import annotations

from shopfloor.toolkit import Json
from shopfloor.web.views.view import Given, thing_path
from shopfloor.web.visitor import Visitor

MAX_QUERY_CHARACTERS = 200
# The icon of each kind of thing.
SYMBOLS = {
    "task": "tasks",
    "epic": "epic",
    "agent": "agents",
    "run": "runs",
    "crew": "runs",
    "mail": "mail",
    "decision": "decision",
}


async def find_things(visitor: Visitor, query: str) -> list[Json]:
    """Find things by name, each with the path of its page."""
    query = query.strip()[:MAX_QUERY_CHARACTERS]
    if not query:
        return []
    things: list[Json] = (await visitor.ask("find", query=query))["things"]
    return [{**thing, "href": thing_path(thing["kind"], thing["id"])} for thing in things]


async def load_search(visitor: Visitor, given: Given) -> Json:
    """Load the things that match `q`."""
    query = given.get("q", "")
    return {"q": query, "things": await find_things(visitor, query), "symbols": SYMBOLS}
