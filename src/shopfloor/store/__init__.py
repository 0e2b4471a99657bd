"""The floor's memory: one interface, two engines."""
