"""The embedded model on both engines, loaded once a process: tests with the marker `weights` share one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlm.models import OutlinesLM
from rlm.models.local.embedded import embedded_gguf


@pytest.fixture(scope="session")
def gguf() -> Path:
    """The weights for llama.cpp: larger ones where `RLM_TEST_GGUF` names them."""
    return Path(os.environ.get("RLM_TEST_GGUF") or embedded_gguf())


@pytest.fixture(scope="session")
def mlx_lm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The embedded model on MLX."""
    lm = OutlinesLM(backend="mlx", max_tokens=24)
    yield lm
    lm.local.close()


@pytest.fixture(scope="session")
def llama_lm(gguf: Path) -> Iterator[Any]:
    """The same on llama.cpp's server, two requests at a time."""
    pytest.importorskip("xllamacpp")
    lm = OutlinesLM(gguf, backend="llamacpp", max_tokens=24, context=1024, parallel=2)
    yield lm
    lm.local.close()


@pytest.fixture(params=["mlx", "llamacpp"])
def lm(request: pytest.FixtureRequest) -> Any:
    """Each engine in turn."""
    return request.getfixturevalue({"mlx": "mlx_lm", "llamacpp": "llama_lm"}[request.param])
