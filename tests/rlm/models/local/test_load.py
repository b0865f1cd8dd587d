"""Loading a local model: paths, names, memory and the room for an answer."""

from __future__ import annotations

from pathlib import Path

import dspy
import pytest

from rlm.models import OutlinesLM
from rlm.models.local import limits, load
from rlm.models.local.embedded import embedded_gguf
from rlm.models.local.errors import LocalModelError, MissingModel
from rlm.models.local.hardware import free_memory


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingModel, match=r"no model at .*gone\.gguf"):
        OutlinesLM(tmp_path / "gone.gguf")


def test_free_memory_is_known() -> None:
    free = free_memory()
    assert free is not None
    assert free > 0


def test_a_file_that_is_no_model_is_a_dspy_error(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(embedded_gguf().read_bytes()[:3_000_000])
    with pytest.raises(LocalModelError, match=r"broken\.gguf") as caught:
        OutlinesLM(broken, backend="llamacpp")
    assert isinstance(caught.value, dspy.LMError)


def test_names_tell_weights_apart(tmp_path: Path) -> None:
    one, other = tmp_path / "one" / "m.gguf", tmp_path / "other" / "m.gguf"
    for file, content in ((one, b"a" * 100), (other, b"b" * 100)):
        file.parent.mkdir()
        file.write_bytes(content)
    names = {load.name_of(one, "llamacpp"), load.name_of(other, "llamacpp")}
    assert len(names) == 2
    assert all(name.startswith("llamacpp/m@") for name in names)


@pytest.mark.parametrize(("prompt", "context", "room"), [(10, 100, 90), (99, 100, 1)])
def test_an_answer_has_the_rest_of_the_context(prompt: int, context: int, room: int) -> None:
    limits.check_context(prompt, context, "m")
    assert limits.room_for(1000, prompt, context) == room


def test_a_prompt_that_fills_the_context_is_refused() -> None:
    with pytest.raises(dspy.ContextWindowExceededError, match="100 tokens"):
        limits.check_context(100, 100, "m")
