"""What `import rlm` offers: every name is there, and nothing heavy is imported for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import rlm


@pytest.mark.parametrize("name", rlm.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(rlm, name) is not None


def test_names_of_other_packages_of_the_field() -> None:
    assert rlm.RLM is rlm.Predict
    assert rlm.load_task.__module__.startswith("rlm.tasks")


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import sys, rlm, rlm.errors, rlm.events; print(sorted({'dspy', 'rich', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_kind_of_event_is_documented() -> None:
    documented = (Path(__file__).parents[2] / "docs" / "runs.md").read_text(encoding="utf-8")
    for kind, event in rlm.events.KINDS.items():
        assert f"| `{event.__name__}` | `{kind}` |" in documented
