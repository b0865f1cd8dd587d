"""Constrained answers from llama.cpp's server: forced text, refused pieces, and the server's own port."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from outlines import types
from pydantic import BaseModel

from rlm.models.local.backends import llama_segments
from rlm.models.local.constraint_check import byte_matcher
from rlm.models.local.constraints import constraint_of
from rlm.models.local.types import Settings

# The first test of a process also converts and loads the weights.
pytestmark = pytest.mark.weights

PROMPT = (("user", "Bob Jones, 41, of Leeds. As JSON: name, age, kind."),)


class Person(BaseModel):
    name: str
    age: int
    kind: Literal["person", "company"]


@dataclass
class Aged:
    age: int


def ask(lm: Any, output_type: Any, most: int = 40, **options: Any) -> Any:
    return lm.local.submit(PROMPT, Settings(most, **options), constraint_of(output_type)).result()


def test_forced_text_is_read_and_not_generated(llama_lm: Any) -> None:
    answer = ask(llama_lm, Person)
    assert Person.model_validate_json(answer.text).age == 41
    assert answer.finish == "stop"
    assert answer.forced_tokens >= 6


def test_text_that_the_model_would_not_write_is_chosen_from_its_likeliest_tokens(llama_lm: Any) -> None:
    answer = ask(llama_lm, Literal["Bob", "Leeds"])
    assert answer.finish == "stop"
    assert answer.masked_tokens >= 1
    assert answer.text in {"Bob", "Leeds"}


def test_without_a_candidate_the_server_uses_its_own_grammar(llama_lm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama_segments, "_CANDIDATES", 1)
    answer = ask(llama_lm, types.Regex("[QZ][0-9]{2}x"))
    assert answer.finish == "stop"
    assert answer.text[0] in "QZ"
    assert answer.text[-1] == "x"


def test_an_answer_by_the_servers_grammar_is_streamed_too(llama_lm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama_segments, "_CANDIDATES", 1)
    pieces = list(llama_lm.model.stream("Which?", types.Regex("(x|Code: )[QZ][0-9]{2}x"), max_tokens=12))
    assert re.fullmatch("(x|Code: )[QZ][0-9]{2}x", "".join(pieces))


def test_pieces_are_the_text(llama_lm: Any) -> None:
    pieces: list[str] = []

    def on_text(text: str) -> bool:
        pieces.append(text)
        return True

    answer = llama_lm.local.submit(PROMPT, Settings(40), constraint_of(Person), on_text).result()
    assert "".join(pieces) == answer.text
    assert len(pieces) > 4


def test_a_listener_can_cancel_the_answer(llama_lm: Any) -> None:
    answer = llama_lm.local.submit(PROMPT, Settings(40), constraint_of(Person), lambda _: False).result()
    assert answer.finish == "cancelled"
    assert len(answer.text) < 20


def test_sampled_values_repeat_with_their_seed(llama_lm: Any) -> None:
    texts = {ask(llama_lm, Person, temperature=1.2, seed=5).text for _ in range(2)}
    assert len(texts) == 1


def test_the_servers_port_needs_its_key(llama_lm: Any) -> None:
    address = llama_lm.local._server.listening_address
    assert address.startswith("http://127.0.0.1:")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{address}/completion", b'{"prompt": "a", "n_predict": 1}', timeout=30)


def test_a_space_that_is_a_token_of_its_own_comes_before_what_follows_it(llama_lm: Any) -> None:
    """The model would write `"age":4`. Of the tokens with the space that JSON has here, only ` -` says more than it."""
    local = llama_lm.local
    answer = local.submit((("user", "Bob Jones, 41, of Leeds."),), Settings(24), constraint_of(Aged)).result()
    assert answer.text == '{"age": 41}'


class Script:
    """A server that offers these tokens, each time what a text is followed by."""

    def __init__(self, likeliest: dict[str, list[str]]) -> None:
        self.likeliest = likeliest
        self.candidates_for: list[str] = []

    def __call__(self, so_far: str, size: int, options: Any, on_chunk: Any) -> dict[str, Any]:
        offered = self.likeliest[so_far]
        if on_chunk is not None:
            on_chunk({"choices": [{"text": offered[0], "finish_reason": None}]})
            return {}
        self.candidates_for.append(so_far)
        content = [{"bytes": list(token.encode()), "logprob": -float(rank)} for rank, token in enumerate(offered)]
        return {"choices": [{"logprobs": {"content": [{"top_logprobs": content}]}}]}


def written(script: Script, output_type: Any, most: int = 24) -> llama_segments.SegmentedAnswer:
    matcher = byte_matcher(constraint_of(output_type)).deep_copy()
    answer = llama_segments.SegmentedAnswer(script, len, matcher, Settings(most))
    answer.run()
    return answer


def test_unsent_text_is_written_token_by_token_where_the_model_does() -> None:
    script = Script({'{"age":': ["4", " ", " -"], '{"age": ': ["4"], '{"age": 4': ["}"]})
    answer = written(script, Aged)
    assert answer.text == '{"age": 4}'
    assert script.candidates_for == ['{"age":', '{"age": ']


def test_a_refused_piece_takes_no_room() -> None:
    script = Script({"": ["no", "1"], "1": ["no", "2"], "12": ["no", "3"]})
    answer = written(script, types.Regex("[0-9]{9}"), most=3)
    assert answer.text == "123"
    assert answer.generated == 3


@pytest.mark.parametrize(
    ("output_type", "said", "answer"),
    [
        (int, ["34", " years", "0"], "34"),
        (Literal["good", "good enough"], ["good", ", as", " enough"], "good"),
        (types.Regex("[0-9]*"), ["The", "7"], "7"),
    ],
)
def test_a_complete_answer_ends_where_the_model_continues_with_something_else(
    output_type: Any, said: list[str], answer: str
) -> None:
    first, *then = said
    complete = written(Script({"": said, first: then, answer: ["."]}), output_type)
    assert complete.text == answer


def test_a_bracket_that_is_half_a_token_is_not_sent() -> None:
    """After ` [` a model that knows ` ["` as one token would close the list or begin with another quote."""

    class Guests(BaseModel):
        guests: list[str]

    begun = '{"guests":'
    script = Script({
        begun: [' ["', " ["], f"{begun} [": ["]", "'"],
        f'{begun} ["': ["Anna"], f'{begun} ["Anna': ['"]}'],
    })  # fmt: skip
    assert written(script, Guests).text == '{"guests": ["Anna"]}'
