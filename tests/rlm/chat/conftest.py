"""For the tests of sessions: a `Predict` with scripted models, whose sessions are in a folder of the test."""

from __future__ import annotations

import pytest

import rlm
from rlm.models.scripted import scripted_lm


def block(code: str) -> str:
    return f"```python\n{code}\n```"


class Asked:
    """A `Predict` with scripted replies, and what its main model was asked."""

    def __init__(self, pool, cells, signature="log: str, question: str -> answer: int", sub=None, **options):
        self.lm = scripted_lm([block(code) for code in cells] if isinstance(cells, list | tuple) else cells)
        self.sub = scripted_lm(sub or {"*": "sub answer"})
        extraction = scripted_lm(list(options.pop("extraction", ())))
        self.predict = rlm.Predict(
            signature, lm=self.lm, sub_lm=self.sub, extraction_lm=extraction, pool=pool, record=False, **options
        )

    def prompts(self):
        """The texts of the requests to the main model, system prompts left out."""
        return ["\n".join(message.text for message in one.messages) for one in self.lm._engine_spec.requests]


@pytest.fixture
def asked(pool, tmp_path, monkeypatch):
    monkeypatch.setenv("RLM_HOME", str(tmp_path))
    return lambda cells, *args, **options: Asked(pool, cells, *args, **options)
