"""What dspy's `CodeInterpreter` promises, and what `dspy.RLM`, `dspy.Flex` and their users rely on beyond it."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import enum
import math
import threading
import time
from typing import Any, NamedTuple

import dspy
import pydantic
import pytest
from dspy.primitives.code_interpreter import CodeExecutionError, CodeInterpreter, CodeInterpreterError, FinalOutput
from dspy.utils.callback import BaseCallback

import rlm
import sandbox
from rlm.models.scripted import scripted_lm


@pytest.fixture
def interpreter(pool):
    opened = []

    def make(*args, **options):
        opened.append(rlm.SandboxInterpreter(*args, pool=pool, **options))
        return opened[-1]

    yield make
    for one in opened:
        one.shutdown()


def test_it_is_a_code_interpreter(interpreter):
    one = interpreter()
    assert isinstance(one, CodeInterpreter)
    assert one.tools == {}
    assert isinstance(rlm.SandboxInterpreter.execution_instructions, str)


# Values ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("6 * 7", 42),
        ("'text'", "text"),
        ("[1, 'two', None]", [1, "two", None]),
        ("{'a': {'b': 2.5}}", {"a": {"b": 2.5}}),
        ("(1, 2)", [1, 2]),
        ("0", 0),
        ("''", ""),
        ("False", False),
        ("{1, 2}", "{1, 2}"),
        ("float('inf')", "inf"),
        ("print('x')", "x"),
        ("print('a'); print('b')", "a\nb"),
        ("print('lost'); 5", 5),
        ("x = 1", None),
        ("None", None),
        ("", None),
        ("# nothing", None),
    ],
)
def test_execute_returns_the_value_or_what_was_printed(interpreter, code, value):
    result = interpreter().execute(code)
    assert (result, type(result)) == (value, type(value))


def test_a_value_that_is_too_long_is_shown_as_text(interpreter):
    result = interpreter(limits=sandbox.Limits(output_bytes=10_000)).execute("list(range(100_000))")
    assert result.startswith("[0, 1, 2")
    assert len(result) <= 10_100


def test_the_interpreter_can_be_called(interpreter):
    assert interpreter()("n + 1", {"n": 1}) == 2


def test_state_stays_between_executions_and_instances_share_none(interpreter):
    first, second = interpreter(), interpreter()
    first.execute("x = 1")
    assert first.execute("x + 1") == 2
    with pytest.raises(CodeExecutionError, match="NameError"):
        second.execute("x")


# Errors ------------------------------------------------------------------------------------------------------------


def test_errors_of_the_code_leave_the_interpreter_usable(interpreter):
    one = interpreter()
    one.execute("x = 1")
    with pytest.raises(SyntaxError):
        one.execute("if")
    with pytest.raises(CodeExecutionError, match="before\nZeroDivisionError"):
        one.execute("print('before')\n1 / 0")
    assert one.execute("x") == 1


@pytest.mark.parametrize("code", ["import sys; sys.exit()", "raise SystemExit(2)", "print('bye'); exit(0)"])
def test_code_that_exits_has_failed(interpreter, code):
    one = interpreter()
    with pytest.raises(CodeExecutionError, match="SystemExit"):
        one.execute(f"x = 1\n{code}")
    assert one.execute("x") == 1


def test_code_that_breaks_the_builtins_does_not_end_the_interpreter(interpreter):
    one = interpreter()
    one.execute("import builtins\nbuiltins.len = None")
    assert one.execute("len('abc')") == 3


def test_a_kernel_that_is_gone_is_no_error_of_the_code_and_is_not_replaced(interpreter):
    one = interpreter()
    for code in ("import os; os.abort()", "1"):
        with pytest.raises(CodeInterpreterError) as caught:
            one.execute(code)
        assert not isinstance(caught.value, CodeExecutionError)
    with pytest.raises(CodeInterpreterError):
        one.start()


def test_an_execution_that_takes_too_long_is_stopped_with_its_tools(interpreter):
    one = interpreter({"wait": lambda: time.sleep(30)}, execution_timeout=0.5)
    one.execute("x = 1")
    began = time.monotonic()
    with pytest.raises(CodeExecutionError, match=r"TimeLimit: the code exceeded execution timeout, 0\.5 s"):
        one.execute("wait()")
    assert time.monotonic() - began < 10
    assert one.execute("x") == 1


# Lifecycle ---------------------------------------------------------------------------------------------------------


def test_start_can_be_called_again(interpreter):
    one = interpreter()
    one.start()
    one.execute("x = 1")
    one.start()
    assert one.execute("x") == 1


@pytest.mark.parametrize("used", [True, False])
def test_shutdown_is_for_good(interpreter, used):
    one = interpreter()
    if used:
        one.execute("x = 1")
    one.shutdown()
    one.shutdown()
    for use in (one.start, lambda: one.execute("1")):
        with pytest.raises(CodeInterpreterError, match="shut down"):
            use()


def test_shutdown_from_another_thread_ends_what_is_executed(interpreter):
    one = interpreter()
    called = threading.Event()
    one.tools["call"] = called.set
    failures = []

    def execute():
        try:
            one.execute("call()\nwhile True: pass")
        except CodeInterpreterError as error:
            failures.append(error)

    thread = threading.Thread(target=execute)
    thread.start()
    assert called.wait(20)
    one.shutdown()
    thread.join(20)
    assert not thread.is_alive()
    assert not isinstance(failures[0], CodeExecutionError)


# Variables ---------------------------------------------------------------------------------------------------------


class Color(enum.Enum):
    RED = "red"


class Point(pydantic.BaseModel):
    x: int
    when: datetime.date | None = None


@dataclasses.dataclass
class Pair:
    left: int
    right: Point


class Place(NamedTuple):
    row: int
    column: int


ITSELF: list[Any] = []
ITSELF.append(ITSELF)

MIXED: list[tuple[Any, Any]] = [
    (Point(x=1, when=datetime.date(2026, 1, 2)), {"x": 1, "when": "2026-01-02"}),
    ([Point(x=1)], [{"x": 1, "when": None}]),
    (Pair(1, Point(x=2)), {"left": 1, "right": {"x": 2, "when": None}}),
    ({3}, [3]),
    (datetime.date(2026, 1, 2), "2026-01-02"),
    (datetime.datetime(2026, 1, 2, 3, 4), "2026-01-02T03:04:00"),
    (Color.RED, "red"),
    (Place(1, 2), [1, 2]),
    ((1, (2,)), [1, [2]]),
    ({1: "one"}, {"1": "one"}),
]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (Point(x=1, when=datetime.date(2026, 1, 2)), "{'x': 1, 'when': datetime.date(2026, 1, 2)}"),
        ([Point(x=1)], "[{'x': 1, 'when': None}]"),
        (Pair(1, Point(x=2)), "{'left': 1, 'right': {'x': 2, 'when': None}}"),
        ({3}, "{3}"),
        ((1, (2,)), "(1, (2,))"),
        (datetime.datetime(2026, 1, 2, 3, 4), "datetime.datetime(2026, 1, 2, 3, 4)"),
        (Color.RED, "'red'"),
        ({1: "one"}, "{1: 'one'}"),
    ],
)
def test_variables_keep_their_types_as_far_as_plain_data_has_them(interpreter, value, written):
    assert interpreter().execute("repr(value)", {"value": value}) == written


@pytest.mark.parametrize(("value", "plain"), MIXED)
def test_tools_may_return_what_pydantic_can_write_as_json(interpreter, value, plain):
    assert interpreter({"tool": lambda: value}).execute("tool()") == plain


def test_tables_and_arrays_become_rows_and_lists(interpreter):
    pandas, numpy = pytest.importorskip("pandas"), pytest.importorskip("numpy")
    table = pandas.DataFrame({"n": [1, 2], "day": pandas.to_datetime(["2026-01-02", "2026-01-03"])})
    rows = [{"n": 1, "day": "2026-01-02T00:00:00"}, {"n": 2, "day": "2026-01-03T00:00:00"}]
    one = interpreter({"tool": lambda: {"table": table, "total": numpy.int64(3)}})
    assert one.execute("value", {"value": table}) == rows
    assert one.execute("value", {"value": numpy.array([[1, 2]])}) == [[1, 2]]
    assert one.execute("value", {"value": table["n"]}) == [1, 2]
    assert one.execute("tool()") == {"table": rows, "total": 3}


def test_large_texts_bytes_and_odd_numbers_arrive_as_they_are(interpreter):
    text = "ü" * 500_000
    variables = {"text": text, "data": b"\x00\xff", "nan": math.nan, "infinite": -math.inf}
    code = "[len(text), list(data), nan != nan, infinite < 0]"
    assert interpreter().execute(code, variables) == [500_000, [0, 255], True, True]


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ({"bad": object()}, "'bad'.*object"),
        ({"bad": ITSELF}, "'bad'"),
        ({"not a name": 1}, "'not a name'"),
        ({"class": 1}, "'class'"),
        ({"SUBMIT": 1}, "'SUBMIT'"),
        ({"__builtins__": {}}, "'__builtins__'"),
        ({"add": 1}, "'add' is a tool"),
        ([1], "list"),
    ],
)
def test_variables_that_cannot_be_given_are_an_error_and_not_the_codes(interpreter, variables, why):
    one = interpreter({"add": lambda: 1})
    with pytest.raises(CodeInterpreterError, match=why) as caught:
        one.execute("1", variables)
    assert not isinstance(caught.value, CodeExecutionError)
    assert one.execute("add()") == 1


@pytest.mark.parametrize("code", [None, 3, b"1"])
def test_code_is_a_text(interpreter, code):
    with pytest.raises(CodeInterpreterError, match="text"):
        interpreter().execute(code)


# Tools -------------------------------------------------------------------------------------------------------------


def add(left: int, right: int = 10) -> int:
    """Add two numbers."""
    return left + right


@pytest.mark.parametrize("call", ["add(1, 2)", "add(1, right=2)", "add(left=1, right=2)", "add(right=1, left=2)"])
def test_tools_are_called_by_position_and_by_name(interpreter, call):
    assert interpreter({"add": add}).execute(call) == 3


def test_tools_of_dspy_take_arguments_by_position_though_they_want_names(interpreter):
    lm = scripted_lm([_reply("print(add(1, 2), add(5))"), _reply("SUBMIT('done')")])
    with dspy.context(lm=lm):
        module = dspy.RLM("doc -> answer", tools=[add], interpreter_factory=interpreter, max_iters=2)
        assert module(doc="x").trajectory[0]["output"] == "3 15"
    assert interpreter({"add": dspy.Tool(add)}).execute("add(1, 2)") == 3


def test_tools_can_take_any_number_of_arguments(interpreter):
    one = interpreter({"count": lambda *values, **named: [len(values), sorted(named)]})
    assert one.execute("count(1, 2, 3, a=1)") == [3, ["a"]]


def test_mistakes_in_a_call_are_errors_of_the_code(interpreter):
    one = interpreter({"add": add})
    for call in ("add()", "add(1, 2, 3)", "add(1, left=2)", "add(nobody=1)"):
        with pytest.raises(CodeExecutionError, match="TypeError"):
            one.execute(call)
    with pytest.raises(CodeExecutionError, match="ValueError: no"):
        interpreter({"fail": _raise(ValueError("no"))}).execute("fail()")


def test_code_reads_what_a_tool_is(interpreter):
    assert interpreter({"add": add}).execute("[add.__name__, add.__doc__]") == ["add", "Add two numbers."]


def test_asynchronous_tools_are_awaited_also_inside_of_an_event_loop(interpreter):
    async def slow(n):
        await asyncio.sleep(0.01)
        return Point(x=n)

    one = interpreter({"slow": slow, "returns_awaitable": lambda: slow(2)})
    assert one.execute("slow(1)['x'] + returns_awaitable()['x']") == 3

    async def in_a_loop():
        return one.execute("slow(n=3)['x']")

    assert asyncio.run(in_a_loop()) == 3


def test_tools_come_and_go_as_they_are_set(interpreter):
    one = interpreter()
    one.start()
    one.tools["first"] = lambda: 1
    assert one.execute("kept = 40\nfirst()") == 1
    one.tools.clear()
    one.tools.update(second=lambda: 2)
    assert one.execute("kept + second()") == 42
    with pytest.raises(CodeExecutionError, match="NameError"):
        one.execute("first()")
    one.tools["second"] = lambda: 3
    assert one.execute("second()") == 3


def test_code_that_writes_over_a_tool_has_lost_it_for_this_execution_only(interpreter):
    one = interpreter({"add": add})
    assert one.execute("add = 5\nadd") == 5
    assert one.execute("add(1, 2)") == 3


@pytest.mark.parametrize("name", ["not a name", "class", "SUBMIT", "__builtins__", "", 3])
def test_names_that_no_code_can_call_are_refused(interpreter, name):
    with pytest.raises(ValueError, match="tools have invalid names: "):
        interpreter({name: add})
    one = interpreter()
    one.tools[name] = add
    with pytest.raises(ValueError, match="tools have invalid names: "):
        one.execute("1")
    one.tools = {"add": add}
    assert one.execute("add(1, 2)") == 3


def test_what_is_no_function_is_no_tool(interpreter):
    with pytest.raises(ValueError, match="tools: 'n'"):
        interpreter({"n": 3})


def test_a_tool_that_uses_its_own_interpreter_gets_an_error(interpreter):
    one = interpreter()
    one.tools["again"] = lambda: one.execute("1")
    began = time.monotonic()
    with pytest.raises(CodeExecutionError, match="executing code already"):
        one.execute("again()")
    assert time.monotonic() - began < 10
    assert one.execute("2") == 2


def test_a_tool_returns_what_it_cannot_send(interpreter):
    with pytest.raises(CodeExecutionError, match="object"):
        interpreter({"tool": object}).execute("tool()")


@pytest.mark.parametrize("kind", [KeyboardInterrupt, asyncio.CancelledError])
def test_an_interruption_in_a_tool_is_the_callers(interpreter, kind):
    one = interpreter({"tool": _raise(kind())})
    with pytest.raises(kind):
        one.execute("try:\n    tool()\nexcept BaseException:\n    pass\n'hidden'")
    assert one.execute("1") == 1


def test_tools_see_the_settings_of_dspy_of_whoever_executes(interpreter):
    lm = scripted_lm({"*": "yes"})
    one = interpreter({"ask": lambda: dspy.settings.lm("?")[0]})
    with dspy.context(lm=lm):
        assert one.execute("ask()") == "yes"


# SUBMIT ------------------------------------------------------------------------------------------------------------

FIELDS = [{"name": "answer", "type": "str"}, {"name": "score", "type": "int"}]


@pytest.mark.parametrize("call", ["SUBMIT('yes', 42)", "SUBMIT(answer='yes', score=42)", "SUBMIT('yes', score=42)"])
def test_submit_gives_the_outputs_by_name(interpreter, call):
    assert interpreter(output_fields=FIELDS).execute(call) == FinalOutput({"answer": "yes", "score": 42})


@pytest.mark.parametrize("call", ["SUBMIT(42)", "SUBMIT(output=42)"])
def test_submit_takes_one_value_where_no_outputs_are_known(interpreter, call):
    assert interpreter().execute(call) == FinalOutput({"output": 42})


@pytest.mark.parametrize(
    ("fields", "call"),
    [
        (FIELDS, "SUBMIT('yes')"),
        (FIELDS, "SUBMIT('yes', 1, 2)"),
        (FIELDS, "SUBMIT(answer='yes')"),
        (FIELDS, "SUBMIT(answer='yes', score=1, more=2)"),
        (FIELDS, "SUBMIT('yes', answer='no', score=1)"),
        (FIELDS, "SUBMIT()"),
        (None, "SUBMIT()"),
        (None, "SUBMIT(1, 2)"),
        (None, "SUBMIT(a=1)"),
    ],
)
def test_a_submission_with_missing_or_further_values_is_refused(interpreter, fields, call):
    one = interpreter(output_fields=fields)
    with pytest.raises(CodeExecutionError, match=r"TypeError: SUBMIT\("):
        one.execute(call)
    assert one.execute("6 * 7") == 42


def test_outputs_can_be_set_later_as_dspy_does(interpreter):
    one = interpreter()
    one.execute("x = 1")
    one.output_fields = [{"name": "count", "type": "int"}]
    assert one.execute("SUBMIT(x)") == FinalOutput({"count": 1})


def test_nothing_runs_after_a_submission(interpreter):
    calls = []
    one = interpreter({"after": lambda: calls.append(1)})
    code = "try:\n    SUBMIT(42)\nexcept BaseException:\n    after()\nfinally:\n    after()\nafter()"
    assert one.execute(code) == FinalOutput({"output": 42})
    assert calls == []
    assert one.execute("1") == 1


def test_submitted_values_are_plain(interpreter):
    code = "import datetime\nSUBMIT({'days': [datetime.date(2026, 1, 2)], 'set': {1}})"
    assert interpreter().execute(code) == FinalOutput({"output": {"days": ["2026-01-02"], "set": [1]}})


# Callbacks ---------------------------------------------------------------------------------------------------------


class Watching(BaseCallback):
    def __init__(self):
        self.seen: list[tuple[Any, ...]] = []

    def on_interpreter_startup_start(self, call_id, instance, inputs):
        self.seen.append(("start", inputs))

    def on_interpreter_execute_start(self, call_id, instance, inputs):
        self.seen.append(("execute", inputs))

    def on_interpreter_execute_end(self, call_id, outputs, exception=None):
        self.seen.append(("executed", outputs, type(exception)))

    def on_interpreter_tool_call_start(self, call_id, instance, inputs):
        self.seen.append(("tool", inputs))

    def on_interpreter_tool_call_end(self, call_id, outputs, exception=None):
        self.seen.append(("called", outputs))

    def on_interpreter_shutdown_start(self, call_id, instance, inputs):
        self.seen.append(("shutdown", inputs))


def test_callbacks_see_all_that_the_interpreter_does(interpreter):
    watching = Watching()
    one = interpreter({"add": add}, callbacks=[watching])
    one.execute("add(1, n)", {"n": 2})
    one.shutdown()
    assert watching.seen == [
        ("execute", {"code": "add(1, n)", "variables": {"n": 2}}),
        ("start", {}),
        ("tool", {"tool_name": "add", "args": [1, 2], "kwargs": {}}),
        ("called", 3),
        ("executed", 3, type(None)),
        ("shutdown", {}),
    ]


def test_callbacks_of_the_settings_see_it_too(interpreter):
    watching = Watching()
    with dspy.context(callbacks=[watching]), pytest.raises(CodeExecutionError):
        interpreter().execute("1 / 0")
    assert watching.seen[-1] == ("executed", None, CodeExecutionError)


# dspy's modules ----------------------------------------------------------------------------------------------------


def _reply(code):
    return f"[[ ## reasoning ## ]]\nthinking\n\n[[ ## code ## ]]\n```python\n{code}\n```\n\n[[ ## completed ## ]]"


def _raise(error):
    def tool():
        raise error

    return tool


def test_dspy_rlm_runs_on_it_unchanged(interpreter):
    lm = scripted_lm([_reply("print(len(doc))"), _reply("SUBMIT(doc.count('a'))")])
    with dspy.context(lm=lm):
        prediction = dspy.RLM("doc -> count: int", interpreter_factory=interpreter, max_iters=4)(doc="banana")
    assert prediction.count == 3
    assert prediction.trajectory[0]["output"].strip() == "6"


def test_dspy_rlm_calls_its_sub_model_and_its_tools_through_it(interpreter):
    def shout(text: str) -> str:
        """Say it louder."""
        return text.upper()

    lm = scripted_lm([_reply("print(shout(text='hi'), llm_query('who?'))"), _reply("SUBMIT(answer='done')")])
    sub = scripted_lm({"*": "me"})
    with dspy.context(lm=lm):
        module = dspy.RLM("doc -> answer", interpreter_factory=interpreter, tools=[shout], sub_lm=sub, max_iters=4)
        prediction = module(doc="x")
    assert prediction.trajectory[0]["output"].strip() == "HI me"


@pytest.mark.filterwarnings("ignore:ProgramOfThought is deprecated:DeprecationWarning")
def test_program_of_thought_runs_on_it_unchanged(interpreter):
    def code(text):
        return f"[[ ## reasoning ## ]]\nthinking\n\n[[ ## generated_code ## ]]\n{text}\n\n[[ ## completed ## ]]"

    answer = "[[ ## reasoning ## ]]\nit printed it\n\n[[ ## answer ## ]]\n5050\n\n[[ ## completed ## ]]"
    wrong, right = "1 / 0", "```python\ntotal = sum(range(101))\nSUBMIT({'answer': total})\n```"
    lm = scripted_lm([code(wrong), code(right), answer])
    with dspy.context(lm=lm):
        module = dspy.ProgramOfThought("question -> answer: int", interpreter_factory=interpreter)
        prediction = module(question="1 + ... + 100?")
    assert prediction.answer == 5050
    told = [request.messages[-1].text for request in lm._engine_spec.requests]
    assert "division by zero" in told[1]
    assert "5050" in told[2]


@pytest.mark.filterwarnings("ignore:Passing OpenAI-style:DeprecationWarning")
def test_flex_runs_its_module_with_predictors_and_tools_of_the_host(interpreter):
    source = """
