"""The command line `specdec`."""


def main() -> None:
    """Runs `specdec` on the arguments of this process."""
    import sys

    from specdec_labs.cli.app import app

    for stream in (sys.stdout, sys.stderr):
        # a console that cannot show a character gets "?" instead of a traceback
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    app()
