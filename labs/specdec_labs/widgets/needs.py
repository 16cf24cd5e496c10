"""What a live view needs, checked when it is built and not before."""

import importlib


def require(*packages: str, what: str, instead: str) -> None:
    """ImportError naming the package that is missing, how to get it, and what works without it."""
    for package in packages:
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise ImportError(
                f"{what} needs {package}, which cannot be imported here ({error}): pip install {package} "
                f"in the environment of this kernel. {instead}.",
                name=package,
            ) from error
