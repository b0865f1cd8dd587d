"""The main model's next step and the extraction, asked through a dspy adapter.

The fields of a step are a thought and code. Earlier steps are dspy's `History`, so that every adapter writes them in
its own way, and the prompt is only appended to.
"""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Optional

from ..extraction.prompt import NOTES
from ..models.client import Answer
from ..signatures import Signature
from .conversation import Conversation
from .reply import read_reply


async def next_step(
    adapter: Any, lm: Any, conversation: Conversation, system: str, options: Mapping[str, Any]
) -> Answer:
    """Ask for the next reply: a thought and a code block, whatever form the adapter uses. Raise `ModelError`.

    An answer that the adapter cannot parse is returned as it is: the model gets a hint about it.
    """
    from dspy.adapters.types import History

    *before, last = conversation.turns
    steps = [(shown.text, read_reply(reply.text)) for shown, reply in zip(before[::2], before[1::2], strict=True)]
    messages = [
        {"observation": shown, "thought": reply.reasoning or "", "code": reply.code or ""} for shown, reply in steps
    ]
    given = {"history": History(messages=messages), "observation": last.text}
    values, answer = await _asked(_accepting_blocks(adapter), lm, _step_signature(system), given, options)
    if values is None:
        return answer
    code = str(values["code"] or "").strip()
    found = read_reply(code).code if "```" in code else code
    text = f"{values['thought']}\n```python\n{found or code}\n```" if code else str(values["thought"])
    return replace(answer, text=text)


async def extracted(adapter: Any, lm: Any, signature: Signature, prompt: str) -> Answer:
    """Ask for the outputs and the notes as JSON text. Raise `ModelError`."""
    from pydantic_core import to_jsonable_python

    names = [field.name for field in signature.outputs]
    shown, notes = _free("prompt", names), _free(NOTES.strip("_"), names)
    wanted = _extraction_signature(signature, shown, notes)
    values, answer = await _asked(adapter, lm, wanted, {shown: prompt}, {})
    # dspy reads a nullable field that is missing as null: if all are null, nothing was parsed.
    if values is None or all(values[name] is None for name in names):
        return answer
    outputs = {name: values[name] for name in names} | {NOTES: values[notes]}
    return replace(answer, text=json.dumps(to_jsonable_python(outputs, bytes_mode="utf8"), ensure_ascii=False))


async def _asked(
    adapter: Any, lm: Any, signature: Any, given: dict[str, Any], options: Mapping[str, Any]
) -> tuple[dict[str, Any] | None, Answer]:
    """Return the values that the adapter parsed, if it could, and the last answer with the usage of all calls."""
    from dspy.utils.exceptions import AdapterParseError

    from ..adapters.call_log import ModelCall, Recording, call_adapter, watch_calls
    from ..adapters.two_step.errors import TwoStepError

    record, values = Recording(), None
    calls: list[ModelCall] = []
    try:
        with watch_calls(calls.append):
            values = await call_adapter("step", adapter, lm, signature, given, options, record)
    except AdapterParseError:
        pass
    except TwoStepError as error:
        if error.tag == "extraction_lm_not_configured":
            raise
    used = (record.tokens_in, record.tokens_out, record.cost_usd)
    cached = bool(calls) and all(call.cached for call in calls)
    return values, Answer(record.text, record.truncated, *used, cached=cached, calls=tuple(calls))


def _accepting_blocks(adapter: Any) -> Any:
    """Return the adapter with a parser that also accepts a thought and a code block, so that nothing is asked again."""
    from dspy.utils.exceptions import AdapterParseError

    copied = copy.copy(adapter)

    def parse(signature: Any, completion: str) -> Any:
        try:
            return adapter.parse(signature, completion)
        except AdapterParseError:
            step = read_reply(completion)
            if step.code is None:
                raise
            return {"thought": step.reasoning or "", "code": step.code}

    copied.parse = parse
    return copied


def _free(name: str, taken: Collection[str]) -> str:
    """Return the name, or one like it that no output has."""
    return name if name not in taken else _free(f"{name}_", taken)


@functools.lru_cache(maxsize=64)
def _step_signature(system: str) -> Any:
    from dspy.adapters.types import History
    from dspy.signatures.field import InputField, OutputField
    from dspy.signatures.signature import make_signature

    fields = {
        "history": (History, InputField()),
        "observation": (str, InputField(desc="the task, or what your code printed")),
        "thought": (str, OutputField(desc="the short thought")),
        "code": (str, OutputField(desc="what is in the code block: Python, to be run now")),
    }
    return make_signature(fields, system, "Step")


def _extraction_signature(signature: Signature, shown: str, notes: str) -> Any:
    from dspy.signatures.field import InputField, OutputField
    from dspy.signatures.signature import make_signature

    fields: dict[str, Any] = {shown: (str, InputField())}
    for field in signature.outputs:
        about = {"desc": field.description} if field.description else {}
        fields[field.name] = (Optional[field.type], OutputField(**about))  # noqa: UP045
    fields[notes] = (str | None, OutputField(desc="what is uncertain, and why"))
    return make_signature(fields, "Read the outputs off what the prompt shows. Null where it does not tell.", "Extract")
