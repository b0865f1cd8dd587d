"""An evaluation: which samples, asked of which models, how often. It makes the header of its log, and is made of it."""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .log import FORMAT, EvalLogError, refuse_changed
from .sample import Sample
from .simulated import ORACLE

if TYPE_CHECKING:
    from ..tasks import Task

DEFAULT_LENGTH = 64_000

_PLACEHOLDER: dict[str, Any] = {"signature": "text -> answer", "instructions": None, "inputs": {}, "checks": []}


@dataclass(frozen=True)
class Settings:
    """Everything of a task but what is asked: models, budget, sandbox, tools, plans."""

    text: str = ""
    """A task file; what it says of signature, instructions, inputs and checks is the suite's to say."""

    path: Path | None = None
    models: Mapping[str, str] = field(default_factory=dict)
    budget: Mapping[str, Any] = field(default_factory=dict)
    """What the command line says in place of the file."""

    error_rate: float | None = None
    """How likely the oracle misreads a fact, where it is one of the models; None for what it does by itself."""

    @classmethod
    def read(cls, path: str | Path | None, **given: Any) -> Settings:
        """The settings in a file. Raises `TaskError`."""
        from ..tasks.yaml_document import read

        return cls(read(Path(path)).text, Path(path).absolute(), **given) if path is not None else cls(**given)

    def check(self) -> Task:
        """A task with these settings that asks nothing yet. Raises `TaskError` with what is wrong, and where."""
        from ..tasks import Recorded, TaskError, TaskProblem, load

        try:
            return load(self._place, self._overrides, recorded=Recorded(self._complete(), {}))
        except TaskError as error:
            if self.path is not None:
                raise
            # There is no file, so nobody is sent to a place in it.
            raise TaskError(TaskProblem("rlm eval run", one.message, one.order) for one in error.problems) from None

    def has_oracle(self) -> bool:
        """Whether the built-in model is asked."""
        models = self.check().models
        return any(spec.model == ORACLE for spec in (models.main, models.sub, models.extraction))

    def task_for(self, sample: Sample) -> Task:
        """The task of a sample. Raises `TaskError`."""
        from ..tasks import Recorded, load

        asked = {"signature": sample.signature, "instructions": sample.instructions or None}
        text = json.dumps({**self._written(), **_PLACEHOLDER, **asked}, indent=2)
        name = re.sub(r"[^\w.-]", "_", sample.id)[:100]  # what lists of runs call it
        return load(self._place.with_name(f"{name}.yaml"), self._overrides, recorded=Recorded(text, sample.inputs))

    @property
    def _place(self) -> Path:
        return self.path or Path("eval.yaml").absolute()

    @property
    def _overrides(self) -> Any:
        from ..tasks import Overrides

        return Overrides(models=self.models, budget=self.budget)

    def _complete(self) -> str:
        """The file with a signature: its own, or one at the end, so that problems keep their places."""
        from .. import yaml12

        written, asked = self._written(), _PLACEHOLDER["signature"]
        if "signature" in written:
            return self.text
        longer = f"{self.text}\nsignature: {asked}\n"
        try:
            fits = yaml12.load(longer) == {**written, "signature": asked}
        except yaml12.YamlError:  # not one entry a line, but {...} as in JSON
            fits = False
        return longer if fits else json.dumps({**written, "signature": asked})

    def _written(self) -> dict[str, Any]:
        from .. import yaml12

        try:
            written = yaml12.load(self.text)
        except yaml12.YamlError:
            return {"signature": ""}  # `check` says what is wrong with it
        return written if isinstance(written, dict) else {}


