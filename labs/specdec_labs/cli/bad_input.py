"""What a user sees when something they gave does not work: a line or two and exit code 2, no traceback."""

from collections.abc import Callable
import functools
from typing import ParamSpec, TypeVar

import typer

P = ParamSpec("P")
R = TypeVar("R")

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it: 128 + SIGINT."""


def explained(command: Callable[P, R]) -> Callable[P, R]:
    """`command`, with the lab's complaints printed on standard error instead of raised."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except (ValueError, OSError) as error:
            typer.echo(f"specdec: {error}", err=True)
            raise typer.Exit(2) from error
        except KeyboardInterrupt as error:
            typer.echo("specdec: interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from error

    return run
