"""`docs/architecture.md` names every package of rlm, and nothing that is not there; the loop stays readable."""

from __future__ import annotations

import ast
import re

import pytest

from tests.support.repository import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PACKAGES = sorted(path.parent.name for path in (ROOT / "rlm").glob("*/__init__.py"))
# `tasks/schema.py`, `repl/loop`, `sandbox/zmtp.py`: paths below rlm/ or from the root.
PATHS = sorted(set(re.findall(r"\b(?:[a-z_]+/)+[a-z_]+(?:\.py)?\b", PAGE)))


@pytest.mark.parametrize("name", PACKAGES)
def test_every_package_is_named(name: str) -> None:
    assert re.search(rf"\b{name}\b", PAGE), f"docs/architecture.md does not say what {name} is for"


@pytest.mark.parametrize("path", PATHS)
def test_every_module_that_is_named_exists(path: str) -> None:
    places = [ROOT / "rlm" / path, ROOT / path, ROOT / "sandbox" / path]
    assert any(place.exists() or place.with_suffix(".py").exists() for place in places), path


def test_the_loop_of_a_run_can_be_read_at_a_sitting_and_knows_no_kinds_of_models() -> None:
    source = (ROOT / "rlm" / "repl" / "loop.py").read_text(encoding="utf-8")
    assert len(source.splitlines()) < 250
    conditions = [node.test for node in ast.walk(ast.parse(source)) if isinstance(node, ast.If | ast.IfExp | ast.While)]
    words = {node.attr for test in conditions for node in ast.walk(test) if isinstance(node, ast.Attribute)}
    assert words
    assert not words & {"constrained", "constrains", "small", "local", "profile", "doubts_outputs"}
