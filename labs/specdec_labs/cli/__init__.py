"""The command line `specdec`."""


def main() -> None:
    """Runs `specdec` on the arguments of this process."""
    import io
    import sys

    from specdec_labs.cli.app import app

    for stream in (sys.stdout, sys.stderr):
        # a console that cannot show a character gets "?" instead of a traceback
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    app()
