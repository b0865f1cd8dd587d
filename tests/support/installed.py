"""Marks for tests of packages that may not be installed. Nothing is imported to find out."""

from __future__ import annotations

from importlib.util import find_spec

import pytest


def needs(*packages: str) -> pytest.MarkDecorator:
    """Skip where one of the packages is not installed."""
    missing = ", ".join(name for name in packages if find_spec(name) is None)
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {missing}")
