"""What a call costs, beside what it could cost at best. `make bench` runs it; docs/bench.md explains it."""
