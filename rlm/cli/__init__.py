"""The command line. One file a command; heavy modules are imported only where a command uses them."""

import rlm as _package

if "Predict" not in getattr(_package, "__all__", ()):
    raise ImportError(
        "another package has overwritten `rlm/__init__.py`; the package rlms does. Install it in an environment of its"
        " own: pip uninstall rlms; pip install --force-reinstall rlm-kernel"
    )

from .main import main, rlm

__all__ = ["main", "rlm"]
