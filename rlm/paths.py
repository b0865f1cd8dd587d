"""The folder for rlm's own files: traces, ledgers, converted models, the list of models."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """Return `RLM_HOME`, or rlm's folder in the platform's place for user data. It need not exist yet."""
    own = os.environ.get("RLM_HOME")
    if own:
        return Path(own).expanduser()
    import platformdirs

    return platformdirs.user_data_path("rlm", appauthor=False)
