"""Checks what would be released: `python tests/release/check_release.py [--python PYTHON ...] [--extra EXTRA ...]`.

Builds wheel and source distribution twice and compares them byte by byte; looks into them; installs the wheel into an
empty environment for each Python and for each extra alone, and runs a task from an empty folder there. Takes minutes.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.support.tiny_gguf import write_tiny  # noqa: E402

HEAVY = ("transformers", "ray")
"""Extras that are only installed when they are named: gigabytes."""

_TASK = """\
signature: "n: int -> twice: int"
inputs: {n: 21}
models: {scripted: replies.yaml}
"""
_REPLIES = 'main: ["I double it.\\n```python\\nSUBMIT(twice=2 * n)\\n```"]\n'


def build(folder: Path) -> list[Path]:
    """Build wheel and source distribution of the tracked files."""
    source = folder / "source"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(source)], check=True)
    stamp = subprocess.run(
        ["git", "-C", str(source), "log", "-1", "--format=%ct"], check=True, capture_output=True, text=True
    ).stdout.strip()
    environment = {**os.environ, "SOURCE_DATE_EPOCH": stamp}
    command = [sys.executable, "-m", "build", "--outdir", str(folder / "dist"), str(source)]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    return sorted((folder / "dist").iterdir())


def unwanted(artifact: Path) -> list[str]:
    """Return the files that do not belong into a distribution for users."""
    if artifact.suffix == ".whl":
        names = zipfile.ZipFile(artifact).namelist()
        return [name for name in names if not name.startswith(("rlm/", "sandbox/", "rlm_kernel-"))]
    with tarfile.open(artifact) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    return [name for name in names if name.startswith((".ci", "benchmarks"))]


def smoke(python: str, wheel: Path, extra: str | None, folder: Path) -> str:
    """Install into an empty environment, and run a task there. Return what went wrong."""
    home = folder / "environment"
    if python == sys.executable:
        venv.create(home, with_pip=True)
    else:
        subprocess.run([python, "-m", "venv", str(home)], check=True)
    target = f"{wheel}[{extra}]" if extra else str(wheel)
    installed = subprocess.run(
        [str(home / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", target],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if installed.returncode:
        return installed.stderr.strip().splitlines()[-1]
    work = folder / "work"
    work.mkdir()
    (work / "task.yaml").write_text(_TASK)
    (work / "replies.yaml").write_text(_REPLIES)
    write_tiny(work / "tiny.gguf")
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "RLM_HOME": str(folder / "rlm")}
    for arguments, expected in (
        (["--version"], "rlm"),
        (["doctor"], "isolation"),
        (["check", "task.yaml"], ""),
        (["run", "task.yaml"], "42"),
        (["runs", "list"], ""),
        (["models", "list"], "embedded"),
        (["check", "task.yaml", "--model", "./tiny.gguf"], "tiny.gguf"),
    ):
        done = subprocess.run(
            [str(home / "bin/rlm"), *arguments], cwd=work, env=environment, capture_output=True, text=True, check=False
        )
        text = done.stdout + done.stderr
        if done.returncode or expected.lower() not in text.lower() or "Traceback" in text:
            return f"rlm {' '.join(arguments)}: exit code {done.returncode}\n{text[-800:]}"
    return ""


def main() -> int:
    """Check everything, and print a line for each part."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", nargs="*", default=[sys.executable], help="interpreters to install into")
    parser.add_argument("--extra", nargs="*", default=[name for name in extras if name not in HEAVY])
    options = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory(prefix="rlm-release-") as name:
        folder = Path(name)
        first, second = ((folder / part).mkdir() or build(folder / part) for part in ("first", "second"))
        for one, other in zip(first, second, strict=True):
            same = hashlib.sha256(one.read_bytes()).digest() == hashlib.sha256(other.read_bytes()).digest()
            extra_files = unwanted(one)
            failed |= not same or bool(extra_files)
            print(f"{one.name}: {one.stat().st_size:,} bytes, {'reproducible' if same else 'NOT REPRODUCIBLE'}", end="")
            print(f"; UNWANTED {extra_files[:5]}" if extra_files else "")
        wheel = next(path for path in first if path.suffix == ".whl")
        cases = [(python, None) for python in options.python] + [(options.python[0], extra) for extra in options.extra]
        for number, (python, extra) in enumerate(cases):
            place = folder / str(number)
            place.mkdir()
            fault = smoke(python, wheel, extra, place)
            failed |= bool(fault)
            print(
                f"{python} {f'[{extra}]' if extra else 'no extra'}: {fault or 'installs, and runs a task'}", flush=True
            )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
