"""How many modules one run takes a reader through: `python benchmarks/modules_of_a_run.py [TASK.YAML] [--list]`.

Counts the modules of `rlm` in which `rlm run examples/extract.yaml` executes a function, with the trace store and
without. Importing a module does not count: bodies of modules and classes are no functions, nor are comprehensions, nor
the `__getattr__` of a module, which imports call. The second line counts the modules that define a class when they are
imported, too. What runs in the kernel's process is not counted; it has no module of `rlm`.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
TASK = ROOT / "examples" / "extract.yaml"
NO_FUNCTIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
IMPORT = ("<module>", "__getattr__")


def count(task: Path, trace: str) -> dict[str, int]:
    """The modules of a run in a process of its own, each with how many of its functions were executed.

    It is 0 where only bodies of classes and comprehensions were.
    """
    with tempfile.TemporaryDirectory(prefix="rlm-bench-") as home:
        environment = {**os.environ, "RLM_HOME": home, "RLM_TRACE": trace, "PYTHONPATH": str(ROOT)}
        report = Path(home) / "modules.json"
        command = [sys.executable, __file__, str(task), "--report", str(report)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if not report.exists():
            sys.exit(f"{task} could not be run:\n{done.stderr}")
        found: dict[str, int] = json.loads(report.read_text())
        return found


def profile(task: Path, report: Path) -> None:
    """Run a task in this process and write down which functions of `rlm` were executed, in any thread."""
    codes: set[CodeType] = set()

    def hook(frame: FrameType, event: str, argument: Any) -> None:
        codes.add(frame.f_code)

    threading.setprofile(hook)
    sys.setprofile(hook)
    try:
        from rlm.cli import main

        with contextlib.suppress(SystemExit):
            main(["run", str(task)])
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    modules: dict[str, int] = {}
    for code in codes.copy():
        path = Path(code.co_filename)
        if path.is_relative_to(ROOT / "rlm") and code.co_qualname not in IMPORT:
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            is_function = bool(code.co_flags & inspect.CO_OPTIMIZED) and code.co_name not in NO_FUNCTIONS
            modules[name] = modules.get(name, 0) + is_function
    report.write_text(json.dumps(modules))


def main() -> None:
    """Print both numbers."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("task", nargs="?", type=Path, default=TASK, help="another task file")
    parser.add_argument("--list", action="store_true", help="name the modules, and how many functions of each")
    parser.add_argument("--report", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.report is not None:
        profile(options.task, options.report)
        return
    traced, bare = count(options.task, "on"), count(options.task, "off")
    reached = [sum(1 for functions in found.values() if functions) for found in (traced, bare)]
    print(f"{'':<31} with traces   without (RLM_TRACE=off)")
    print(f"modules that execute a function {reached[0]:>11} {reached[1]:>9}")
    print(f"and those that define a class   {len(traced):>11} {len(bare):>9}")
    if options.list:
        for name in sorted(name for name in traced | bare if traced.get(name) or bare.get(name)):
            print(f"{name:<40} {traced.get(name, 0):>3} {bare.get(name, 0):>3}")


if __name__ == "__main__":
    main()
