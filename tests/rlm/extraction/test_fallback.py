"""The fallback in a run: what the extraction is asked with, and what is kept when it gives nothing."""

from __future__ import annotations

import json
from typing import Any

from dspy.utils.exceptions import ContextWindowExceededError

import sandbox
from rlm.budgets import FallbackTrigger
from rlm.extraction.prompt import extraction_schema
from rlm.models.scripted import scripted_lm
from rlm.repl.config import RunConfig
from rlm.results import Extracted, Failed
from rlm.signatures import Signature


def driver(pool: sandbox.Pool, code: str, extraction: Any) -> RunConfig:
    main = scripted_lm([f"```python\n{code}\n```"])
    trigger = FallbackTrigger(max_iterations=1)
    return RunConfig(Signature.of("doc: str -> answer: int"), main, None, extraction, trigger=trigger, pool=pool)


async def test_a_value_that_was_refused_is_kept_where_the_extraction_gives_nothing(pool: sandbox.Pool) -> None:
    result = await driver(pool, "SUBMIT(answer='ten')", scripted_lm(["no idea"] * 3)).run({"doc": ""})
    assert isinstance(result, Failed)
    assert result.partial_outputs == {"answer": "ten"}


async def test_a_model_that_reads_less_is_asked_with_less(pool: sandbox.Pool) -> None:
    extraction = scripted_lm(['{"answer": 5}'])
    engine = extraction._engine_spec
    answer, refused = engine.complete, []

    def reads_little(request: Any) -> Any:
        size = len(request.messages[0].text)
        if size > 8_000:
            refused.append(size)
            raise ContextWindowExceededError(model="small")
        return answer(request)

    engine.complete = reads_little
    result = await driver(pool, "n = 5\nprint('x ' * 20_000)", extraction).run({"doc": ""})
    assert isinstance(result, Extracted)
    assert result.outputs.answer == 5
    assert len(refused) == 2


async def test_the_schema_is_sent_once(pool: sandbox.Pool) -> None:
    extraction = scripted_lm(['{"answer": "five"}', '[{"op": "replace", "path": "/answer", "value": 5}]'])
    made = driver(pool, "n = 5", extraction)
    result = await made.run({"doc": ""})
    assert isinstance(result, Extracted)
    schema = json.dumps(extraction_schema(made.signature), ensure_ascii=False)
    assert extraction._engine_spec.requests[1].messages[0].text.count(schema) == 1
