"""What `import rlm` offers: every name is there, and nothing heavy is imported for it."""

from __future__ import annotations

import shutil
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


@pytest.mark.parametrize(("overwritten", "imported"), [(False, "rlm"), (True, "rlm.cli")])
def test_a_package_of_the_same_name_in_the_same_folder_is_a_clear_error(
    tmp_path: Path, overwritten: bool, imported: str
) -> None:
    """As after `pip install rlm-kernel rlms`, in either order."""
    package = tmp_path / "rlm"
    shutil.copytree(Path(rlm.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__", "static"))
    (package / "core").mkdir()
    (package / "core" / "rlm.py").write_text("class RLM: ...\n")
    if overwritten:
        (package / "__init__.py").write_text("from rlm.core.rlm import RLM\n")
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import {imported}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert "ImportError" in done.stderr
    assert "rlms" in done.stderr
    assert "environment of its own" in done.stderr
