"""The crew toolset: what the driver of a crew reads and writes. It is not served on the network."""

from shopfloor.toolsets.crew import agents, driving, merges
from shopfloor.toolsets.crew.contract import toolset

__all__ = ["agents", "driving", "merges", "toolset"]
