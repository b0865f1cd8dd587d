"""A map over items: packs, order, retries, budgets, estimates."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.budgets import FallbackTrigger, Ledger
from rlm.models.client import ModelError
from rlm.reading.items import PACK_CHARS, Items, MapTooLarge, key_of

KINDS = ["even", "odd"]


class Asked:
    """Answers by the length of the item's text; remembers the prompts and the reports."""

    def __init__(self, fail=lambda prompt: None):
        self.prompts, self.answers, self.errors, self.fail = [], {}, {}, fail
        self.running = self.most_running = 0

    async def ask(self, prompt, kind):
        self.prompts.append(prompt)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        if error := self.fail(prompt):
            raise error
        parts = prompt.split("\n\n", 2)
        if not isinstance(kind, dict):
            return KINDS[len(parts[1]) % 2]
        listed = dict(line[1:].split("] ", 1) for line in parts[2].split("\n"))
        return {number: KINDS[len(text) % 2] for number, text in listed.items()}

    def report(self, answers, errors):
        assert not self.answers.keys() & answers.keys()
        self.answers.update(answers)
        self.errors.update(errors)


@given(st.lists(st.text("ab", min_size=1, max_size=2_000), max_size=80), st.integers(1, 25))
def test_every_item_is_in_one_pack_in_order_and_packs_have_their_size(texts, most):
    packs = Items(texts, "Which?", KINDS, most).packs()
    assert [index for pack in packs for index in pack] == list(range(len(texts)))
    for pack in packs:
        assert len(pack) <= most
        assert len(pack) == 1 or sum(len(texts[index]) for index in pack) <= PACK_CHARS


@pytest.mark.parametrize("most", [1, 7, 20])
async def test_answers_are_in_the_order_of_the_items_and_each_is_reported_once(most):
    texts, asked = ["x" * (number % 9 + 1) for number in range(100)], Asked()
    answers, errors = await Items(texts, "Which?", KINDS, most).ask(asked.ask, asked.report, 8)
    assert answers == [KINDS[len(text) % 2] for text in texts]
    assert errors == {}
    assert asked.answers == dict(enumerate(answers))
    assert len(asked.prompts) == -(-100 // most)
    assert asked.most_running <= 8


async def test_a_pack_that_fails_is_asked_item_by_item():
    texts = ["x", "xx", "bad", "xxx"]
    asked = Asked(lambda prompt: ValueError("no such answer") if "bad" in prompt else None)
    answers, errors = await Items(texts, "Which?", KINDS).ask(asked.ask, asked.report, 4)
    assert answers == ["odd", "even", None, "odd"]
    assert errors == {2: "no such answer"} == asked.errors
    assert len(asked.prompts) == 5


async def test_a_model_that_cannot_be_asked_ends_the_map():
    texts, asked = ["x" * 1_600] * 50, Asked(lambda prompt: ModelError("key", "no key"))
    answers, errors = await Items(texts, "Which?", KINDS).ask(asked.ask, asked.report, 1)
    assert answers == [None] * 50
    assert Counter(errors.values()) == {"no key": 50}
    assert len(asked.prompts) == 1


async def test_known_answers_are_not_asked_again():
    asked = Asked()
    items = Items(["x", "xx", "xxx"], "Which?", KINDS, known={0: "kept", 2: "kept"})
    answers, _ = await items.ask(asked.ask, asked.report, 4)
    assert answers == ["kept", "even", "kept"]
    assert len(asked.prompts) == 1
    assert items.estimate().items == 1


async def test_types_that_cannot_be_put_into_another_schema_are_asked_one_by_one():
    schema = {"$defs": {"n": {"type": "integer"}}, "$ref": "#/$defs/n"}
    assert len(Items(["x", "y"], "Which?", schema).packs()) == 2


def test_the_digest_is_that_of_items_question_and_type():
    same = Items(["x", "y"], "Which?", KINDS).digest
    assert Items(["x", "y"], "Which?", KINDS, most=1, known={0: "a"}).digest == same
    others = (Items(["x"], "Which?", KINDS), Items(["x", "y"], "Who?", KINDS), Items(["x", "y"], "Which?", int))
    assert same not in {other.digest for other in others}


def test_a_map_that_would_take_more_than_is_left_is_refused_before():
    items = Items(["x" * 1_600] * 30, "Which?", KINDS)
    estimate = items.estimate((1e-5, 1e-4))
    assert (estimate.items, estimate.calls) == (30, 30)
    assert estimate.cost_usd == pytest.approx(estimate.tokens_in * 1e-5 + estimate.tokens_out * 1e-4)
    estimate.check(Ledger(FallbackTrigger(max_llm_calls=30, max_cost_usd=1.0)).remaining())
    with pytest.raises(MapTooLarge, match="30 LLM calls are needed, 29 are left"):
        estimate.check(Ledger(FallbackTrigger(max_llm_calls=29)).remaining())
    with pytest.raises(MapTooLarge, match=r"about \$0\.\d+ are needed, \$0\.0100 are left"):
        estimate.check(Ledger(FallbackTrigger(max_cost_usd=0.01)).remaining())
    with pytest.raises(MapTooLarge, match="tokens are needed"):
        estimate.check(Ledger(FallbackTrigger(max_tokens=100)).remaining())


@pytest.mark.parametrize(
    ("question", "key"),
    [
        ("What is the topic of this passage?", "topic"),
        ("Which category does it have?", "category"),
        ("Extract the sentiment from this review", "sentiment"),
        ("What kind of question is it?", "kind"),
        ("Is this a complaint?", "answer"),
        ("What is this about?", "answer"),
    ],
)
def test_what_a_question_asks_for_is_the_key_under_which_a_small_model_answers(question, key):
    asked = []

    async def ask(prompt, kind):
        asked.append((prompt, kind))
        return {key: "odd"}

    items = Items(["one"], question, KINDS, most=1, keyed=True)
    answers, errors = asyncio.run(items.ask(ask, lambda answers, errors: None, 1))
    assert (answers, errors) == (["odd"], {})
    assert asked[0][0] == f"{question}\n\none"
    assert asked[0][1]["properties"] == {key: {"enum": KINDS}}
    assert key_of(question) == key


def test_items_of_other_types_and_other_models_are_asked_without_a_key():
    kinds = []

    async def ask(prompt, kind):
        kinds.append(kind)
        return 3 if kind is int else "odd"

    asyncio.run(Items(["a"], "How many?", int, most=1, keyed=True).ask(ask, lambda answers, errors: None, 1))
    asyncio.run(Items(["a"], "What is the topic?", KINDS, most=1).ask(ask, lambda answers, errors: None, 1))
    assert kinds == [int, KINDS]
