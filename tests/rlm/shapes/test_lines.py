"""Line shapes: exact counts, honest samples, variable parts."""

from __future__ import annotations

import random
import re
import tracemalloc
import uuid

from hypothesis import given
from hypothesis import strategies as st

from rlm.shapes import describe
from rlm.shapes import lines as module
from rlm.shapes.lines import line_shapes


def _log(number: int, seed: int = 1) -> list[str]:
    """Lines of three shapes, with numbers, addresses and names that vary."""
    dice = random.Random(seed)
    names = ["".join(dice.choices("bcdghijkl", k=6)) for _ in range(400)]
    made = []
    for index in range(number):
        address = ".".join(str(dice.randint(1, 250)) for _ in range(4))
        head = f"{dice.choice(('Dec', 'Jan'))} {index % 28 + 1} 06:55:46 host"
        kinds = (
            f"{head} sshd[{index}]: Failed password for root from {address} port {index}",
            f"{head} sshd[{index}]: Invalid user {dice.choice(names)} from {address}",
            f"{head} cron[{index}]: job {uuid.UUID(int=dice.getrandbits(128))} done",
        )
        made.append(dice.choice(kinds))
    return made


def test_counts_are_those_of_a_search_and_each_shape_has_its_first_line() -> None:
    lines = _log(3_000)
    shapes, other, sampled = line_shapes("\n".join(lines))
    counts = {text: sum(text in line for line in lines) for text in ("Failed password", "Invalid user", "job")}
    found = {text: sum(shape.count for shape in shapes if text in shape.pattern) for text in counts}
    assert found == counts
    assert (other, sampled, len(shapes)) == (0, "", 3)
    for shape in shapes:
        word = next(text for text in counts if text in shape.pattern)
        assert shape.example == next(line for line in lines if word in line)


def test_variable_parts_are_marked_and_constant_ones_are_not() -> None:
    shapes, _, _ = line_shapes("\n".join(_log(3_000)))
    pattern = next(shape.pattern for shape in shapes if "Invalid" in shape.pattern)
    assert pattern == "<*> <n> <n>:<n>:<n> host sshd[<n>]: Invalid user <*> from <n>.<n>.<n>.<n>"


@given(st.lists(st.text(alphabet=st.sampled_from("ab1 \t=:é\r\x85"), max_size=12), max_size=60))
def test_every_line_that_is_not_empty_is_counted_once(lines: list[str]) -> None:
    text = "\n".join(lines)
    shapes, other, sampled = line_shapes(text)
    filled = [line for line in text.split("\n") if re.sub("[0-9]", "", line).encode().strip()]
    assert sum(shape.count for shape in shapes) + other == len(filled)
    assert not sampled


def test_blocks_do_not_change_the_counts(monkeypatch) -> None:
    text = "\n".join(_log(2_000)) + "\n"
    whole = line_shapes(text)
    monkeypatch.setattr(module, "BLOCK_CHARS", 1_000)
    assert line_shapes(text) == whole


def test_a_sample_says_that_it_is_one_and_is_the_same_each_time(monkeypatch) -> None:
    monkeypatch.setattr(module, "MAX_SKELETONS", 50)
    text = "\n".join(_log(20_000))
    first = describe(text)
    assert "sample of" in first.sampled
    assert "in the sample" in first.text()
    assert describe(text) == first
    shares = [shape.count / (first.other_lines + sum(one.count for one in first.lines)) for shape in first.lines[:3]]
    assert all(0.2 < share < 0.45 for share in shares)


def test_memory_is_bounded_by_the_blocks_not_by_the_text() -> None:
    text = "\n".join(_log(20_000)) + "\n"
    text *= 10  # about 15 MB
    tracemalloc.start()
    line_shapes(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 25_000_000 + 4 * module.BLOCK_CHARS
