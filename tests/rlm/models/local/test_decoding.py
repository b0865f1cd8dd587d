"""The decode loop on real weights: what makes it quick changes nothing about the answer."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
from pydantic import BaseModel

from rlm.models.local.constraint_check import byte_matcher
from rlm.models.local.constraints import constraint_of
from rlm.models.local.decoding import CachedModel, Decoding
from rlm.models.local.sampling import numpy_sampler, unpack_mask
from rlm.models.local.types import Settings

# The first test of a process also converts and loads the weights.
pytestmark = pytest.mark.weights

PROMPT = (("user", "Bob Jones, 41, of Leeds. As JSON: name, age, kind."),)


class Person(BaseModel):
    name: str
    age: int
    kind: Literal["person", "company"]


class Aged(BaseModel):
    age: int
    kind: Literal["person", "company"]


def always_masked(loaded: Any, matcher: Any, prompt: list[int], most: int) -> list[int]:
    """Generate with a mask for every token that is not forced."""
    written: list[int] = []
    sample = loaded.model.sampler(Settings(most))
    while len(written) < most and not matcher.is_stopped():
        forced = matcher.compute_ff_tokens()
        if not forced:
            logits, _ = loaded.model.begin(prompt + written, [])
            forced = [sample(logits, matcher.compute_bitmask())]
        matcher.consume_tokens(forced)
        written += forced
    return written


def test_checking_the_models_choice_first_gives_the_tokens_of_a_full_mask(mlx_lm: Any) -> None:
    local, loaded = mlx_lm.local, mlx_lm.local._loaded
    prompt = loaded.tokenizer.encode(PROMPT)
    constraint = constraint_of(Aged)

    def ours() -> tuple[list[int], Decoding]:
        decoding = Decoding(loaded.model, Settings(24), loaded.grammars.matcher(constraint))
        written = decoding.begin(prompt)
        for run in decoding.tokens(24):
            written += run
        return written, decoding

    written, decoding = local.run_in_thread(ours)
    plain = local.run_in_thread(lambda: always_masked(loaded, loaded.grammars.matcher(constraint), prompt, 24))
    assert written == plain
    assert decoding.complete
    assert decoding.forced > 4


def test_a_cached_prompt_gives_the_answer_of_a_new_one(mlx_lm: Any) -> None:
    local = mlx_lm.local
    other = (("user", "Bob Jones, 41, of Leeds. In one word?"),)

    def ask(turns: Any) -> Any:
        return local.submit(turns, Settings(24), constraint_of(Person)).result()

    local.submit("x", Settings(1)).result()
    new = ask(PROMPT)
    ask(other)
    kept = ask(PROMPT)
    assert new.cached_tokens == 0
    assert kept.cached_tokens > new.prompt_tokens // 3
    assert kept.text == new.text


def test_a_constraint_with_one_sentence_asks_no_model(mlx_lm: Any) -> None:
    answer = mlx_lm.local.submit(PROMPT, Settings(24), constraint_of(Literal["certainly"])).result()
    assert answer.text == "certainly"
    assert answer.finish == "stop"
    assert answer.forced_tokens == answer.output_tokens


def test_a_constraint_is_compiled_once(mlx_lm: Any) -> None:
    grammars = mlx_lm.local._loaded.grammars
    first = grammars.matcher(constraint_of(Person))
    kept = grammars._unused[constraint_of(Person)]
    first.consume_tokens(first.compute_ff_tokens())
    second = grammars.matcher(constraint_of(Person))
    assert grammars._unused[constraint_of(Person)] is kept
    assert second.compute_ff_tokens()  # at the start again, whatever the first has consumed


def test_forced_text_may_be_cut_by_the_limit(mlx_lm: Any) -> None:
    answer = mlx_lm.local.submit(PROMPT, Settings(2), constraint_of(Person)).result()
    assert answer.finish == "length"
    assert answer.output_tokens == 2


class ByteModel(CachedModel):
    """A model that would write this text after a prompt of one token. Its tokens are bytes."""

    def __init__(self, text: str) -> None:
        super().__init__(frozenset({256}))
        self._text = text.encode()

    def sampler(self, settings: Settings) -> Any:
        return numpy_sampler(settings)

    def _advance(self, tokens: list[int]) -> Any:
        logits = np.zeros(257)
        logits[self._text[len(self._tokens) + len(tokens) - 1]] = 2.0
        logits[ord("0")] = max(logits[ord("0")], 1.0)  # the choice of a mask where the likeliest token is refused
        return logits

    def _truncate(self, size: int) -> int:
        return size


@pytest.mark.parametrize(
    ("output_type", "said", "answer"),
    [
        (int, "34 years", "34"),
        (float, "34.5.", "34.5"),
        (Literal["a", "a0"], "a, b", "a"),
        (Aged, '{"age": 34, "kind": "person"}', '{"age": 34, "kind": "person"}'),
    ],
)
def test_a_complete_answer_ends_where_the_model_continues_with_something_else(
    output_type: Any, said: str, answer: str
) -> None:
    matcher = byte_matcher(constraint_of(output_type)).deep_copy()
    decoding = Decoding(ByteModel(said), Settings(40), matcher)
    written = decoding.begin([0])
    for run in decoding.tokens(40):
        written += run
    assert bytes(token for token in written if token < 256).decode() == answer
    assert decoding.complete


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_only_tokens_within_the_mask_are_sampled(temperature: float) -> None:
    sample = numpy_sampler(Settings(1, temperature=temperature, seed=1, top_p=0.9, top_k=5))
    logits = np.arange(16.0)
    assert {sample(logits, bytes([0b101, 0])) for _ in range(20)} <= {0, 2}
    assert sample(logits, bytes([0b100, 0])) == 2


def test_samples_follow_the_probabilities() -> None:
    sample = numpy_sampler(Settings(1, temperature=1.0, seed=3))
    logits = np.log(np.array([0.7, 0.2, 0.1]))
    drawn = [sample(logits, None) for _ in range(2000)]
    assert 0.65 < drawn.count(0) / 2000 < 0.75
    assert 0.15 < drawn.count(1) / 2000 < 0.25


def test_logits_without_a_token_are_masked() -> None:
    assert unpack_mask(bytes([0xFF]), 12).tolist() == [True] * 8 + [False] * 4


def test_numpys_products_are_mlxs() -> None:
    mx = pytest.importorskip("mlx.core")
    from mlx import nn

    from rlm.models.local.backends.mlx_cpu import has_gpu, use_numpy_layers

    if has_gpu():
        pytest.skip("with a GPU nothing is replaced")

    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(11, 4)
            self.parts = [nn.Linear(4, 6), nn.Linear(6, 4, bias=False)]

        def __call__(self, x: Any) -> Any:
            for part in self.parts:
                x = part(x if x.dtype == mx.float32 else self.table(x))
            return self.table.as_linear(x)

    small, x = Small(), mx.array([[1, 2, 3], [4, 5, 10]])
    before = np.asarray(small(x))
    use_numpy_layers(small)
    assert {type(part).__name__ for part in [small.table, *small.parts]} == {"CpuEmbedding", "CpuLinear"}
    np.testing.assert_allclose(np.asarray(small(x)), before, atol=1e-5)