class Doubled(dspy.Module):
    def __init__(self):
        super().__init__()
        self.solve = dspy.Predict("value: int -> result: int")

    def forward(self, **inputs):
        print("working")
        predicted = self.solve(value=inputs["value"])
        return dspy.Prediction(result=add(left=predicted.result, right=2))
"""
    program = dspy.Flex("value: int -> result: int", tools=[add], interpreter_factory=interpreter)
    with dspy.context(lm=scripted_lm({"*": "[[ ## result ## ]]\n40\n\n[[ ## completed ## ]]"})):
        program._bind_code(source)
        assert program(value=20).result == 42


def test_rlm_takes_inputs_that_are_no_json(interpreter):
    lm = scripted_lm([_reply("print(point['x'], days, sorted(names))"), _reply("SUBMIT(answer='done')")])
    with dspy.context(lm=lm):
        module = dspy.RLM("point, days, names -> answer", interpreter_factory=interpreter, max_iters=2)
        prediction = module(point=Point(x=1), days=[datetime.date(2026, 1, 2)], names={"b", "a"})
    assert prediction.trajectory[0]["output"] == "1 [datetime.date(2026, 1, 2)] ['a', 'b']"


def test_rlm_calls_asynchronous_tools_and_sees_submissions_that_are_refused(interpreter):
    async def look_up(name: str) -> Point:
        """Look a point up."""
        return Point(x=len(name))

    lm = scripted_lm(
        [_reply("print(look_up('abc')['x'])"), _reply("SUBMIT()"), _reply("SUBMIT(count=look_up(name='ab')['x'])")]
    )
    with dspy.context(lm=lm):
        module = dspy.RLM("doc -> count: int", tools=[look_up], interpreter_factory=interpreter, max_iters=4)
        prediction = asyncio.run(module.acall(doc="x"))
    assert prediction.count == 2
    assert prediction.trajectory[0]["output"] == "3"
    assert "TypeError: SUBMIT(count)" in prediction.trajectory[1]["output"]


def test_it_can_be_the_interpreter_of_all_modules(interpreter):
    lm = scripted_lm([_reply("SUBMIT(doc.upper())")])
    with dspy.context(lm=lm, interpreter_factory=interpreter):
        assert dspy.RLM("doc -> answer", max_iters=2)(doc="abc").answer == "ABC"
