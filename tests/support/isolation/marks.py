"""When a test of a layer can be run: on Linux, where the probe has seen the layer work."""

from __future__ import annotations

import os
import sys

import pytest

from sandbox.isolation.probe import probe

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
as_anyone = pytest.mark.parametrize(
    "ordinary", [pytest.param(False, id="as-we-are"), pytest.param(True, id="as-an-ordinary-user", marks=root)]
)


def works(*layers: str) -> pytest.MarkDecorator:
    """Skip where one of the layers does not work."""
    missing = [layer for layer in layers if sys.platform != "linux" or not probe().works(layer)]
    return pytest.mark.skipif(bool(missing), reason=f"does not work here: {', '.join(missing)}")
