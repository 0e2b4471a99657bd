"""shopfloor demo"""

from __future__ import annotations

import os
import sys

import typer

from shopfloor.cli.options import create_app

app = create_app()


@app.command(
    "demo",
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False},
)
def start_demo(context: typer.Context) -> None:
    """Start a server with a scripted team of agents, and print a link to its pages.

    `shopfloor demo --help` lists the options. No model is needed.
    """
    # -P leaves the current folder out of sys.path: a queue.py of the project would replace the standard library's. The
    # demo is an example that uses only the public API; it runs as its own program.
    os.execv(sys.executable, [sys.executable, "-P", "-m", "shopfloor_demo", *context.args])  # nosec B606
