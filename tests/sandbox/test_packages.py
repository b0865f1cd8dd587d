"""Packages of a requirements file: installed once, and seen by the kernels of their own pool alone."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

import sandbox
from sandbox import packages

pytestmark = pytest.mark.processes


def write_wheel(place: Path, name: str, source: str) -> Path:
    path = place / f"{name}-1.5-py3-none-any.whl"
    about = f"{name}-1.5.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}.py", source)
        wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("packages")


@pytest.fixture(scope="module")
def folder(place):
    requirements = place / "requirements.txt"
    requirements.write_text(f"{write_wheel(place, 'made_for_a_test', 'ANSWER = 42')}\n")
    return packages.install(requirements, place / "cache")


def test_they_are_installed_once_and_known_by_name(place, folder):
    assert packages.installed(folder) == ("made_for_a_test 1.5",)
    again = (folder / "made_for_a_test.py").stat().st_mtime_ns
    assert packages.install(place / "requirements.txt", place / "cache") == folder
    assert (folder / "made_for_a_test.py").stat().st_mtime_ns == again


@pytest.mark.parametrize("tier", ["namespaces", "landlock"])
def test_code_imports_them_in_kernels_of_their_pool_only(pool, folder, tier):
    try:
        with sandbox.Session(pool=packages.pool_with(folder), isolation=tier) as session:
            assert session.run("import made_for_a_test\nmade_for_a_test.ANSWER").value == 42
            assert session.run(f"open({str(folder / 'new')!r}, 'w')").error is not None
        with sandbox.Session(pool=pool, isolation=tier) as session:
            assert session.run("import made_for_a_test").error.name == "ModuleNotFoundError"
    except sandbox.IsolationUnavailable as error:
        pytest.skip(str(error))
    assert packages.pool_with(folder) is packages.pool_with(folder)


def test_what_cannot_be_installed_leaves_nothing_behind(place):
    requirements = place / "broken.txt"
    requirements.write_text("./absent-1.0-py3-none-any.whl\n")
    with pytest.raises(sandbox.KernelStartError, match=r"broken\.txt could not be installed"):
        packages.install(requirements, place / "empty")
    assert [path for path in (place / "empty").iterdir() if path.is_dir()] == []
    with pytest.raises(sandbox.KernelStartError, match="cannot be read"):
        packages.install(place / "absent.txt", place / "empty")
