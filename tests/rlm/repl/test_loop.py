"""Runs, from the inputs to one of three endings. The models are scripted; everything else is real."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import functools
import json
import time

import dspy
import pytest

import sandbox
from rlm.budgets import FallbackTrigger, MaxConsecutiveErrors, MaxIterations, MaxLLMCalls, Timeout
from rlm.models.profile import ModelProfile
from rlm.models.scripted import AsyncScriptedEngine
from rlm.results import Extracted, Failed, Submitted
from rlm.signatures import InvalidInputs, SignatureError
from tests.support.event_loop import turns_of_the_loop


def kinds(made):
    return [event.kind for event in made.events]


# -- submitting


async def test_a_run_that_submits(make):
    made = make(["n = doc.count('a')\nprint(n)", "SUBMIT(answer=n)"])
    result = await made.run(doc="banana")
    assert isinstance(result, Submitted)
    assert (result.outputs.answer, result.iterations, result.llm_calls, result.confidence) == (3, 2, 0, 1.0)
    assert result.run_id == made.events[0].run_id
    assert result.usage.model_calls == 2
    assert kinds(made)[0] == "run_started"
    assert kinds(made)[-1] == "run_ended"


async def test_submit_takes_one_dict_too(make):
    assert (await make(["SUBMIT({'answer': 5})"]).run(doc="")).outputs.answer == 5


async def test_submit_stops_the_cell_at_once_and_only_the_first_counts(make):
    code = "try:\n    SUBMIT(answer=1)\nexcept BaseException:\n    SUBMIT(answer=2)\nfinally:\n    SUBMIT(answer=3)"
    result = await make([code]).run(doc="")
    assert (result.outputs.answer, result.iterations) == (1, 1)


async def test_an_invalid_submit_comes_back_with_every_error_and_the_run_goes_on(make):
    made = make(
        ["SUBMIT(answer='many', extra=1)", "SUBMIT(answer=2, tags=['x'])"],
        signature="doc -> answer: int, tags: list[str]",
    )
    result = await made.run(doc="")
    assert isinstance(result, Submitted)
    observation = made.last_observation()
    assert "At path '/answer': expected an integer" in observation
    assert "'/tags'" in observation
    assert "'/extra'" in observation


async def test_validate_json_uses_the_same_words_as_submit(make):
    made = make(["print(validate_json({'answer': 'x'}))", "SUBMIT(answer='x')", "SUBMIT(answer=1)"])
    await made.run(doc="")
    checked, refused = (request.messages[-1].text for request in made.asked()[1:3])
    line = "At path '/answer': expected an integer, got \"x\" (a string)"
    assert line in checked
    assert line in refused


@pytest.mark.parametrize(
    ("kind", "code", "expected"),
    [
        ("list[int]", "SUBMIT(answer={2, 1})", [1, 2]),
        ("date", "import datetime\nSUBMIT(answer=datetime.date(2026, 1, 2))", "2026-01-02"),
        ("int", "import numpy\nSUBMIT(answer=numpy.int64(4))", 4),
        (
            "dict[str, int]",
            "import dataclasses\n@dataclasses.dataclass\nclass P:\n    x: int\nSUBMIT(answer=P(1))",
            {"x": 1},
        ),
    ],
    ids=["set", "date", "numpy", "dataclass"],
)
async def test_values_that_json_does_not_know_are_converted_where_there_is_a_place(make, kind, code, expected):
    result = await make([code], signature=f"doc -> answer: {kind}").run(doc="")
    assert isinstance(result, Submitted), result
    assert json.loads(result.outputs.model_dump_json())["answer"] == expected


async def test_and_are_named_where_there_is_none(make):
    made = make(["SUBMIT(answer={1})", "SUBMIT(answer=float('nan'))", "SUBMIT(answer=1)"])
    await made.run(doc="")
    assert "was a set" in made.asked()[1].messages[-1].text
    assert "/answer" in made.asked()[2].messages[-1].text


async def test_checks_of_the_task_are_part_of_submitting(make):
    made = make(["SUBMIT(answer=-1)", "SUBMIT(answer=1)"], checks=("answer >= 0",))
    result = await made.run(doc="")
    assert result.outputs.answer == 1
    assert "answer >= 0" in made.last_observation()


# -- what the model reads


async def test_inputs_are_described_and_never_pasted(make):
    secret = "x" * 50_000 + "needle" + "y" * 50_000
    made = make(["SUBMIT(answer=len(doc))"])
    await made.run(doc=secret)
    request = made.asked()[0]
    text = request.system + "".join(message.text for message in request.messages)
    assert "100,006 characters" in text
    assert "needle" not in text
    assert len(text) < 6_000


async def test_what_a_signature_says_about_an_input_is_in_the_prompt(make):
    class Read(dspy.Signature):
        """Read it."""

        log: str = dspy.InputField(desc="of the web server,\n   since Monday")
        note: str = dspy.InputField(desc="by hand")
        data: bytes = dspy.InputField()
        answer: int = dspy.OutputField()

    note = '"\n' * 75
    made = make(["print(len(log), len(data))\nSUBMIT(answer=1)"], signature=Read)
    await made.run(log="x" * 500, note=note, data=b"\xff" * 100)
    lines = made.asked()[0].messages[0].text.split("\n")
    assert "- log (str), of the web server, since Monday: one line of 500 characters" in lines
    assert f"- note (str, 150 characters), by hand: {json.dumps(note)}" in lines  # whole, however it is written
    assert any(line.startswith("- data (bytes): 100 bytes, not UTF-8") for line in lines)


async def test_a_long_input_is_described_by_its_shape_and_so_in_the_repl(make):
    log = "".join(
        f"10:{number % 60:02d} {'ERROR disk' if number % 3 else 'INFO fan'} {number}\n" for number in range(9_000)
    )
    made = make(["print(describe(doc))", "SUBMIT(answer=1)"])
    await made.run(doc=log)
    assert len(log) > 65_536  # it arrives as sealed memory
    prompt = made.asked()[0].messages[0].text
    for shape in ("9,000 lines of a log", "6,000 x  10:01 ERROR disk 1", "3,000 x  10:00 INFO fan 0"):
        assert shape in prompt
        assert shape in made.asked()[1].messages[-1].text


async def test_the_conversation_only_grows(make):
    made = make([f"print({i})" for i in range(4)] + ["SUBMIT(answer=1)"])
    await made.run(doc="")
    for earlier, later in zip(made.asked(), made.asked()[1:], strict=False):
        assert later.system == earlier.system
        assert [m.text for m in later.messages[: len(earlier.messages)]] == [m.text for m in earlier.messages]


async def test_long_output_is_cut_in_the_middle_with_a_count(make):
    made = make(["print('a' * 50_000 + 'END')", "SUBMIT(answer=1)"])
    await made.run(doc="")
    observation = made.last_observation()
    assert "characters left out" in observation
    assert "END" in observation
    assert len(observation) < 10_000


async def test_a_long_conversation_is_compacted_and_the_kernel_kept(make, monkeypatch):
    monkeypatch.setattr("rlm.repl.conversation.Conversation.__init__.__defaults__", (20_000,))
    made = make(["kept = 41"] + [f"print('z' * {6_000 + n})" for n in range(8)] + ["SUBMIT(answer=kept + 1)"])
    result = await made.run(doc="")
    assert result.outputs.answer == 42
    assert max(sum(len(m.text) for m in request.messages) for request in made.asked()) < 40_000
    assert "kept: int = 41" in made.asked()[-1].messages[0].text


async def test_a_reply_without_code_costs_an_iteration_and_is_answered(make):
    made = make(["SUBMIT(answer=1)"])
    made.main._engine_spec.script = ["I think it is 3.", "```python\nSUBMIT(answer=1)\n```"]
    result = await made.run(doc="")
    assert result.iterations == 2
    assert "no code in your reply" in made.last_observation()


async def test_a_reply_that_was_cut_off_is_told(make):
    made = make(["print(1)", "SUBMIT(answer=1)"])
    answer = made.main.profile.engine.complete

    async def complete(request):
        response = await answer(request)
        return response if len(request.messages) > 1 else dataclasses.replace(response, finish_reason="length")

    made.main.profile.engine.complete = complete
    await made.run(doc="")
    assert made.last_observation().startswith("Your reply was cut off")


async def test_an_input_that_is_assigned_to_is_refused_in_words(make):
    made = make(["doc = 'invented text'", "SUBMIT(answer=len(doc))"])
    result = await made.run(doc="real")
    assert result.outputs.answer == 4
    assert "`doc` belongs to the session" in made.last_observation()


# -- what the code can call


async def test_llm_query_asks_the_sub_model(make):
    made = make(["print(llm_query('Who?', doc))\nSUBMIT(answer=1)"], sub={"Who?": "Ada"})
    result = await made.run(doc="some text")
    assert (result.llm_calls, result.usage.model_calls) == (1, 2)
    assert made.asked("sub")[0].messages[0].text == "Who?\n\nsome text"


async def test_llm_batch_keeps_order_and_one_failure_does_not_sink_the_rest(make):
    code = (
        "answers = llm_batch(['a', 'b', 'who?', 'c'], max_parallel=2)\n"
        "print(answers, sorted(llm_errors()))\nSUBMIT(answer=len(answers))"
    )
    made = make([code], sub={"a": "1", "b": "2", "c": "3"})
    await made.run(doc="")
    output = next(event.data["output"] for event in made.events if event.kind == "cell_ended")
    assert output.startswith("['1', '2', None, '3'] ['2']")


async def test_llm_query_batched_is_the_same_function(make):
    result = await make(["SUBMIT(answer=len(llm_query_batched(['a', 'b'], ['x', 'y'])))"]).run(doc="")
    assert result.outputs.answer == 2


async def test_call_51_is_refused_where_it_is_made_also_among_300(make):
    code = "for i in range(300):\n    llm_query(str(i))"
    made = make([code], extraction=['{"answer": 1}'])
    result = await made.run(doc="")
    assert isinstance(result, Extracted)
    assert result.reason == MaxLLMCalls(50, 50)
    assert len(made.asked("sub")) == 50


async def test_a_refused_call_is_an_exception_with_a_name(make):
    made = make(
        ["llm_query('a')\nllm_query('b')"], trigger=FallbackTrigger(max_llm_calls=1), extraction=['{"answer": 1}']
    )
    await made.run(doc="")
    output = next(event.data["output"] for event in made.events if event.kind == "cell_ended")
    assert "BudgetExceeded" in output


@pytest.mark.parametrize(
    "call",
    [
        *("llm_query(5)", "llm_query(None)", "llm_query('x', model='gpt-9')", "llm_query('x', type=5)"),
        *("llm_query('x', type=[])", "llm_query('x', type={'type': 'nonsense'})"),
    ],
)
async def test_a_call_that_cannot_be_made_is_not_counted(make, call):
    code = f"try:\n    {call}\nexcept Exception:\n    SUBMIT(answer=budget()['llm_calls'])"
    result = await make([code]).run(doc="")
    assert isinstance(result, Submitted), result
    assert (result.outputs.answer, result.llm_calls) == (50, 0)


async def test_of_a_batch_only_the_calls_that_can_be_made_are_counted(make):
    code = "print(llm_batch([1, 'ok', None]), sorted(llm_errors()))\nSUBMIT(answer=budget()['llm_calls'])"
    made = make([code])
    assert (await made.run(doc="")).outputs.answer == 49
    output = next(event.data["output"] for event in made.events if event.kind == "cell_ended")
    assert output.startswith("[None, 'sub answer', None] ['0', '2']")


async def test_rlm_query_is_a_run_of_its_own_on_the_same_budget(make):
    main = {
        "produce `answer`": "```python\n"
        "sub = rlm_query('part: str -> size: int', part=doc[:3])\nSUBMIT(answer=sub['size'])\n```",
        "produce `size`": "```python\nllm_query('x')\nSUBMIT(size=len(part))\n```",
    }
    made = make(main)
    result = await made.run(doc="abcdef")
    assert result.outputs.answer == 3
    assert result.llm_calls == 2
    assert len({event.run_id for event in made.events}) == 2


async def test_child_runs_are_calls_and_refused_where_there_are_none_left(make):
    main = {
        "produce `answer`": "```python\nfor n in range(100):\n    rlm_query('part -> size: int', part=str(n))\n```",
        "produce `size`": "```python\nSUBMIT(size=len(part))\n```",
    }
    made = make(main, trigger=FallbackTrigger(max_llm_calls=4), extraction=['{"answer": 4}'])
    result = await made.run(doc="")
    assert result.reason == MaxLLMCalls(4, 4)
    assert kinds(made).count("run_started") == 1 + 4
    endings = [event.data["ending"] for event in made.events if event.kind == "run_ended"]
    assert endings == ["Submitted"] * 4 + ["Extracted"]


async def test_child_runs_nest_only_so_deep(make):
    main = {
        "produce `answer`": "```python\nSUBMIT(answer=rlm_query('part -> size: int', part='x')['size'])\n```",
        "produce `size`": "```python\ntry:\n    rlm_query('part -> size: int', part=part)\n"
        "except Exception as error:\n    SUBMIT(size=int('no child run' not in str(error)))\n```",
    }
    assert (await make(main).run(doc="")).outputs.answer == 0


async def test_the_callers_own_tools_are_there_with_their_docstrings(make):
    def lookup(name: str) -> int:
        """Find a price."""
        return len(name)

    pear = functools.partial(lookup, "pear")
    made = make(["SUBMIT(answer=lookup('pear') + pear())"], tools={"lookup": lookup, "pear": pear})
    assert (await made.run(doc="")).outputs.answer == 8
    assert "lookup(name: str) -> int: Find a price." in made.asked()[0].system
    assert "pear() -> int: Find a price." in made.asked()[0].system


async def test_what_a_tool_returns_is_json_where_it_can_be(make):
    @dataclasses.dataclass
    class Price:
        day: datetime.date
        tags: set[str]

    tools = {"look": lambda: [Price(datetime.date(2024, 1, 31), {"a"})], "odd": lambda: object()}
    made = make(["print(look())", "odd()", "SUBMIT(answer=1)"], tools=tools)
    await made.run(doc="")
    outputs = [event.data["output"] for event in made.events if event.kind == "cell_ended"]
    assert outputs[0] == "[{'day': '2024-01-31', 'tags': ['a']}]"
    assert "TypeError: odd() returned something that is not JSON" in outputs[1]


async def test_helpers_work_on_long_texts_in_the_kernel(make):
    code = (
        "parts = chunk(doc, 1000)\nassert ''.join(parts) == doc and max(map(len, parts)) <= 1000\n"
        "hits = search(doc, r'id=(\\d+)')\n"
        "assert peek(doc, -3) == doc[-3:] and count_tokens(doc) > 100\n"
        "SUBMIT(answer=len(hits))"
    )
    result = await make([code]).run(doc="line id=1\n" * 15 + "x\n" * 2000)
    assert isinstance(result, Submitted), result
    assert result.outputs.answer == 15


async def test_budget_tells_what_is_left(make):
    made = make(["llm_query('a')", "print(budget())\nSUBMIT(answer=budget()['llm_calls'])"])
    assert (await made.run(doc="")).outputs.answer == 49


# -- running out


@pytest.mark.parametrize(("answer", "confidence"), [(3, 0.5), (7, 0.7)])
async def test_a_number_that_only_the_runtime_wrote_is_no_evidence(make, answer, confidence):
    cells = ["print('days:', len(doc))", "doc.days", "doc.weeks"]  # the last traceback says `<cell 3>`
    extraction = [json.dumps({"answer": answer})]
    made = make(cells, trigger=FallbackTrigger(max_iterations=3), extraction=extraction)
    result = await made.run(doc="1234567")
    assert isinstance(result, Extracted)
    assert result.history[2].output.count("<cell 3>") == 1
    assert [entry.printed for entry in result.history] == ["days: 7", "", ""]
    assert result.confidence == confidence


async def test_running_out_of_iterations_extracts_with_evidence(make):
    made = make(
        ["total = 4012\nprint('total is', total)"] * 2,
        trigger=FallbackTrigger(max_iterations=2),
        extraction=['{"answer": 4012, "_extraction_notes": "from total"}'],
    )
    result = await made.run(doc="text")
    assert isinstance(result, Extracted)
    assert (result.outputs.answer, result.reason, result.extraction_notes) == (4012, MaxIterations(2, 2), "from total")
    places = [one for one in result.evidence if not one.is_origin]
    assert {one.kind for one in places} == {"variable", "history"} or places[0].variable == "total"
    assert result.confidence > 0.5
    prompt = made.asked("extraction")[0].messages[0].text
    assert "total" in prompt
    assert "4012" in prompt


async def test_an_invented_answer_has_low_confidence(make):
    made = make(["print('hm')"], trigger=FallbackTrigger(max_iterations=1), extraction=['{"answer": 777}'])
    result = await made.run(doc="text")
    assert (result.confidence, [one.kind for one in result.evidence]) == (0.5, ["none"])


async def test_the_extraction_is_retried_with_feedback(make):
    made = make(
        ["n = 5"], trigger=FallbackTrigger(max_iterations=1), extraction=['{"answer": "five"}', '{"answer": 5}']
    )
    result = await made.run(doc="")
    assert result.outputs.answer == 5
    assert "At path '/answer'" in made.asked("extraction")[1].messages[0].text
    assert kinds(made).count("extraction_attempt") == 2


async def test_a_null_where_none_is_allowed_fails_and_keeps_the_rest(make):
    made = make(
        ["n = 5"],
        signature="doc -> answer: int, name: str",
        trigger=FallbackTrigger(max_iterations=1),
        extraction=['{"answer": 5, "name": null}'],
    )
    result = await made.run(doc="")
    assert isinstance(result, Failed)
    assert result.outputs is None
    assert result.partial_outputs == {"answer": 5, "name": None}
    assert "name" in result.reason
    assert len(result.history) == 1


async def test_an_extraction_that_never_fits_fails_with_the_best_there_was(make):
    made = make(["n = 5"], trigger=FallbackTrigger(max_iterations=1), extraction=['{"answer": "five"}'] * 3)
    result = await made.run(doc="")
    assert isinstance(result, Failed)
    assert result.partial_outputs == {"answer": "five"}


async def test_the_clock_stops_a_running_cell_and_its_variables_are_there(make):
    made = make(
        ["found = 99\nwhile True:\n    try:\n        pass\n    except BaseException:\n        pass"],
        trigger=FallbackTrigger(max_duration=1.0),
        extraction=['{"answer": 99}'],
    )
    result = await made.run(doc="")
    assert isinstance(result, Extracted)
    assert isinstance(result.reason, Timeout)
    assert next(one.variable for one in result.evidence if not one.is_origin) == "found"


async def test_an_extraction_model_that_never_answers_is_not_waited_for_without_end(make, monkeypatch):
    class Silent(AsyncScriptedEngine):
        async def complete(self, request):
            await asyncio.Event().wait()

    monkeypatch.setattr("rlm.repl.llm._LONGEST_ANSWER_S", 0.3)
    made = make(["n = len(doc)\nprint(n)"], trigger=FallbackTrigger(max_iterations=1))
    made.extraction.profile = ModelProfile(engine=Silent(made.extraction.profile.engine))
    result = await made.run(doc="four")
    assert isinstance(result, Failed)
    assert "no answer in 0.3 seconds" in result.reason
    assert result.history[0].output == "4"


async def test_calls_of_a_cell_that_was_stopped_do_not_go_on_during_the_extraction(make):
    ended = asyncio.Event()

    async def slow() -> None:
        try:
            await asyncio.Future()
        finally:
            ended.set()

    trigger = FallbackTrigger(max_duration=1.0)
    made = make(["n = 41\nslow()"], tools={"slow": slow}, trigger=trigger, extraction=['{"answer": 41}'])
    answer = made.extraction.profile.engine.complete

    async def complete(request):
        await asyncio.wait_for(ended.wait(), 30)
        return await answer(request)

    made.extraction.profile.engine.complete = complete
    result = await made.run(doc="")
    assert isinstance(result, Extracted), result
    assert [one.variable for one in result.evidence if one.kind == "variable"] == ["n"]


async def test_consecutive_errors_can_be_a_limit(make):
    made = make(["1/0"] * 5, trigger=FallbackTrigger(max_consecutive_errors=2), extraction=['{"answer": 1}'])
    assert (await made.run(doc="")).reason == MaxConsecutiveErrors(2, 2)


# -- things that go wrong


async def test_bad_inputs_are_an_error_before_anything_runs(make):
    made = make([])
    with pytest.raises(InvalidInputs, match="doc"):
        await made.run(doc=5)
    with pytest.raises(InvalidInputs, match="other"):
        await made.run(doc="x", other=1)
    assert made.events == []


@pytest.mark.parametrize("value", [object(), {"deep": [len]}, {"deep": b"\xff"}], ids=["object", "function", "bytes"])
async def test_an_input_that_no_code_can_be_given_is_one_of_them(make, value):
    made = make(["SUBMIT(answer=1)"], signature="doc: Any -> answer: int")
    with pytest.raises(InvalidInputs, match="At path '/doc': expected text, bytes, or a value that JSON can carry"):
        await made.run(doc=value)
    assert made.events == []


async def test_bytes_stay_bytes(make):
    made = make(["SUBMIT(answer=doc[0] + len(doc))"], signature="doc: Any -> answer: int")
    assert (await made.run(doc=b"\xff\xfe")).outputs.answer == 257


async def test_a_timeout_of_somebody_else_is_no_end_of_the_runs_time(make):
    async def act(conversation, settings, adapter):
        raise TimeoutError("the proxy gave up")

    result = await make([], main_call=act).run(doc="")
    assert isinstance(result, Failed), result
    assert "the proxy gave up" in result.reason


async def test_a_field_that_hides_a_function_is_refused(make):
    with pytest.raises(SignatureError, match="budget"):
        await make([], signature="budget -> answer: int").run(budget="x")


async def test_a_model_that_cannot_be_asked_ends_as_failed_with_everything_kept(make):
    result = await make(["n = 5\nprint(n)"]).run(doc="")
    assert isinstance(result, Failed)
    assert "could not be asked" in result.reason
    assert [entry.output for entry in result.history] == ["5"]


async def test_a_kernel_that_dies_is_rebuilt_from_the_record_without_asking_again(make):
    made = make(
        ["n = int(llm_query('how many?'))\nprint(n)", "import os\nos.abort()", "SUBMIT(answer=n + 1)"],
        sub={"*": "41"},
        policy="off",
    )
    result = await made.run(doc="")
    assert isinstance(result, Submitted), result
    assert result.outputs.answer == 42
    assert len(made.asked("sub")) == 1
    assert "The kernel ended with this cell" in made.last_observation()


async def test_a_kernel_that_keeps_dying_ends_as_failed(make):
    result = await make(["import os\nos.abort()"] * 10, policy="off").run(doc="")
    assert isinstance(result, Failed)
    assert "kernel died" in result.reason
    assert len(result.history) == 4


async def test_a_cell_that_sleeps_does_not_stall_the_event_loop(make):
    async with turns_of_the_loop() as turns:
        await make(["import time\ntime.sleep(0.5)\nSUBMIT(answer=1)"]).run(doc="")
    assert turns.were_taken()


async def test_an_input_that_hides_a_function_of_python_is_named_as_such(make):
    made = make(["SUBMIT(answer=sum)"], "sum: int, note: str -> answer: int")
    await made.run(sum=3, note="x")
    prompt = made.asked()[0].messages[0].text
    assert "- sum (int), and not Python's own `sum`, which is hidden by it: 3" in prompt
    assert '- note (str, 1 characters): "x"' in prompt


async def test_many_runs_at_once_share_nothing(make):
    made = make({"*": "```python\nimport time\nmine = int(doc)\ntime.sleep(0.05)\nSUBMIT(answer=mine)\n```"})
    results = await asyncio.gather(*(made.run(doc=str(i)) for i in range(12)))
    assert [result.outputs.answer for result in results] == list(range(12))
    assert len({result.run_id for result in results}) == 12


async def test_the_history_says_what_changed_and_what_was_called(make):
    cells = ["a = 1\nb = llm_query('x')", "a = 2\ndel b"]
    made = make(cells, trigger=FallbackTrigger(max_iterations=2), extraction=["no json"] * 3)
    result = await made.run(doc="")
    first, second = result.history
    assert (first.variables_changed.added, [call.name for call in first.calls]) == (("a", "b"), ["llm_query"])
    assert (second.variables_changed.changed, second.variables_changed.removed) == (("a",), ("b",))


async def test_the_history_has_changes_in_the_midst_of_a_long_list(make):
    cells = ["rows = list(range(3000))", "rows[1500] = 0", "x = rows[1500]"]
    made = make(cells, trigger=FallbackTrigger(max_iterations=3), extraction=["no json"] * 3)
    result = await made.run(doc="")
    assert [entry.variables_changed.changed for entry in result.history] == [(), ("rows",), ()]


async def test_the_extraction_has_values_that_are_longer_than_what_cells_bring_along(make):
    cells = ["names = [f'ship number {n}' for n in range(200)]\nprint(len(names))"]
    answer = json.dumps({"answer": [f"ship number {n}" for n in range(200)]})
    made = make(cells, "doc: str -> answer: list[str]", trigger=FallbackTrigger(max_iterations=1), extraction=[answer])
    result = await made.run(doc="")
    assert isinstance(result, Extracted), result
    assert [one.variable for one in result.evidence if not one.is_origin] == ["names"], result.evidence


async def test_results_serialize_and_come_back(make):
    from rlm.results import from_json

    made = make(["n = 7"], trigger=FallbackTrigger(max_iterations=1), extraction=['{"answer": 7}'])
    result = await made.run(doc="")
    assert from_json(result.to_json(), made.driver.signature).to_dict() == result.to_dict()


async def test_a_sandbox_limit_is_told_to_the_model(make):
    made = make(["x = bytearray(10**10)", "SUBMIT(answer=1)"], limits=sandbox.Limits(memory_bytes=200 << 20))
    assert isinstance(await made.run(doc=""), Submitted)
    assert "MemoryError" in made.last_observation()


async def test_a_limit_that_ends_in_an_error_is_told_besides_it_and_once(make):
    threads = "import threading, time\nfor _ in range(100):\n    threading.Thread(target=time.sleep, args=(1,)).start()"
    made = make([threads, "while True:\n    pass", "SUBMIT(answer=1)"], limits=sandbox.Limits(cell_seconds=0.5))
    assert isinstance(await made.run(doc=""), Submitted)
    first, second = (
        event.data["output"] for event in made.events[:-1] if event.kind == "cell_ended" and event.data["error"]
    )
    assert "can't start new thread" in first
    assert "processes and threads" in first
    assert second.count("the cell ran longer than") == 1


async def test_seconds_are_counted(make):
    began = time.monotonic()
    result = await make(["SUBMIT(answer=1)"]).run(doc="")
    assert 0 < result.usage.seconds <= time.monotonic() - began
