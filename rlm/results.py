"""How a run ends: `Submitted`, `Extracted` or `Failed`. Frozen values, made to be matched on.

    match result:
        case Submitted(outputs):
            ...
        case Extracted(outputs, confidence, reason):
            ...
        case Failed(reason):
            ...

A value that does not validate is never in `outputs`; what there is of it is in `partial_outputs` of a `Failed`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from pydantic_core import to_jsonable_python

from .budgets import FallbackReason, Usage
from .history import REPLHistoryEntry
from .json_values import dump

if TYPE_CHECKING:
    from .signatures import Signature

__all__ = [
    "Evidence",
    "ExecutionResult",
    "Extracted",
    "Failed",
    "FailureCause",
    "Submitted",
    "Usage",
    "from_dict",
    "from_json",
]

T = TypeVar("T")
U = TypeVar("U")

_UNKNOWN = Usage()


EvidenceKind: TypeAlias = Literal[
    "computed", "quoted", "said", "typed", "defaulted", "none", "variable", "history", "check", "program"
]
Verdict: TypeAlias = Literal["agrees", "differs", "not independent"]


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the code between an input and SUBMIT."""

    iteration: int
    line: int
    code: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where a value of the outputs came from, or one place where it was found.

    Where it came from, by the code that the host ran: `computed` from an input; `quoted`, a text that is in an input;
    `said`, an answer of a model; `typed`, a literal in the code; `defaulted`; or `none`, where nothing is known. Places
    where an extracted value was found: a `variable`, or what a cell printed (`history`). What else speaks for it: a
    `check` that was true, and what a second `program` gave. See docs/evidence.md.
    """

    path: str
    """The value, as a JSON pointer into the outputs: `/tags/0`."""

    kind: EvidenceKind
    quote: str = ""
    """What was found there, cut to a line."""

    variable: str | None = None
    iteration: int | None = None
    span: tuple[int, int] | None = None
    """Where in that iteration's output, or in the input: `output[start:end]`."""

    input: str | None = None
    """The input with a quoted text: `log`, or `docs/3` for one of several texts."""

    line: int | None = None
    """The line of the input that the text begins in."""

    inputs: tuple[str, ...] = ()
    """The inputs that the value depends on."""

    chain: tuple[Step, ...] = ()
    """The code that the value went through, from the input to SUBMIT."""

    calls: int = 0
    """How many calls of models and tools in the code it depends on."""

    is_chosen: bool = False
    """A literal, but one that a condition on an input chose."""

    coverage: float | None = None
    """The share of the inputs that the code read; None where that is not known, 1 where no part is left out."""

    verdict: Verdict | None = None
    """Whether a second program gave the same value; None if it gave none."""

    note: str | None = None

    @property
    def field(self) -> str:
        """The output field that the value belongs to."""
        return self.path.split("/")[1].replace("~1", "/").replace("~0", "~")

    @property
    def is_origin(self) -> bool:
        """Whether this says where the value came from, and not only where it was found."""
        return self.kind not in ("variable", "history", "check", "program")

    @property
    def is_unsupported(self) -> bool:
        """Whether nothing that was read supports the value: it was typed, is a default, or of unknown origin."""
        return self.kind in ("typed", "defaulted", "none")

    def to_dict(self) -> dict[str, Any]:
        """Return the evidence as plain JSON values, without what is empty."""
        plain = {name: value for name, value in dataclasses.asdict(self).items() if value not in (None, (), 0, False)}
        return {**plain, "quote": self.quote}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Evidence:
        """Return the evidence that `to_dict` described. What this version does not know is left out."""
        names = {field.name for field in dataclasses.fields(cls)}
        values = {name: value for name, value in data.items() if name in names}
        if (span := data.get("span")) is not None:
            values["span"] = (span[0], span[1])
        values["inputs"] = tuple(data.get("inputs") or ())
        values["chain"] = tuple(Step(**step) for step in data.get("chain") or ())
        return cls(**values)


@dataclass(frozen=True, slots=True)
class FailureCause:
    """What broke a run off: which part failed, and how. Written as text it is `model:key`, for example."""

    source: Literal["model", "sandbox", "fault", "interrupted"]
    kind: str = ""
    """The kind of a `ModelError`, or the class name of another exception."""

    @property
    def hopeless(self) -> bool:
        """Whether every other run with these models on this machine would fail, too."""
        return str(self) in _HOPELESS

    def __str__(self) -> str:
        return f"{self.source}:{self.kind}" if self.kind else self.source

    @classmethod
    def parse(cls, text: str) -> FailureCause:
        """Read a cause from its text."""
        source, _, kind = text.partition(":")
        return cls(source, kind)  # type: ignore[arg-type]


