"""Names: of inputs, outputs and tools, wherever they could be taken for something else."""

from __future__ import annotations

import pytest

from rlm.results import Submitted


async def test_an_output_can_be_named_self(make):
    result = await make(["SUBMIT(self=3)"], signature="doc -> self: int").run(doc="")
    assert isinstance(result, Submitted), result
    assert result.outputs.self == 3


async def test_an_input_of_a_child_run_can_be_named_signature(make):
    main = {
        "produce `answer`": "```python\n"
        "by_place = rlm_query('signature: str -> size: int', signature='xyz')\n"
        "by_name = rlm_query(signature='part: str -> size: int', part='xy')\n"
        "SUBMIT(answer=by_place['size'] * 10 + by_name['size'])\n```",
        "Given `signature`": "```python\nSUBMIT(size=len(signature))\n```",
        "Given `part`": "```python\nSUBMIT(size=len(part))\n```",
    }
    result = await make(main).run(doc="")
    assert isinstance(result, Submitted), result
    assert result.outputs.answer == 32


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("SUBMIT", "'SUBMIT' is a name of the REPL; give the tool another one"),
        ("doc", "'doc' is an input, too; give one of them another name"),
    ],
)
async def test_a_tool_with_a_name_that_is_taken_is_refused_before_the_run(make, name, words):
    made = make([], tools={name: len})
    with pytest.raises(ValueError, match=words):
        await made.run(doc="")
    assert made.events == []


async def test_a_child_run_whose_input_is_named_like_a_tool_is_told_to_the_model(make):
    made = make(["rlm_query('look -> size: int', look='x')", "SUBMIT(answer=1)"], tools={"look": len})
    assert isinstance(await made.run(doc=""), Submitted)
    output = next(event.data["output"] for event in made.events if event.kind == "cell_ended")
    assert "'look' is an input, too" in output
