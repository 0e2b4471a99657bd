"""The index of the project and of its team's documents: its one owner, and the search over it."""
