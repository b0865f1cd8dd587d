"""For the tests of the driver: a driver on scripted models, in the real sandbox."""

from __future__ import annotations

import pytest

from rlm.models.scripted import scripted_lm
from rlm.repl.config import RunConfig
from rlm.signatures import Signature


def block(code):
    return f"```python\n{code}\n```"


class Made:
    """A driver, the models behind it, and what it said."""

    def __init__(self, pool, signature, main, sub, extraction, options):
        self.main, self.sub, self.extraction = scripted_lm(main), scripted_lm(sub), scripted_lm(extraction)
        self.events = []
        self.driver = RunConfig(
            Signature.of(signature),
            self.main,
            self.sub,
            self.extraction,
            pool=pool,
            observe=self.events.append,
            **options,
        )

    async def run(self, **inputs):
        return await self.driver.run(inputs)

    def asked(self, model="main"):
        """The requests that a model got."""
        return getattr(self, model)._engine_spec.requests

    def last_observation(self):
        return self.asked()[-1].messages[-1].text


@pytest.fixture
def make(pool):
    def make_one(main, signature="doc: str -> answer: int", sub=None, extraction=(), **options):
        return Made(pool, signature, [m if "```" in m else block(m) for m in main] if isinstance(main, list) else main,
                    sub or {"*": "sub answer"}, list(extraction), options)  # fmt: skip

    return make_one
