"""`Evaluation`: the samples, the models and the settings of a run of one or more suites, stored in its log's header."""

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
DEFAULT_COUNT = 20

_PLACEHOLDER: dict[str, Any] = {"signature": "text -> answer", "instructions": None, "inputs": {}, "checks": []}


@dataclass(frozen=True)
class EvalSettings:
    """A task without its question: models, budget, sandbox, tools and plans."""

    text: str = ""
    """The text of a task file. Its signature, instructions, inputs and checks are replaced by those of a sample."""

    path: Path | None = None
    models: Mapping[str, str] = field(default_factory=dict)
    """Models by role that replace those of the file."""

    budget: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `FallbackTrigger` that replace those of the file."""

    error_rate: float | None = None
    """The probability that the oracle misreads a fact; None for its default."""

    @classmethod
    def read(cls, path: str | Path | None, **changes: Any) -> EvalSettings:
        """Return the settings in a file, with changes to other fields. Raises `TaskError`."""
        from ..tasks.yaml_document import read

        return cls(read(Path(path)).text, Path(path).absolute(), **changes) if path is not None else cls(**changes)

    def check(self) -> Task:
        """Return a task with these settings and a placeholder for its question. Raises `TaskError`."""
        from ..tasks import Recorded, TaskError, TaskProblem, load

        try:
            return load(self._path, self._overrides, recorded=Recorded(self._complete(), {}))
        except TaskError as error:
            if self.path is not None:
                raise
            # There is no file that the problems could point to.
            problems = (TaskProblem("rlm eval run", problem.message, problem.order) for problem in error.problems)
            raise TaskError(problems) from None

    def has_oracle(self) -> bool:
        """Return whether one of the models is the built-in oracle."""
        models = self.check().models
        return any(spec.model == ORACLE for spec in (models.main, models.sub, models.extraction))

    def task_for(self, sample: Sample) -> Task:
        """Return the task of a sample. Raises `TaskError`."""
        from ..tasks import Recorded, load

        question = {"signature": sample.signature, "instructions": sample.instructions or None}
        text = json.dumps({**self._entries(), **_PLACEHOLDER, **question}, indent=2)
        name = re.sub(r"[^\w.-]", "_", sample.id)[:100]  # the name in lists of runs
        return load(self._path.with_name(f"{name}.yaml"), self._overrides, recorded=Recorded(text, sample.inputs))

    @property
    def _path(self) -> Path:
        return self.path or Path("eval.yaml").absolute()

    @property
    def _overrides(self) -> Any:
        from ..tasks import Overrides

        return Overrides(models=self.models, budget=self.budget)

    def _complete(self) -> str:
        """Return the text with a signature: its own, or one that is appended, so that lines keep their numbers."""
        from .. import yaml12

        entries, signature = self._entries(), _PLACEHOLDER["signature"]
        if "signature" in entries:
            return self.text
        complete = {**entries, "signature": signature}
        text = f"{self.text}\nsignature: {signature}\n"
        try:
            appended = yaml12.load(text) == complete
        except yaml12.YamlError:  # flow style, {...} as in JSON
            appended = False
        return text if appended else json.dumps(complete)

    def _entries(self) -> dict[str, Any]:
        from .. import yaml12

        try:
            entries = yaml12.load(self.text)
        except yaml12.YamlError:
            return {"signature": ""}  # `check` reports the error
        return entries if isinstance(entries, dict) else {}


@dataclass(frozen=True)
class Evaluation:
    """The samples to run, the settings to run them with, and the number of epochs."""

    suites: tuple[str, ...]
    """Names of suites, or paths of JSONL files."""

    settings: EvalSettings
    lengths: tuple[int, ...] = (DEFAULT_LENGTH,)
    """The lengths of inputs in characters, for generated suites."""

    count: int | None = DEFAULT_COUNT
    """The number of samples of each suite and length; of a file at most so many, None for all."""

    seed: int = 1
    epochs: int = 1
    baseline: str | None = None
    """`direct` runs no REPL: the whole input is in the prompt."""

    texts: Path | None = None
    """The folder of the texts that some suites take their samples from."""

    def samples(self) -> Iterator[Sample]:
        """Yield the samples in order, generated on demand. Raises `EvalLogError` for an unknown suite."""
        for name in self.suites:
            if is_suite_file(name):
                yield from file_samples(name)[: self.count]
            else:
                for length in self.lengths:
                    yield from _suite(name).generate(self.seed, length, self._count, self._corpora)

    @property
    def total(self) -> int:
        """The number of entries of the complete log: samples times epochs. Raises `EvalLogError`."""
        return len(self.ids()) * self.epochs

    def ids(self) -> dict[str, str]:
        """Return the ids of the samples, each with its suite. Raises `EvalLogError` for duplicate ids."""
        suites: dict[str, str] = {}
        for name in self.suites:
            for sample_id in self._ids_of(name):
                if sample_id in suites:
                    raise EvalLogError(
                        f"{suites[sample_id]} and {name} both have a sample {sample_id!r}, and ids must be unique. "
                        f'Give one of them another "id", or run each file with a --log of its own.'
                    )
                suites[sample_id] = name
        return suites

    def header(self) -> dict[str, Any]:
        """Return the header of a log of this evaluation."""
        import dspy

        from .. import __version__

        task = self.settings.check()
        models = {role: str(getattr(task.models, role)) for role in ("main", "sub", "extraction")}
        return {
            "format": FORMAT,
            "versions": {"rlm": __version__, "dspy": dspy.__version__},
            "machine": {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"},
            "suites": [_suite_entry(name, self._corpora) for name in self.suites],
            "lengths": list(self.lengths),
            "count": self.count,
            "seed": self.seed,
            "epochs": self.epochs,
            "total": self.total,
            "baseline": self.baseline,
            "texts": None if self.texts is None else str(self.texts.absolute()),
            "models": models,
            "scripts": _script_hashes(task),
            "configuration": {
                "file": str(self.settings.path) if self.settings.path is not None else None,
                "text": self.settings.text,
                "models": dict(self.settings.models),
                "budget": dict(self.settings.budget),
                "error_rate": self.settings.error_rate,
            },
        }

    @classmethod
    def from_header(cls, header: Mapping[str, Any]) -> Evaluation:
        """Return the evaluation that a log was started with. Raises `EvalLogError` if its files have changed."""
        from ..redaction import MARK

        stored = header["configuration"]
        path = Path(stored["file"]) if stored["file"] is not None else None
        text = stored["text"]
        if MARK in text:  # a key was redacted
            try:
                text = path.read_text(encoding="utf-8") if path is not None else text
            except OSError as error:
                raise EvalLogError(f"the settings of this log contained a key, and {path} is gone: {error}") from None
        texts = Path(header["texts"]) if header.get("texts") else None
        corpora = _corpora(texts)
        refuse_changed(header, (_suite_entry(suite["path"] or suite["name"], corpora) for suite in header["suites"]))
        return cls(
            suites=tuple(suite["path"] or suite["name"] for suite in header["suites"]),
            settings=EvalSettings(text, path, stored["models"], stored["budget"], stored["error_rate"]),
            lengths=tuple(header["lengths"]),
            count=header["count"],
            seed=header["seed"],
            epochs=header["epochs"],
            baseline=header["baseline"],
            texts=texts,
        )

    def _ids_of(self, name: str) -> list[str]:
        if is_suite_file(name):
            return [sample.id for sample in file_samples(name)[: self.count]]
        suite = _suite(name)
        return [suite.id_of(self.seed, length, index) for length in self.lengths for index in range(self._count)]

    @property
    def _corpora(self) -> Any:
        return _corpora(self.texts)

    @property
    def _count(self) -> int:
        return DEFAULT_COUNT if self.count is None else self.count


def _script_hashes(task: Task) -> dict[str, str]:
    """Return the hashes of scripted models: with other replies, it is another evaluation."""
    specs = (task.models.main, task.models.sub, task.models.extraction)
    paths = {spec.scripted for spec in specs if spec.scripted is not None}
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(paths)}


def is_suite_file(name: str) -> bool:
    """Return whether a suite is given as a file, not as a name."""
    return name.endswith((".jsonl", ".json")) or "/" in name


def file_samples(path: str) -> list[Sample]:
    """Return the samples of a file. Raises `EvalLogError`."""
    from .suites import read_suite

    try:
        return read_suite(Path(path))
    except (OSError, ValueError) as error:
        message = str(error)
        raise EvalLogError(message if path in message else f"{path}: {message}") from None


def _suite(name: str) -> Any:
    from .suites import ALL_SUITES

    if name not in ALL_SUITES:
        raise EvalLogError(f"there is no suite {name!r}; `rlm eval list` shows them, and a file ends in .jsonl")
    return ALL_SUITES[name]


def _corpora(texts: Path | None) -> Any:
    from .suites import Corpora

    return None if texts is None else Corpora(texts)


def _suite_entry(name: str, corpora: Any) -> dict[str, Any]:
    if not is_suite_file(name):
        suite = _suite(name)
        if suite.needs is None:
            return {"name": suite.name, "path": None, "digest": None}
        if corpora is None:
            raise EvalLogError(f"the suite {name} is on real texts: give their folder with --texts")
        return {"name": suite.name, "path": None, "digest": corpora.digest(suite.needs)}
    path = Path(name).absolute()
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise EvalLogError(f"{path} cannot be read: {error.strerror or error}") from None
    return {"name": path.stem, "path": str(path), "digest": digest}
