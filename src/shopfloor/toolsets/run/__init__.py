"""The run toolset: what the driver of a run reads and writes. It is not served on the network."""

from shopfloor.toolsets.run import driving, files, iterations, requests, reviews, transcripts
from shopfloor.toolsets.run.contract import toolset

__all__ = ["driving", "files", "iterations", "requests", "reviews", "toolset", "transcripts"]
