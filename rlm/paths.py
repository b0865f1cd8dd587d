"""Where rlm keeps what outlives a run: converted models, the list of models."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def home() -> Path:
    """The folder for rlm's own files: `RLM_HOME`, or what the platform has for data. It may not be there yet."""
    own = os.environ.get("RLM_HOME")
    if own:
        return Path(own).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "rlm"
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "rlm"
