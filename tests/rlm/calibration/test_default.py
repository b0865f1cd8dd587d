"""The calibrator that comes with the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rlm
import sandbox
from rlm.calibration import FEATURES, Calibrator, load, scorer_of
from rlm.calibration.io import calibrator_path, default_path
from rlm.models.scripted import scripted_lm
from rlm.tasks import load as load_task

CODE = "```python\nSUBMIT(answer=doc.count('a'))\n```"


def test_it_says_what_it_was_fitted_on() -> None:
    made = load("default")
    assert made.fitted_on["models"]
    assert {"logs", "needle", "sums"} <= set(made.fitted_on["suites"])
    assert set(made.fitted_on["endings"]) == {"submitted", "extracted"}
    assert set(json.loads(default_path().read_text())["curve"]["weights"]) <= set(FEATURES)
    assert default_path().stat().st_size < 100_000


def test_a_file_of_that_name_is_a_path(tmp_path: Path) -> None:
    assert calibrator_path("./default") == Path("default")
    assert calibrator_path("default", tmp_path) == default_path()
    assert calibrator_path("own.json", tmp_path) == tmp_path / "own.json"


def test_agreement_raises_its_probability_and_dissent_lowers_it() -> None:
    made = load("default")
    row = {"submitted": 1.0, "computed": 1.0, "number": 1.0, "held": 1.0, "formula": 0.8}
    alone = made.field(row)
    agreed = made.field({**row, "compared": 1.0, "backers": 0.693})
    dissented = made.field({**row, "compared": 1.0, "dissent": 1.0})
    assert dissented < alone < agreed


def test_predict_uses_it_and_says_that_the_model_is_new(pool: sandbox.Pool) -> None:
    program = rlm.Predict("doc -> answer: int", lm=scripted_lm([CODE]), pool=pool, record=False, confidence="default")
    result = program.run_with_fallback(doc="banana")
    assert isinstance(result, rlm.Submitted)
    assert result.probability is not None
    assert result.trust == f"probability {result.probability:.2f}"
    assert result.confidence == result.probability < 1
    assert result.notes is not None
    assert "not on scripted/main" in result.notes


@pytest.mark.parametrize("text", ["default", "{calibrator: default}", "{calibrator: default, accept_at: {error: 0.2}}"])
def test_a_task_file_names_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "replies.yaml").write_text("main: []\n")
    task = tmp_path / "task.yaml"
    head = 'signature: "doc -> answer: int"\ninputs: {doc: banana}\nmodels: {scripted: replies.yaml}\n'
    task.write_text(f"{head}confidence: {text}\n")
    scorer = load_task(task).scorer
    assert isinstance(scorer, Calibrator)
    assert (scorer.rule is not None) == ("accept_at" in text)


def test_a_local_model_is_known_by_its_weights() -> None:
    made = scorer_of("default")
    assert isinstance(made, Calibrator)
    names = ["/models/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", "llamacpp/qwen2.5-coder-1.5b-instruct-q4_k_m@0fe4468b"]
    assert made.used_with(names).note is None
    note = made.used_with(["llamacpp/SmolLM2-135M-Instruct.Q4_1@61fbba33"]).note
    assert note is not None
    assert "not on SmolLM2-135M-Instruct.Q4_1:" in note


@pytest.mark.parametrize("agree", [1, 3])
def test_what_no_code_has_read_is_at_most_even_however_many_agree(pool: sandbox.Pool, agree: int) -> None:
    models = {
        "lm": scripted_lm({"*": "```python\nanswer = 4217\nprint(answer)\n```"}),
        "extraction_lm": scripted_lm({"*": '{"answer": 4217}'}),
    }
    options: dict[str, Any] = {"pool": pool, "record": False, "confidence": "default", "agree": agree}
    program = rlm.Predict("doc -> answer: int", **models, max_iterations=1, **options)
    result = program.run_with_fallback(doc="banana " * 2_000)
    assert isinstance(result, rlm.Extracted)
    assert result.features["answer"]["unread"] == 1
    assert result.features["answer"].get("compared", 0) == (agree > 1)
    assert result.probability is not None
    assert result.probability <= 0.5
