"""Files that are written whole or not at all."""

from pathlib import Path


def check_destination(path: str | Path) -> Path:
    """Where a file named `path` will really be written: links are followed, and only a plain file is replaced.

    Raises:
        ValueError: a folder, a device or a pipe stands there, or its folder does not exist.
    """
    try:
        real = Path(path).resolve()
        if real.exists() and not real.is_file():
            raise ValueError(f"cannot write {str(path)!r}: it is not a plain file; name another")
        if not real.parent.is_dir():
            raise ValueError(f"cannot write {str(path)!r}: its folder does not exist; make it first")
    except OSError as error:
        raise ValueError(f"cannot write {str(path)!r}: {error.strerror}; name another file") from error
    return real


def write_whole(path: str | Path, text: str) -> None:
    """Writes beside `path` first and then renames it: a stop leaves the old file or the new one.

    Raises:
        ValueError: as `check_destination`.
        OSError: the disk is full or the like; the old file is untouched.
    """
    write_whole_bytes(path, text.encode("utf-8"))


def write_whole_bytes(path: str | Path, content: bytes) -> None:
    """`write_whole` of what is no text."""
    real = check_destination(path)
    partial = real.with_name(real.name + ".part")
    try:
        partial.write_bytes(content)
        partial.replace(real)
    finally:
        partial.unlink(missing_ok=True)
