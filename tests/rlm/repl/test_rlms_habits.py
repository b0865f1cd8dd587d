"""What people and models that know other runtimes write: questions for child runs, values as tools, models by name."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import rlm
from rlm.models.scripted import scripted_lm
from tests.support.skilled_model import skilled_lm


def run(pool: Any, code: str, *, children: Any = None, **options: Any) -> Any:
    """Run one cell that submits `answer`; `children` are the replies of child runs."""
    replies = [f"```python\n{code}\n```", *(f"```python\n{reply}\n```" for reply in children or ())]
    options = {"lm": scripted_lm(replies), "sub_lm": scripted_lm({"*": "sub"}), "max_iterations": 1, **options}
    predict = rlm.Predict("doc -> answer: str", extraction_lm=scripted_lm({"*": "null"}), pool=pool, **options)
    return predict.run_with_fallback(doc="a document")


def answer(*arguments: Any, **options: Any) -> str:
    result = run(*arguments, **options)
    assert isinstance(result, rlm.Submitted), result
    return str(result.outputs.answer)


# rlm_query -----------------------------------------------------------------------------------------------------------


def test_a_question_is_handed_to_a_child_run_that_reads_it_as_an_input(pool):
    code = "SUBMIT(answer=rlm_query('Count: ' + 'x' * 50))"
    assert answer(pool, code, children=["SUBMIT(answer=str(prompt.count('x')))"]) == "50"


def test_a_question_may_come_with_inputs_and_is_then_what_the_child_is_to_do(pool):
    prompts = []

    def skill(prompt: str) -> str:
        prompts.append(prompt)
        return (
            "```python\nSUBMIT(answer=rows[1]['name'])\n```"
            if len(prompts) > 1
            else ("```python\nSUBMIT(answer=rlm_query('Who is second?', rows=[{'name': 'a'}, {'name': 'b'}]))\n```")
        )

    assert answer(pool, "", lm=skilled_lm(skill)) == "b"
    assert "Who is second?" in prompts[1]


def test_a_signature_works_as_before(pool):
    code = "SUBMIT(answer=str(rlm_query('text -> n: int', text='four')))"
    assert answer(pool, code, children=["SUBMIT(n=len(text))"]) == "{'n': 4}"


def test_the_keyword_prompt_and_a_model_by_name_are_taken(pool):
    other = scripted_lm(["```python\nSUBMIT(answer='from the other')\n```"], name="scripted/other")
    code = "SUBMIT(answer=rlm_query(prompt='Say it', model='other'))"
    assert answer(pool, code, other_lms={"other": other}) == "from the other"


def test_where_no_child_run_can_be_started_a_question_is_asked_plainly_and_it_is_not_described(pool):
    prompts: list[str] = []

    def skill(prompt: str) -> str:
        prompts.append(prompt)
        return "```python\nSUBMIT(answer=rlm_query('Say it'))\n```"

    assert answer(pool, "", lm=skilled_lm(skill), depth=0) == "sub"
    assert "rlm_query" not in prompts[0]
    result = run(pool, "rlm_query('text -> n: int', text='four')", depth=0)
    assert "DepthExceeded" in result.history[0].output


def test_many_questions_are_asked_in_runs_of_their_own_and_one_that_fails_is_none(pool):
    def skill(prompt: str) -> str:
        if "a document" in prompt:
            code = "got = rlm_query_batched(['one', 'two', 3])\nSUBMIT(answer=f'{got} {llm_errors()}')"
            return f"```python\n{code}\n```"
        return "```python\nSUBMIT(answer=prompt.upper())\n```"

    text = answer(pool, "", lm=skilled_lm(skill))
    assert text.startswith("['ONE', 'TWO', None]")
    assert "'2': 'rlm_query: a signature or a question, not int'" in text


# The REPL ------------------------------------------------------------------------------------------------------------


def test_show_vars_names_what_there_is(pool):
    code = "import re\nfound = [1]\ndef mine(): pass\nSUBMIT(answer=str(SHOW_VARS()))"
    assert answer(pool, code) == "{'doc': 'str', 'found': 'list'}"


def test_names_of_the_repl_cannot_be_fields(pool):
    for name in ("SHOW_VARS", "rlm_query_batched"):
        with pytest.raises(ValueError, match=name):
            rlm.Predict(f"doc -> {name}: int", lm=scripted_lm([]), pool=pool).run_with_fallback(doc="x")


# Tools ---------------------------------------------------------------------------------------------------------------


def shout(text: str) -> str:
    """Say it louder."""
    return text.upper()


async def later(text: str) -> str:
    """Say it later."""
    await asyncio.sleep(0)
    return f"{text}!"


def test_tools_may_be_values_and_may_be_described_in_other_words(pool):
    prompts: list[str] = []

    def skill(prompt: str) -> str:
        prompts.append(prompt)
        return "```python\nSUBMIT(answer=loud(later('a')) + str(rates['EUR'] + len(codes)))\n```"

    tools = {
        "loud": {"tool": shout, "description": "Shouts, as my colleagues do."},
        "later": later,
        "rates": {"tool": {"EUR": 2}, "description": "Exchange rates of today."},
        "codes": {"a", "b"},
    }
    assert answer(pool, "", lm=skilled_lm(skill), tools=tools) == "A!4"
    assert "- loud(text: str) -> str: Shouts, as my colleagues do." in prompts[0]
    assert "Say it louder" not in prompts[0]
    assert "Say it later." in prompts[0]
    assert "Exchange rates of today." in prompts[0]
    assert "- codes" in prompts[0]
    assert shout.__doc__ == "Say it louder."


@pytest.mark.parametrize(
    ("tools", "why"),
    [
        ({"doc": 1}, "'doc' is an input, too"),
        ({"budget": 1}, "'budget' is a name of the REPL"),
        ({"not a name": 1}, "'not a name' is not a Python name"),
        ({"thing": object()}, "'thing' is neither a function nor a plain value"),
        ({"thing": {"tool": object(), "description": "?"}}, "'thing' is neither"),
    ],
)
def test_values_that_code_cannot_have_are_refused_at_once(tools, why):
    with pytest.raises(ValueError, match=why):
        rlm.Predict("doc -> answer: str", tools=tools)


def test_child_runs_can_have_tools_of_their_own(pool):
    code = "SUBMIT(answer=rlm_query('Say it'))"
    look = "try:\n    found = shout('a')\nexcept NameError:\n    found = 'none'\n"
    child_tools = {"only_child": lambda text: text * 2, "limit": 7}
    own = [f"{look}SUBMIT(answer=found + only_child('b') + str(limit))"]
    assert answer(pool, code, children=own, tools=[shout], child_tools=child_tools) == "nonebb7"
    assert answer(pool, code, children=[f"{look}SUBMIT(answer=found)"], tools=[shout]) == "A"
    assert answer(pool, code, children=[f"{look}SUBMIT(answer=found)"], tools=[shout], child_tools={}) == "none"


# Models --------------------------------------------------------------------------------------------------------------


def test_code_asks_other_models_by_their_names(pool):
    prompts: list[str] = []

    def skill(prompt: str) -> str:
        prompts.append(prompt)
        code = "a, b = llm_query('q', model='large'), llm_query('q', model='scripted/tiny')\nSUBMIT(answer=a + b)"
        return f"```python\n{code}\n```"

    others = {"large": scripted_lm({"*": "L"}), "small": scripted_lm({"*": "S"}, name="scripted/tiny")}
    assert answer(pool, "", lm=skilled_lm(skill), other_lms=others) == "LS"
    assert "'sub', 'main', 'large', 'small'" in prompts[0]


def test_an_unknown_model_is_refused_before_it_is_counted(pool):
    result = run(pool, "llm_query('q', model='huge')", other_lms={"large": scripted_lm({"*": "L"})})
    assert "choose one of 'sub', 'main', 'large'" in result.history[0].output
    assert result.usage.llm_calls == 0


def test_a_name_is_no_model():
    with pytest.raises(TypeError, match=r"other_lms\['large'\]=dspy\.LM\('openai/large'\)"):
        rlm.Predict("doc -> n: int", other_lms={"large": "openai/large"})


def test_no_more_questions_are_asked_at_once_than_allowed(pool):
    running, most = 0, 0

    class Counting:
        async def complete(self, request: Any) -> Any:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.02)
            running -= 1
            from dspy.lm15 import Message, Response, Usage

            return Response(None, request.model, Message.assistant("x"), "stop", Usage(input_tokens=1, output_tokens=1))

        async def aclose(self) -> None:
            """Do nothing."""

    sub = scripted_lm({"*": "sub"})
    sub.profile = rlm.models.profile.ModelProfile(engine=Counting())
    code = "SUBMIT(answer=''.join(llm_batch(['q'] * 12, max_parallel=10)))"
    assert answer(pool, code, sub_lm=sub, max_parallel=3) == "x" * 12
    assert most == 3
    with pytest.raises(ValueError, match="max_parallel"):
        rlm.Predict("doc -> n: int", max_parallel=0)


# Prompts and setup ---------------------------------------------------------------------------------------------------


def first_prompt(pool: Any, **options: Any) -> str:
    prompts: list[str] = []

    def skill(prompt: str) -> str:
        prompts.append(prompt)
        return "```python\nSUBMIT(answer='x')\n```"

    assert answer(pool, "", lm=skilled_lm(skill), **options) == "x"
    return prompts[0]


def test_the_system_prompt_can_be_ones_own(pool):
    own = "You are a pirate who writes Python. $unknown costs $5.\n$functions\nEnd with $submit."
    prompt = first_prompt(pool, system_prompt=own, tools=[shout])
    assert prompt.startswith("You are a pirate who writes Python. $unknown costs $5.\n- SUBMIT(")
    assert "- shout(text: str) -> str: Say it louder." in prompt
    assert "End with SUBMIT(answer=...)." in prompt
    assert "You work in a Python REPL" not in prompt


def test_functions_come_last_where_a_system_prompt_does_not_say_where(pool):
    prompt = first_prompt(pool, system_prompt="Be brief.", tools=[shout])
    assert prompt.startswith("Be brief.\n\nFunctions in the REPL:\n- SUBMIT(")


def test_setup_code_runs_before_the_first_cell_and_again_in_a_new_kernel(pool):
    setup = "import math\nRATE = 2\ndef double(n):\n    return n * RATE"
    assert answer(pool, "SUBMIT(answer=str(double(math.floor(2.5))))", setup_code=setup) == "4"
    lm = scripted_lm(["```python\nimport os; os.abort()\n```", "```python\nSUBMIT(answer=str(double(3)))\n```"])
    assert answer(pool, "", lm=lm, setup_code=setup, policy="off", max_iterations=3) == "6"


def test_setup_code_that_fails_ends_the_run_with_its_error(pool):
    result = run(pool, "SUBMIT(answer='x')", setup_code="1 / 0")
    assert isinstance(result, rlm.Failed)
    assert "setup_code failed: ZeroDivisionError" in result.reason


def test_all_of_it_is_kept_when_a_program_is_copied(pool):
    lm = scripted_lm(["```python\nSUBMIT(answer=str(n))\n```"])
    predict = rlm.Predict("doc -> answer: str", lm=lm, tools={"n": 3}, pool=pool)
    assert predict.deepcopy()(doc="x").answer == "3"
