"""The demo: a server with a scripted team of agents. `shopfloor demo` and `python -m shopfloor_demo` run it."""
