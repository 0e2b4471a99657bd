"""Measure the cost of calls beside baselines. `make bench` runs it; docs/bench.md explains it."""
