"""Private names of dspy are used in `rlm.dspy_bridge` alone.

A name is public if `dspy`, `dspy.lm15` or `dspy.streaming` has it, the packages that dspy documents: then it may be
imported from any module. Private is every other imported name, every module whose path has a part beginning with `_`,
and the attributes of models and settings that dspy documents nowhere: the list below.
"""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path

import dspy
import pytest

import rlm
from rlm import dspy_bridge

PUBLIC = ("dspy", "dspy.lm15", "dspy.streaming")
PRIVATE_ATTRIBUTES = {
    *("_engine_spec", "_async_engine_spec", "update_history", "GLOBAL_HISTORY", "send_stream", "usage_tracker"),
    *("caller_modules", "max_trace_size", "max_history_size", "disable_history"),
}
ROOT = Path(rlm.__file__).parent


def private_uses(source: str) -> list[str]:
    uses = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                uses += [one.name for one in names if one.name.startswith("dspy.") and one.name not in PUBLIC]
            case ast.ImportFrom(module=str(module), level=0, names=names) if module.split(".")[0] == "dspy":
                uses += [f"{module}.{one.name}" for one in names if not is_public(module, one.name)]
            case ast.Attribute(attr=name) if name in PRIVATE_ATTRIBUTES:
                uses.append(name)
            case ast.Attribute(value=ast.Name(id="dspy"), attr=name) if name.startswith("_") and not name.endswith(
                "__"
            ):
                uses.append(f"dspy.{name}")
            case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=name), *_]):
                uses += [name] if name in PRIVATE_ATTRIBUTES else []
            case ast.Call(keywords=keywords):
                uses += [one.arg for one in keywords if one.arg in PRIVATE_ATTRIBUTES]
    return uses


def is_public(module: str, name: str) -> bool:
    if any(part.startswith("_") for part in (*module.split("."), name)):
        return False
    imported = getattr(importlib.import_module(module), name)
    return any(getattr(importlib.import_module(public), name, None) is imported for public in PUBLIC)


@pytest.mark.parametrize(
    "source",
    [
        "from dspy._vendor.lm15.types import TextDelta",
        "from dspy.clients.base_lm import GLOBAL_HISTORY",
        "from dspy.adapters.utils import parse_value",
        "import dspy.clients.costs",
        "spec = lm._engine_spec",
        "stream = settings.get('send_stream')",
        "with dspy.context(send_stream=None): pass",
    ],
)
def test_a_private_name_is_found(source):
    assert private_uses(source)


@pytest.mark.parametrize("source", ["from dspy.adapters.base import Adapter", "from dspy.lm15 import Request"])
def test_a_documented_name_is_not_private(source):
    assert private_uses(source) == []


def test_private_names_of_dspy_are_used_in_the_bridge_alone():
    users = {str(path.relative_to(ROOT)): private_uses(path.read_text("utf-8")) for path in ROOT.rglob("*.py")}
    assert {path: uses for path, uses in users.items() if uses and path != "dspy_bridge.py"} == {}
    assert users["dspy_bridge.py"]


def test_every_name_of_the_bridge_exists_in_the_installed_dspy():
    assert [name for name in dspy_bridge.__all__ if not hasattr(dspy_bridge, name)] == []


def test_the_bridge_and_the_command_line_do_not_import_dspy():
    code = "import sys, rlm, rlm.cli, rlm.dspy_bridge; sys.exit('dspy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_trace_has_no_more_calls_than_dspy_allows():
    predictor = dspy.Predict("question -> answer")
    with dspy.context(trace=[], max_trace_size=2):
        for number in range(3):
            dspy_bridge.add_to_trace(predictor, {"question": str(number)}, {"answer": "yes"})
        assert [inputs for _, inputs, _ in dspy.settings.trace] == [{"question": "1"}, {"question": "2"}]


@pytest.mark.parametrize("wanted", [None, "False"])
def test_litellm_is_imported_with_the_price_list_that_it_has_unless_told(monkeypatch, wanted):
    name, seen = "LITELLM_LOCAL_MODEL_COST_MAP", []
    monkeypatch.delenv("LITELLM_MODEL_COST_MAP_URL", raising=False)
    monkeypatch.delenv(name, raising=False)
    if wanted is not None:
        monkeypatch.setenv(name, wanted)
    monkeypatch.setattr(
        dspy_bridge.importlib, "import_module", lambda module: seen.append((module, os.environ.get(name)))
    )
    dspy_bridge.import_litellm()
    assert seen == [("litellm", wanted or "True")]
    assert os.environ.get(name) == wanted


@pytest.mark.parametrize(("model", "needed"), [("bedrock/some.model", True), ("openai/gpt-5-mini", False)])
def test_litellm_is_imported_for_models_that_dspy_asks_through_it(model, needed):
    pytest.importorskip("litellm")
    assert dspy_bridge._needs_litellm(dspy.LM(model, api_key="x")) is needed
