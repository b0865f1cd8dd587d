"""The bytes of a tokenizer's tokens on disk: what is read from there is what would have been made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from rlm.models.local import token_table as module
from rlm.models.local.constraints import constraint_of
from rlm.models.local.grammar import compiled
from rlm.models.local.token_table import token_table
from tests.support.installed import needs

pytestmark = needs("llguidance", "transformers")

TEXTS = ['{"name": "Bob"}', "a <|end|> b", "Zoë, 東京\n\n  x"]


class Person(BaseModel):
    name: str
    age: int


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RLM_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def tokenizer(folder: Path, words: tuple[str, ...] = ("name", "age")) -> Any:
    """A byte-level tokenizer that was trained on these words, read from a folder."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        initial_alphabet=alphabet, special_tokens=["<|end|>"], show_progress=False, min_frequency=1
    )
    made.train_from_iterator([f'{{"{word}": "x"}}' for word in words], trainer)
    PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|end|>").save_pretrained(folder)
    return read_tokenizer(folder)


def read_tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture
def no_making(monkeypatch: pytest.MonkeyPatch) -> Any:
    """From now on a table can only come from disk."""

    def forbid() -> None:
        def refuse(*_: Any, **__: Any) -> Any:
            raise AssertionError("made anew")

        monkeypatch.setattr("llguidance.hf.from_tokenizer", refuse)

    return forbid


def same(one: Any, other: Any) -> bool:
    """Whether two tables are one: their tokens, how they cut texts, and what they make of a grammar."""
    assert one.vocab_size == other.vocab_size
    for token in range(one.vocab_size):
        if one.decode_bytes([token]) != other.decode_bytes([token]):
            return False
        if one.is_special_token(token) != other.is_special_token(token):
            return False
    matchers = [compiled(table, constraint_of(Person)) for table in (one, other)]
    forced = [matcher.compute_ff_tokens() for matcher in matchers]
    for matcher in matchers:
        matcher.consume_tokens(forced[0])
    masks = [matcher.compute_bitmask() for matcher in matchers]
    cut = [[table.tokenize_str(text) for text in TEXTS] for table in (one, other)]
    assert any(masks[0])
    return bool(
        one.eos_tokens == other.eos_tokens
        and forced[0] == forced[1]
        and masks[0] == masks[1]
        and cut[0] == cut[1]
        and one.is_canonical == other.is_canonical
    )


def test_a_table_that_is_kept_is_the_one_that_was_made(tmp_path: Path, own_home: Path, no_making: Any) -> None:
    read = tokenizer(tmp_path / "model")
    made = token_table(read, [0])
    no_making()
    assert same(made, token_table(read, [0]))
    assert [file.suffix for file in (own_home / "tokens").iterdir()] == [".tokens"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[: len(content) // 2],
        lambda content: content[:-1] + bytes([content[-1] ^ 1]),
        lambda content: content.replace(b"\n[", b"\n[7, ", 1),
        lambda content: b"\xff\n[]\n[]\n",
    ],
)
def test_a_damaged_file_is_written_again(tmp_path: Path, own_home: Path, no_making: Any, damage: Any) -> None:
    read = tokenizer(tmp_path / "model")
    made = token_table(read, [0])
    (file,) = (own_home / "tokens").iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert same(made, token_table(read, [0]))
    assert file.read_bytes() == whole
    no_making()
    assert same(made, token_table(read, [0]))


def test_another_tokenizer_has_another_table(tmp_path: Path, own_home: Path) -> None:
    folder = tmp_path / "model"
    before = token_table(tokenizer(folder), [0])
    after = token_table(tokenizer(folder, ("street", "city")), [0])
    assert len(list((own_home / "tokens").iterdir())) == 2
    assert before.vocab_size != after.vocab_size


def test_a_token_that_was_added_makes_another_table(tmp_path: Path, own_home: Path) -> None:
    folder = tmp_path / "model"
    before = token_table(tokenizer(folder), [0])
    added = json.loads((folder / "tokenizer.json").read_text())
    more = {**added["added_tokens"][0], "id": before.vocab_size, "content": "<|more|>"}
    added["added_tokens"].append(more)
    (folder / "tokenizer.json").write_text(json.dumps(added))
    after = token_table(read_tokenizer(folder), [0])
    assert after.decode_bytes([before.vocab_size]) == b"<|more|>"


def test_another_version_of_a_library_makes_it_again(
    tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = tokenizer(tmp_path / "model")
    token_table(read, [0])
    monkeypatch.setattr(module, "version", lambda name: "0.0.0" if name == "llguidance" else "1")
    token_table(read, [0])
    assert len(list((own_home / "tokens").iterdir())) == 2


def test_where_nothing_can_be_written_it_works_all_the_same(tmp_path: Path, own_home: Path) -> None:
    own_home.write_text("a file, no folder")
    read = tokenizer(tmp_path / "model")
    assert same(token_table(read, [0]), token_table(read, [0]))


@pytest.mark.weights
def test_the_embedded_models_table_is_cached_and_the_same(mlx_lm: Any, no_making: Any) -> None:
    loaded = mlx_lm.local._loaded
    no_making()
    again = loaded.tokenizer.grammars()
    assert same(loaded.grammars.tokenizer, again.tokenizer)
