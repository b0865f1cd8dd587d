from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from rlm import settings
from rlm.adapters import structured_output
from rlm.models.direct.connection import connections
from tests.support.adapter_models import ReplyingServer


@pytest.fixture(autouse=True)
def _no_price_list_from_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "true")


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    structured_output.memory.forget()
    settings.reset()
    yield
    structured_output.memory.forget()
    settings.reset()


@pytest.fixture
def serve() -> Iterator[Any]:
    with contextlib.ExitStack() as servers:
        yield lambda reply: servers.enter_context(ReplyingServer(reply))
    connections.close()