_HOPELESS = frozenset(
    {
        *("model:key", "model:billing", "model:model"),
        *("sandbox:IsolationUnavailable", "sandbox:KernelStartError"),
    }
)


class _Result:
    """What the three endings have in common."""

    outputs: Any
    status: ClassVar[str]
    agreement: Mapping[str, Any] | None
    evidence: tuple[Evidence, ...]

    @property
    def was_extracted(self) -> bool:
        """Whether the outputs were extracted, and not submitted."""
        return self.status == "extracted"

    @property
    def is_reliable(self) -> bool:
        """Whether there is an answer that may be used unseen: what `rlm run --strict` asks for.

        With a calibrator, one that is more likely right than wrong; without one, a submitted one that is not disputed.
        """
        if self.status == "failed":
            return False
        probability = getattr(self, "probability", None)
        if probability is not None:
            return bool(probability >= 0.5)
        return self.status == "submitted" and not self.trust.startswith("disputed")

    @property
    def trust(self) -> str:
        """How far the outputs can be trusted, in words that say by what.

        `probability 0.87` by a calibrator; `verified: 3 of 3`, how many independent runs agree; what a second program
        gave; or `unverified`, for extracted outputs with the formula: `unverified (formula 0.80)`. A run that failed
        without outputs has `no answer`.
        """
        if isinstance(self, Failed) and self.partial_outputs is None:
            return "no answer"
        probability = getattr(self, "probability", None)
        if probability is not None:
            return f"probability {probability:.2f}"
        if self.agreement is not None:
            agree, runs = self.agreement["agree"], self.agreement["of"]
            return f"{'verified' if 2 * agree > runs and agree > 1 else 'disputed'}: {agree} of {runs}"
        verdicts = [piece.verdict for piece in self.evidence if piece.kind == "program"]
        if "differs" in verdicts:
            return "disputed: a second program gave another value"
        if verdicts and all(verdict == "agrees" for verdict in verdicts):
            return "verified: a second program gave the same"
        return f"unverified (formula {self.confidence:.2f})" if isinstance(self, Extracted) else "unverified"

    def outputs_to_dict(self) -> Any:
        """Return the outputs as plain JSON values."""
        return _plain(self.outputs)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain JSON values."""
        return _to_dict(self)

    def to_json(self) -> str:
        """Return the result as JSON text."""
        return dump(self.to_dict())

    def _repr_html_(self) -> str:
        from .result_html import result_html

        return result_html(self)  # type: ignore[arg-type]  # one of the three


@dataclass(frozen=True)
class Submitted(_Result, Generic[T]):
    """The model called SUBMIT with outputs that fit the signature."""

    status = "submitted"

    outputs: T
    iterations: int
    llm_calls: int
    _: dataclasses.KW_ONLY
    history: Sequence[REPLHistoryEntry] = dataclasses.field(default=(), repr=False, compare=False)
    """The iterations. They are not part of `to_dict`: the trace of the run has them."""

    evidence: tuple[Evidence, ...] = ()
    usage: Usage = _UNKNOWN
    run_id: str = ""
    plan: Mapping[str, Any] | None = None
    """Which plan answered and which were rejected, in a run with plans: see `rlm.plans`."""

    agreement: Mapping[str, Any] | None = None
    """What independent runs said, with `agree` (`rlm.agreement`), or scripts of a small model (`rlm.repl.voting`)."""

    field_confidence: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """How likely each field is right, where a calibrator said so: see `rlm.calibration`."""

    features: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict, repr=False)
    """The evidence for each field in numbers, without zeros: what calibrators are fitted on."""

    probability: float | None = None
    """How likely the outputs are right, by a calibrator; None without one."""

    notes: str | None = None
    """Remarks on the probability, such as that its calibrator never saw these models."""

    @property
    def confidence(self) -> float:
        """The probability by a calibrator; 1.0 without one, which says nothing but that the model submitted."""
        return 1.0 if self.probability is None else self.probability

    def map(self, fn: Callable[[T], U]) -> Submitted[U]:
        """Return the same result with other outputs."""
        return _with_outputs(self, fn(self.outputs))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Extracted(_Result, Generic[T]):
    """A limit was reached, and the outputs were extracted from the history and the variables."""

    status = "extracted"

    outputs: T
    confidence: float
    reason: FallbackReason
    extraction_notes: str | None = None
    _: dataclasses.KW_ONLY
    evidence: tuple[Evidence, ...] = ()
    field_confidence: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """How likely each field is right, where a calibrator said so: see `rlm.calibration`."""

    features: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict, repr=False)
    """The evidence for each field in numbers, without zeros: what calibrators are fitted on."""

    iterations: int = 0
    history: Sequence[REPLHistoryEntry] = dataclasses.field(default=(), repr=False, compare=False)
    """The iterations. They are not part of `to_dict`: the trace of the run has them."""

    usage: Usage = _UNKNOWN
    run_id: str = ""
    plan: Mapping[str, Any] | None = None
    agreement: Mapping[str, Any] | None = None
    probability: float | None = None
    """How likely the outputs are right, by a calibrator; None without one, when `confidence` is by a formula."""

    @property
    def llm_calls(self) -> int:
        """How many model calls the code of the run made."""
        return self.usage.llm_calls

    def map(self, fn: Callable[[T], U]) -> Extracted[U]:
        """Return the same result with other outputs."""
        return _with_outputs(self, fn(self.outputs))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Failed(_Result):
    """There are no outputs; everything that was found out is kept."""

    status = "failed"

    reason: str
    partial_outputs: Any = None
    """What there is of an answer, as plain JSON: it did not validate, fields are missing, or it was not accepted."""

    history: Sequence[REPLHistoryEntry] = ()
    _: dataclasses.KW_ONLY
    cause: FailureCause | None = None
    """What broke the run off; None for a run that came to its end without an answer."""

    iterations: int = 0
    evidence: tuple[Evidence, ...] = ()
    usage: Usage = _UNKNOWN
    run_id: str = ""
    plan: Mapping[str, Any] | None = None
    agreement: Mapping[str, Any] | None = None
    probability: float | None = None
    """How likely `partial_outputs` are right, where a calibrator said so and they were not accepted for it."""

    @property
    def llm_calls(self) -> int:
        """How many model calls the code of the run made."""
        return self.usage.llm_calls

    @property
    def outputs(self) -> None:
        """None: there are none."""
        return None

    @property
    def confidence(self) -> float:
        """The probability of an answer that was not accepted for it; otherwise 0: there is no answer."""
        return 0.0 if self.probability is None else self.probability

    def map(self, fn: Callable[[Any], Any]) -> Failed:
        """This result: there are no outputs to change."""
        return self


ExecutionResult: TypeAlias = Submitted[T] | Extracted[T] | Failed


def from_dict(data: Mapping[str, Any], signature: Signature) -> ExecutionResult[Any]:
    """Return the result that `to_dict` described; its outputs are checked against the signature again."""
    about: dict[str, Any] = {"usage": Usage.from_dict(data["usage"]), "run_id": data["run_id"]}
    about |= {"plan": data.get("plan"), "agreement": data.get("agreement")}
    about["evidence"] = tuple(map(Evidence.from_dict, data.get("evidence") or ()))
    scored = {name: data.get(name, {}) for name in ("field_confidence", "features")}
    scored["probability"] = data.get("probability")
    match data["status"]:
        case "submitted":
            outputs = signature.outputs_from_json(data["outputs"])
            return Submitted(outputs, data["iterations"], data["llm_calls"], notes=data.get("notes"), **scored, **about)
        case "extracted":
            return Extracted(
                signature.outputs_from_json(data["outputs"]),
                data["confidence"],
                FallbackReason.from_dict(data["reason"]),
                data["extraction_notes"],
                **scored,
                iterations=data.get("iterations", 0),
                **about,
            )
        case "failed":
            history = tuple(REPLHistoryEntry.from_dict(entry) for entry in data["history"])
            cause = FailureCause.parse(data["cause"]) if data.get("cause") else None
            about |= {"iterations": data.get("iterations", len(history)), "probability": data.get("probability")}
            return Failed(data["reason"], data["partial_outputs"], history, cause=cause, **about)
        case other:
            raise ValueError(f"{other!r} is no result; one is 'submitted', 'extracted' or 'failed'")


def from_json(text: str | bytes, signature: Signature) -> ExecutionResult[Any]:
    """Return the result that `to_json` wrote."""
    return from_dict(json.loads(text), signature)


def _with_outputs(result: Any, outputs: Any) -> Any:
    return dataclasses.replace(result, outputs=outputs)


def _plain(value: Any) -> Any:
    """Return a value as plain JSON: `map` may have put anything there, and what JSON does not know becomes text."""
    return to_jsonable_python(value, fallback=str, inf_nan_mode="null", round_trip=True)


def _to_dict(result: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"status": result.status, "run_id": result.run_id, "confidence": result.confidence}
    made["trust"] = result.trust
    for field in dataclasses.fields(result):
        value = getattr(result, field.name)
        if field.name == "history" and not isinstance(result, Failed):
            continue
        if isinstance(value, FallbackReason | Usage):
            value = value.to_dict()
        elif isinstance(value, FailureCause):
            value = str(value)
        elif field.name in ("history", "evidence"):
            value = [entry.to_dict() for entry in value]
        made[field.name] = _plain(value)
    return made
