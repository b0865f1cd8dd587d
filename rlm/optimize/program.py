"""A task as a dspy program whose runs are counted and on record, so that an interrupted search goes on for free."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dspy

from ..dspy_bridge import add_to_trace
from ..events import Observer
from ..feedback import feedback_of
from ..json_values import jsonable
from ..predict import Predict, RunPrediction, learned_by
from ..repl.config import RunConfig
from ..runner import task_config
from ..tasks import Task


class SearchStopped(Exception):
    """The search has used up its runs or its cost."""


@dataclass
class Spending:
    """What a search has used, and may use. Runs from the record count as runs and cost nothing."""

    max_cost_usd: float | None = None
    runs: int = 0
    repeated: int = 0
    cost_usd: float = 0.0
    spent: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def check(self) -> None:
        """Raise `SearchStopped` if nothing is left."""
        if self.max_cost_usd is not None and self.cost_usd >= self.max_cost_usd:
            self.spent = True
            raise SearchStopped(f"--max-cost: {self.cost_usd:.2f} of {self.max_cost_usd:.2f} USD are used")

    def add(self, cost_usd: float, *, repeated: bool = False) -> None:
        """Count a run."""
        with self._lock:
            self.runs += 1
            self.repeated += repeated
            self.cost_usd += cost_usd


class RunStore:
    """The runs of a search by what they were asked: a file of JSON lines, of which a torn last one is left out."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._runs: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        if path is not None and path.exists():
            text = path.read_text(encoding="utf-8", errors="replace")
            if text and not text.endswith("\n"):  # a process was killed while it wrote
                _append(path, "")
            for line in text.splitlines():
                try:
                    entry = json.loads(line)
                    self._runs[entry["key"]] = entry
                except (ValueError, KeyError, TypeError):
                    continue

    def get(self, key: str) -> dict[str, Any] | None:
        """Return a run; None if it is not there."""
        return self._runs.get(key)

    def put(self, key: str, run: Mapping[str, Any]) -> None:
        """Keep a run."""
        entry = {"key": key, **run}
        with self._lock:
            self._runs[key] = entry
            if self._path is not None:
                _append(self._path, json.dumps(entry))


def _append(path: Path, line: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


class TaskProgram(Predict):
    """The runs of one task as a dspy module. Copies of it, with other instructions and examples, share the store."""

    def __init__(self, task: Task, store: RunStore, spending: Spending) -> None:
        config = task_config(task)
        super().__init__(task.signature, lm=config.main_model, on_failure="prediction")
        self._task, self._store, self._spending, self._task_config = task, store, spending, config

    def _config(self, observe: Observer) -> RunConfig:
        self.act.lm = self.act.lm or self._lm  # optimizers reset the predictor
        return replace(self._task_config, observe=observe, main_call=self._call_predictor, learned=learned_by(self.act))

    def forward(self, /, *values: Any, **inputs: Any) -> Any:
        """Return the prediction of a run, from the store where it has one."""
        key = self._key(inputs)
        past = self._store.get(key)
        if past is not None:
            self._spending.add(0.0, repeated=True)
            return self._repeat(past)
        self._spending.check()
        with dspy.context(trace=[]):
            prediction = super().forward(*values, **inputs)
            steps = [
                [asked, {"reply": answer.reply}]
                for predictor, asked, answer in dspy.settings.trace
                if predictor is self.act
            ]
        result = prediction.result
        cost = float(result.usage.cost_usd or 0.0)
        self._spending.add(cost)
        run = {"outputs": jsonable(self._outputs(prediction)), "feedback": feedback_of(result)}
        run |= {"run_id": result.run_id, "steps": jsonable(steps), "cost_usd": cost}
        run["trajectory"] = prediction.toDict()["trajectory"]
        self._store.put(key, run)
        return self._repeat(run)

    def _outputs(self, prediction: Any) -> dict[str, Any]:
        return {field.name: prediction.get(field.name) for field in self.signature.outputs}

    def _repeat(self, run: Mapping[str, Any]) -> RunPrediction:
        """Return the prediction of a run that was made, with its steps in dspy's trace."""
        for asked, answer in run["steps"]:
            add_to_trace(self.act, asked, answer)
        prediction = RunPrediction({"trajectory": run["trajectory"], **run["outputs"]})
        prediction._result = SimpleNamespace(feedback=run["feedback"], run_id=run["run_id"])  # type: ignore[assignment]
        return prediction

    def _key(self, inputs: Mapping[str, Any]) -> str:
        """Return a hash of what this run is asked: the task, what was learned, and the inputs."""
        source = self._task.source or {}
        about = [source.get("text"), source.get("models"), source.get("budget"), learned_by(self.act).to_dict()]
        text = json.dumps([about, jsonable(dict(inputs))], sort_keys=True, default=repr)
        return hashlib.sha256(text.encode()).hexdigest()
