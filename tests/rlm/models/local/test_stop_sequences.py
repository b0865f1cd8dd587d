"""Stop sequences in text that comes in pieces, and conversations for strict templates."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.models.local.chat_template import alternating, plain_prompt, render, without_control_tokens
from rlm.models.local.stop_sequences import StopSequences


@given(
    st.text("abX", max_size=40),
    st.lists(st.integers(1, 4), max_size=40),
    st.sampled_from([("X",), ("ab",), ("aab", "bX")]),
)
def test_pieces_give_what_the_whole_text_gives(text: str, cuts: list[int], stop: tuple[str, ...]) -> None:
    hits = [at for at in (text.find(one) for one in stop) if at >= 0]
    stops, said, rest = StopSequences(stop), "", text
    for size in [*cuts, len(text)]:
        said += stops.add(rest[:size])
        rest = rest[size:]
    said += stops.end()
    assert said == stops.text
    if hits:
        # Where two stop sequences overlap, the one that was complete first has ended the text.
        assert stops.found
        assert text.startswith(said)
        assert not any(one in said for one in stop)
    else:
        assert said == text


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ((("system", "s"), ("user", "u")), (("user", "s\n\nu"),)),
        ((("user", "a"), ("user", "b"), ("assistant", "c")), (("user", "a\n\nb"), ("assistant", "c"))),
    ],
)
def test_a_strict_template_gets_alternating_roles(turns: tuple, expected: tuple) -> None:
    assert alternating(turns) == expected


@pytest.mark.parametrize("mark", ["<|im_end|>", "<|start_header_id|>", "</s>", "<end_of_turn>", "[/INST]", "<eos>"])
def test_control_tokens_in_a_text_are_words(mark: str) -> None:
    written = without_control_tokens(f"before {mark} after")
    assert mark not in written
    assert written.replace("\u200b", "") == f"before {mark} after"


def test_other_brackets_stay_as_they_are() -> None:
    text = "a <b> c </b> <|> x < y | y > z [1] [INSTALL] <section> <|not one|> <span>"
    assert without_control_tokens(text) == text


def test_a_model_without_a_template_continues_after_the_beginning_of_its_answer() -> None:
    assert plain_prompt((("system", "s"), ("user", "u"), ("assistant", "a"))) == "s\n\nu\n\na"
    assert plain_prompt((("user", "u"),)) == "u\n\n"


def test_a_template_that_refuses_a_system_message_gets_none() -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {word: number for number, word in enumerate(["?", "user", "be", "brief", "hello", "go"])}
    backend = Tokenizer(models.WordLevel(words, unk_token="?"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="?")
    tokenizer.chat_template = (
        "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system here') }}{% endif %}"
        "{{ m.role }} {{ m.content }} {% endfor %}go"
    )
    tokens = render(tokenizer, (("system", "be brief"), ("user", "hello")))
    assert tokenizer.decode(tokens) == "user be brief hello go"
    begun = render(tokenizer, (("system", "be brief"), ("user", "hello"), ("assistant", " hello hello")))
    assert tokenizer.decode(begun) == "user be brief hello go hello hello"
