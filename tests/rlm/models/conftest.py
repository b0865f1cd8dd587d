"""For the tests of models: a chat server on the loopback, and models that ask it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rlm.models.direct.connection import connections
from tests.support.chat_server import ChatServer


@pytest.fixture(autouse=True)
def _no_price_list_from_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "true")


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    with ChatServer() as server:
        yield server
    connections.close()


@pytest.fixture
def lm_for() -> Any:
    """Makes models that are asked directly, or as dspy does it: a callback that does nothing is what decides."""
    import dspy
    from dspy.utils.callback import BaseCallback

    def make(url: str, way: str = "direct", model: str = "openai/local", **settings: Any) -> Any:
        callbacks = {"direct": [], "dspy": [BaseCallback()]}[way]
        settings = {"api_key": "sk-very-secret-key", "cache": False, "num_retries": 2} | settings
        if settings["api_key"] is None:
            del settings["api_key"]  # the environment has one
        return dspy.LM(model, api_base=url, callbacks=callbacks, **settings)

    return make
