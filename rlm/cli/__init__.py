"""The command line. One file a command; heavy modules are imported only where a command uses them."""

from .main import main, rlm

__all__ = ["main", "rlm"]
