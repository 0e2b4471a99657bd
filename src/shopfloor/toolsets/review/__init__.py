"""The review toolset: how a reviewing agent gives its verdict."""

from shopfloor.toolsets.review import verdicts
from shopfloor.toolsets.review.contract import toolset

__all__ = ["toolset", "verdicts"]
