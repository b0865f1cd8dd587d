"""Where the trace databases are."""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path

from ..paths import home as default_home


def traces_folder(home: Path | str | None = None) -> Path:
    """Return the directory of the databases."""
    return (default_home() if home is None else Path(home)).absolute() / "traces"


def databases(folder: Path) -> list[Path]:
    """List the databases, the newest first: names begin with the time of creation."""
    return sorted(folder.glob("*.db"), reverse=True)


def create_database(folder: Path) -> Path:
    """Create an empty file with a unique name that only its owner can read."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    path = folder / f"{stamp}-{os.getpid()}-{secrets.token_hex(4)}.db"
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    return path
