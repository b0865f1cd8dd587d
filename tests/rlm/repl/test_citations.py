"""Citations: outputs that are submitted with quotes, which are looked up in the inputs."""

from __future__ import annotations

import pickle
from typing import Any

import dspy
import pytest

import rlm
import sandbox
from rlm.models.scripted import scripted_lm
from rlm.provenance.quotes import Texts
from rlm.repl.config import RunConfig
from rlm.results import Extracted, Submitted, from_json
from rlm.signatures import Signature, SignatureError
from rlm.tasks import TaskError
from rlm.tasks import load as load_task

REPORT = "The ship left Bergen in May.\nIt lost three\n   masts \u2018near Faro\u2019.\nThe crew came home in June."


def cell(code: str) -> str:
    return f"```python\n{code}\n```"


async def run(pool: sandbox.Pool, *codes: str, signature: str = "report -> masts: Cited[int]", **options: Any) -> Any:
    model = scripted_lm([cell(code) for code in codes])
    config = RunConfig(Signature.of(signature), model, pool=pool, **options)
    result = await config.run({"report": REPORT})
    asked = ["\n".join(message.text or "" for message in one.messages) for one in model._engine_spec.requests]
    return result, asked


def quotes(result: Any) -> list[Any]:
    return [piece for piece in result.evidence if piece.kind == "quoted" and "/quotes/" in piece.path]


async def test_a_quote_comes_back_with_its_place(pool: sandbox.Pool) -> None:
    texts = "['came home in June', \"masts 'near Faro'\"]"
    code = f"SUBMIT(masts={{'value': len(report.split('masts')) + 1, 'quotes': {texts}}})"
    result, asked = await run(pool, code, checks=("masts > 0",))
    assert isinstance(result, Submitted)
    assert (result.outputs.masts.value, len(result.outputs.masts.quotes)) == (3, 2)
    exact, alike = quotes(result)
    assert (exact.input, exact.line, REPORT[slice(*exact.span)], exact.note) == ("report", 4, "came home in June", None)
    assert (alike.path, alike.line, alike.note) == (
        "/masts/quotes/1",
        3,
        "but for spaces, quotation marks or dashes",
    )
    assert REPORT[slice(*alike.span)] == alike.quote == "masts \u2018near Faro\u2019"
    (value,) = [piece for piece in result.evidence if piece.path == "/masts/value"]
    assert (value.kind, value.inputs) == ("computed", ("report",))
    assert "copied word for word from the inputs" in asked[0]
    read = from_json(result.to_json(), Signature.of("report -> masts: Cited[int]"))
    assert read.to_dict() == result.to_dict()


async def test_a_quote_that_is_nowhere_is_refused_with_the_nearest_text(pool: sandbox.Pool) -> None:
    wrong = "SUBMIT(masts={'value': 3, 'quotes': ['The ship left Bergen in March.']})"
    right = "SUBMIT(masts={'value': 3, 'quotes': ['The ship left Bergen in May.']})"
    result, asked = await run(pool, wrong, right)
    assert isinstance(result, Submitted)
    assert "The quote at '/masts/quotes/0' is in none of the inputs: 'The ship left Bergen in March.'" in asked[1]
    assert "The nearest text is in report, line 1: 'The ship left Bergen in May.'" in asked[1]


@pytest.mark.parametrize("quoted", ["[]", "['']", "['...']", "'The ship'"])
async def test_a_value_without_a_quote_is_refused(pool: sandbox.Pool, quoted: str) -> None:
    result, _ = await run(
        pool,
        f"SUBMIT(masts={{'value': 3, 'quotes': {quoted}}})",
        trigger=rlm.FallbackTrigger(max_iterations=1),
        extraction_model=scripted_lm(['{"masts": {"value": 3, "quotes": ["The crew came home"]}}']),
    )
    assert isinstance(result, Extracted)
    assert quotes(result)[0].line == 4


async def test_code_can_look_up_a_quote(pool: sandbox.Pool) -> None:
    found = (
        "a = verify_quote('left Bergen')\nb = verify_quote('left  \\n Bergen')\n"
        "c = verify_quote('The ship left Oslo')\n"
        "SUBMIT(n=a['found'] + b['found'] + c['found'], line=c['nearest']['line'])"
    )
    result, asked = await run(pool, found, signature="report -> n: int, line: int")
    assert (result.outputs.n, result.outputs.line) == (2, 1)
    assert "verify_quote" not in asked[0], "described where quotes are wanted"


def test_in_a_class_and_in_a_task_file(pool: sandbox.Pool, tmp_path: Any) -> None:
    class Losses(dspy.Signature):
        """Count the masts."""

        report: str = dspy.InputField()
        masts: rlm.Cited[int] = dspy.OutputField()

    lm = scripted_lm([cell("SUBMIT(masts={'value': 3, 'quotes': ['lost three']})")])
    result = rlm.Predict(Losses, lm=lm, pool=pool).run_with_fallback(report=REPORT)
    assert result.outputs.masts.value == 3
    text = 'signature: "doc -> n: int, name: str"\ninputs: {doc: "a b"}\nmodels: openai/gpt-5-mini\ncite: [n]\n'
    (tmp_path / "task.yaml").write_text(text)
    assert load_task(tmp_path / "task.yaml").signature.cited == {"n"}
    (tmp_path / "task.yaml").write_text(text.replace("[n]", "[m]"))
    with pytest.raises(TaskError, match="cite: 'm' is no output of 'Task'; these are n, name"):
        load_task(tmp_path / "task.yaml")
    assert pickle.loads(pickle.dumps(result.outputs.masts)) == result.outputs.masts
    signature = Signature.of("doc -> n: Cited[list[str]]")
    assert pickle.loads(pickle.dumps(signature)).output_schema() == signature.output_schema()
    with pytest.raises(SignatureError, match="is no output"):
        Signature.of("doc -> n: int").citing(["doc"])


async def test_runs_are_compared_by_their_values_and_not_by_their_quotes(pool: sandbox.Pool) -> None:
    from rlm.agreement.loop import AgreementLoop
    from rlm.agreement.settings import AgreementSettings

    codes = [f"SUBMIT(masts={{'value': 3, 'quotes': ['{quote}']}})" for quote in ("lost three", "left Bergen")]
    config = RunConfig(
        Signature.of("report -> masts: Cited[int]"), scripted_lm([cell(code) for code in codes]), pool=pool
    )
    result = await AgreementLoop(config, {"report": REPORT}, AgreementSettings(2)).run()
    assert (result.trust, len(result.outputs.masts.quotes)) == ("verified: 2 of 2", 1)


@pytest.mark.parametrize(
    ("quote", "found"),
    [
        ("find five", "\ufb01nd \ufb01ve"),  # by the normal form
        ("\u201chello\u201d - you", '"hello" \u2013 you'),
        ("hell", None),  # a part of a word
        ("line one line two", "line one\n\tline two"),
    ],
)
def test_what_a_quote_may_differ_in(quote: str, found: str | None) -> None:
    text = 'To \ufb01nd \ufb01ve. "hello" \u2013 you, line one\n\tline two'
    place = Texts({"doc": text}).look_up(quote)
    assert (None if place is None else text[place.start : place.end]) == found
