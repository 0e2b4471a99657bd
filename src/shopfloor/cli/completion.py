"""shopfloor completion bash|zsh|fish"""

from __future__ import annotations

from typing import Annotated

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]

from shopfloor.cli.help import Command
from shopfloor.cli.lazy_group import COMPLETION_VARIABLE
from shopfloor.cli.options import AsJson, create_app
from shopfloor.cli.output import print_result
from shopfloor.errors import InvalidInput

PROGRAM = "shopfloor"
SHELLS = ("bash", "zsh", "fish")

app = create_app()


@app.command("completion", cls=Command)
def print_script(
    shell: Annotated[str, typer.Argument(help=f"Name of the shell: {', '.join(SHELLS)}.")],
    as_json: AsJson = False,
) -> None:
    """Print the script that completes commands and options in a shell.

    bash: add `eval "$(shopfloor completion bash)"` to ~/.bashrc. zsh: the same in ~/.zshrc, after compinit. fish: write
    the script to ~/.config/fish/completions/shopfloor.fish.
    """
    if shell not in SHELLS:
        raise InvalidInput(f"Unknown shell '{shell}'; expected one of {', '.join(SHELLS)}")
    script = get_completion_script(prog_name=PROGRAM, complete_var=COMPLETION_VARIABLE, shell=shell)  # nosec B604 # the name of a shell
    print_result({"shell": shell, "script": script}, as_json, script)
