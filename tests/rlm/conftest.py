"""Fixtures for the tests of `rlm`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest


class _Finder:
    """A module finder that does not find some packages, as if they were not installed."""

    def __init__(self, finder: Any, hidden: frozenset[str]) -> None:
        self._finder = finder
        self._hidden = hidden

    def find_spec(self, name: str, *rest: Any) -> Any:
        return None if name.partition(".")[0] in self._hidden else self._finder.find_spec(name, *rest)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)


@pytest.fixture
def hide_packages(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make packages look as if they were not installed, for imports and for `find_spec`."""

    def hide(*names: str) -> None:
        monkeypatch.setattr(sys, "meta_path", [_Finder(finder, frozenset(names)) for finder in sys.meta_path])
        for name in [name for name in sys.modules if name.partition(".")[0] in names]:
            monkeypatch.delitem(sys.modules, name)

    return hide