@dataclass(frozen=True)
class Evaluation:
    """What is asked of whom."""

    suites: tuple[str, ...]
    """Names of suites, or paths of JSONL files."""

    settings: Settings
    lengths: tuple[int, ...] = (DEFAULT_LENGTH,)
    """In characters, for generated suites."""

    count: int | None = 20
    """Samples of each suite and length; of a file at most so many, None for all."""

    seed: int = 1
    epochs: int = 1
    baseline: str | None = None
    """`direct`: no REPL, the whole input in the prompt."""

    def samples(self) -> Iterator[Sample]:
        """The samples in order, made as they are asked for. Raises `EvalLogError` for a suite that is not there."""
        for name in self.suites:
            if is_file(name):
                yield from own_samples(name)[: self.count]
            else:
                for length in self.lengths:
                    yield from _suite(name).generate(self.seed, length, self._many)

    @property
    def total(self) -> int:
        """How many entries the log has in the end: samples times epochs. Raises `EvalLogError` as `ids` does."""
        return len(self.ids()) * self.epochs

    def ids(self) -> dict[str, str]:
        """The ids of the samples, and the suite of each. Raises `EvalLogError` for one that two samples have."""
        found: dict[str, str] = {}
        for name in self.suites:
            for one in self._ids_of(name):
                if one in found:
                    raise EvalLogError(
                        f"{found[one]} and {name} both have a sample {one!r}; a log could not tell them apart. "
                        f'Give one of them another "id", or run each file with a --log of its own.'
                    )
                found[one] = name
        return found

    def header(self) -> dict[str, Any]:
        """What a log begins with."""
        import dspy

        from .. import __version__

        task = self.settings.check()
        models = {role: str(getattr(task.models, role)) for role in ("main", "sub", "extraction")}
        return {
            "format": FORMAT,
            "versions": {"rlm": __version__, "dspy": dspy.__version__},
            "machine": {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"},
            "suites": [_described(name) for name in self.suites],
            "lengths": list(self.lengths),
            "count": self.count,
            "seed": self.seed,
            "epochs": self.epochs,
            "total": self.total,
            "baseline": self.baseline,
            "models": models,
            "scripts": _scripts(task),
            "configuration": {
                "file": str(self.settings.path) if self.settings.path is not None else None,
                "text": self.settings.text,
                "models": dict(self.settings.models),
                "budget": dict(self.settings.budget),
                "error_rate": self.settings.error_rate,
            },
        }

    @classmethod
    def of(cls, header: Mapping[str, Any]) -> Evaluation:
        """The evaluation that a log was begun with. Raises `EvalLogError` where that cannot be had any more."""
        from ..redaction import MARK

        written = header["configuration"]
        path = Path(written["file"]) if written["file"] is not None else None
        text = written["text"]
        if MARK in text:  # what looked like a key is not in the log
            try:
                text = path.read_text(encoding="utf-8") if path is not None else text
            except OSError as error:
                raise EvalLogError(f"the settings of this log had a key in them, and {path} is gone: {error}") from None
        refuse_changed(header, (_described(one["path"] or one["name"]) for one in header["suites"]))
        return cls(
            suites=tuple(one["path"] or one["name"] for one in header["suites"]),
            settings=Settings(text, path, written["models"], written["budget"], written["error_rate"]),
            lengths=tuple(header["lengths"]),
            count=header["count"],
            seed=header["seed"],
            epochs=header["epochs"],
            baseline=header["baseline"],
        )

    def _ids_of(self, name: str) -> list[str]:
        if is_file(name):
            return [sample.id for sample in own_samples(name)[: self.count]]
        suite = _suite(name)
        return [suite.id_of(self.seed, length, index) for length in self.lengths for index in range(self._many)]

    @property
    def _many(self) -> int:
        return 20 if self.count is None else self.count


def _scripts(task: Task) -> dict[str, str]:
    """What scripted models say, by hash: with other replies, it is another evaluation."""
    specs = (task.models.main, task.models.sub, task.models.extraction)
    paths = {spec.scripted for spec in specs if spec.scripted is not None}
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(paths)}


def is_file(name: str) -> bool:
    """Whether a suite is a file and not a name."""
    return name.endswith((".jsonl", ".json")) or "/" in name


def own_samples(path: str) -> list[Sample]:
    """The samples of a file. Raises `EvalLogError`."""
    from .suites import own

    try:
        return list(own(Path(path)))
    except (OSError, ValueError) as error:
        said = str(error)
        raise EvalLogError(said if path in said else f"{path}: {said}") from None


def _suite(name: str) -> Any:
    from .suites import SUITES

    if name not in SUITES:
        raise EvalLogError(f"there is no suite {name!r}; `rlm eval list` shows them, and a file ends in .jsonl")
    return SUITES[name]


def _described(name: str) -> dict[str, Any]:
    if not is_file(name):
        return {"name": _suite(name).name, "path": None, "digest": None}
    path = Path(name).absolute()
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise EvalLogError(f"{path} cannot be read: {error.strerror or error}") from None
    return {"name": path.stem, "path": str(path), "digest": digest}
