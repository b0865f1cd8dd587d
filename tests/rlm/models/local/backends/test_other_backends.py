"""Backends that are tested where they are installed: transformers with PyTorch, and llama-cpp-python."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import outlines.models
import pytest
from pydantic import BaseModel

from rlm.models import OutlinesLM
from rlm.models.local.constraints import constraint_of
from rlm.models.local.embedded import embedded_gguf
from rlm.models.local.gguf import as_mlx
from rlm.models.local.types import Settings

# The first test of a process also converts and loads the weights.
pytestmark = pytest.mark.weights

PROMPT = "Bob Jones, 41, of Leeds. As JSON with name and age."


class Person(BaseModel):
    name: str
    age: int


def check(lm: Any) -> None:
    (text,) = lm(PROMPT, _outlines_constraint=Person)
    assert Person.model_validate_json(text) == Person(name="Bob Jones", age=41)
    again = lm.local.submit((("user", PROMPT),), Settings(24), constraint_of(Person)).result()
    assert again.text == text
    assert again.cached_tokens == again.prompt_tokens - 1
    assert again.forced_tokens > 3
    assert lm.model("Yes or no?", Literal["yes", "no"]) in {"yes", "no"}
    assert lm("Say hello.", max_tokens=4)[0]


def test_transformers() -> None:
    pytest.importorskip("torch")
    lm = OutlinesLM(as_mlx(embedded_gguf()), backend="transformers", max_tokens=24)
    assert isinstance(lm.model, outlines.models.Transformers)
    check(lm)


def test_llama_cpp_python(gguf: Path) -> None:
    pytest.importorskip("llama_cpp")
    from rlm.models.local.backends.llama_cpp_python import llama_model

    lm = OutlinesLM(gguf, backend="llamacpp", max_tokens=24, context=1024)
    assert isinstance(lm.model, outlines.models.LlamaCpp)
    assert type(lm.local) is type(llama_model(gguf, "again", 256))
    check(lm)
