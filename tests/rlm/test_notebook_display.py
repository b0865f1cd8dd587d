"""Runs and results as a notebook shows them, and the progress of a run in it."""

from __future__ import annotations

import textwrap
import time

import dspy
import pytest

import rlm
from rlm.models.scripted import scripted_lm
from rlm.notebook_display import Progress, progress_observer
from rlm.stats import wilson_interval

SUBMIT = "```python\nSUBMIT(n=len(doc), title='<b>x</b>')\n```"
LOOK = "```python\nprint('<script>')\n```"


def predict(replies, pool, **options):
    return rlm.Predict("doc: str -> n: int, title: str", lm=scripted_lm(replies), pool=pool, **options)


def test_a_result_is_a_table_without_markup_of_its_own(pool):
    html = predict([SUBMIT], pool).run_with_fallback(doc="four")._repr_html_()
    assert "<b style='color:#1a7f37'>Submitted</b>, unverified" in html
    assert "&lt;b&gt;x&lt;/b&gt;" in html
    assert "<b>x" not in html
    assert "1 iteration · 0 LLM calls from the code" in html


def test_an_extracted_result_has_its_reason_confidence_and_evidence(pool):
    replies = ["```python\nn = 4\n```", '{"n": 4, "title": "t"}']
    html = predict(replies, pool, max_iterations=1).run_with_fallback(doc="four")._repr_html_()
    assert "Extracted</b>, unverified (formula 0." in html
    assert "1 of 1 iteration used without SUBMIT" in html
    assert "a literal in the code (cell:line 1:1)</small>" in html
    assert "<small>variable n: 4</small>" in html


def test_a_failed_result_has_what_there_is_of_an_answer(pool):
    replies = ["```python\nSUBMIT(n='many', title='t')\n```", "no", "no", "no"]
    html = predict(replies, pool, max_iterations=1).run_with_fallback(doc="four")._repr_html_()
    assert "Failed" in html
    assert "many" in html


def test_a_run_shows_how_far_it_is_and_then_its_result(pool):
    def wait() -> None:
        """Wait."""
        time.sleep(1.5)

    run = predict([LOOK, "```python\nwait()\n```", SUBMIT], pool, tools=[wait]).start(doc="four")
    for event in run:
        if event.kind == "cell_started" and event.iteration == 2:
            html = run._repr_html_()
            assert "Running</b>, " in html
            assert "&lt;script&gt;" in html
            assert run.id in html
    assert "Submitted" in run._repr_html_()


def test_progress_is_one_line_that_the_end_removes(pool):
    shown: list[tuple[str, bool]] = []
    progress = Progress(lambda html, first: shown.append((html, first)))
    run = predict([LOOK, SUBMIT], pool, observe=progress).run_with_fallback(doc="four")
    assert shown[0][1] is True
    assert f"run {run.run_id} · iteration 0 of 20" in shown[0][0]
    assert shown[-1] == ("", False)
    assert [first for _, first in shown[1:]] == [False] * (len(shown) - 1)


def test_a_second_run_at_the_same_time_shows_nothing(pool):
    first, second = [], []
    outer = Progress(lambda html, new: first.append(html))

    def nested() -> None:
        """Run another one."""
        predict([SUBMIT], pool, observe=Progress(lambda html, new: second.append(html))).run_with_fallback(doc="x")

    predict(["```python\nnested()\n```", SUBMIT], pool, tools=[nested], observe=outer).run_with_fallback(doc="four")
    assert first[-1] == ""
    assert second == []


def test_outside_of_a_notebook_there_is_no_progress():
    assert progress_observer() is None


@pytest.mark.processes
def test_a_notebook_shows_progress_and_the_result(tmp_path, monkeypatch):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("RLM_HOME", str(tmp_path))
    code = textwrap.dedent(
        """
        import rlm
        from rlm.models.scripted import scripted_lm
        predict = rlm.Predict("doc: str -> n: int", lm=scripted_lm(["```python\\nSUBMIT(n=len(doc))\\n```"]))
        predict.run_with_fallback(doc="four")
        """
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbclient.NotebookClient(notebook, kernel_name="python3", timeout=100).execute()
    outputs = notebook.cells[0].outputs
    html = [output.data["text/html"] for output in outputs if "data" in output and "text/html" in output.data]
    assert html[0] == "", "the progress is gone at the end"
    assert "Submitted" in html[-1]


def test_inputs_are_given_by_place_too(pool):
    count = predict([SUBMIT, SUBMIT], pool)
    assert count.run_with_fallback("four").outputs.n == 4
    assert count("fours").n == 5


def test_values_without_a_place_and_two_for_one_are_refused(pool):
    count = predict([], pool)
    with pytest.raises(TypeError, match="2 values for 1 input; the inputs are doc"):
        count.run_with_fallback("a", "b")
    with pytest.raises(TypeError, match="'doc' is given twice, by its place and by its name"):
        count.run_with_fallback("a", doc="b")


@pytest.mark.parametrize("signature", ["doc -> budget: int", "search: str -> n: int"])
def test_reserved_names_fail_when_the_predictor_is_made(signature):
    with pytest.raises(rlm.SignatureError, match="would hide a name of the REPL; rename it"):
        rlm.Predict(signature)


def test_the_class_of_a_signature_is_the_type_of_the_outputs_for_editors():
    class Read(dspy.Signature):
        doc: str = dspy.InputField()
        total: float = dspy.OutputField()

    assert rlm.Predict[Read].__origin__ is rlm.Predict
    assert isinstance(rlm.Predict[Read](Read), rlm.Predict)


def test_a_share_of_few_samples_has_a_wide_interval():
    assert wilson_interval(0, 0) == (0.0, 1.0)
    low, high = wilson_interval(1, 1)
    assert (round(low, 2), high) == (0.21, 1.0)
    low, high = wilson_interval(80, 100)
    assert (round(low, 2), round(high, 2)) == (0.71, 0.87)
