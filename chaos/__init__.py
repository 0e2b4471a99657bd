"""Chaos, soak and growth: what Shopfloor promises, held under faults. `make chaos` runs it, and writes the report."""
