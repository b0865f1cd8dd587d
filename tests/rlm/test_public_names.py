"""What `import rlm` offers: every name is there, and nothing heavy is imported for it."""

from __future__ import annotations

import subprocess
import sys

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
