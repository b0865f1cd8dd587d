"""For the tests of plans: loops on scripted models, in the real sandbox, with logs in a folder of the test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sandbox
from tests.support.plan_loops import Loop


@pytest.fixture
def make_loop(pool: sandbox.Pool, tmp_path: Path) -> Callable[..., Loop]:
    def make(main: Any, **options: Any) -> Loop:
        return Loop(pool, tmp_path / "plans", main, options)

    return make
