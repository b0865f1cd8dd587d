"""The evidence of one run: what its loop recorded, given to `rlm.provenance`."""

from __future__ import annotations

import ast
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from ..history import REPLHistoryEntry
from ..json_values import pointer
from ..provenance.evidence import RunEvidence
from ..provenance.known_names import MODEL_CALLS
from ..provenance.origins import Call
from ..provenance.program import Cell
from ..provenance.quotes import Texts
from ..results import Evidence, Extracted, Failed, Submitted
from ..signatures import Signature
from ..signatures.cited import quotes_in
from .replay import RecordedCall

if TYPE_CHECKING:
    from .kernels import EarlierCell
    from .verification import FirstAnswer


def _value_alone(value: Any) -> Any:
    """Return a cited value without its quotes, which have a place of their own."""
    return {"value": value["value"]} if isinstance(value, dict) and "value" in value else value


def _quoted(outputs: Any, inputs: Mapping[str, Any]) -> Iterator[Evidence]:
    """Yield the place of each quote that was submitted."""
    for path, quote in quotes_in(outputs):
        found = Texts(inputs).look_up(quote)
        if found is not None:
            note = None if found.exact else "but for spaces, quotation marks or dashes"
            about: dict[str, Any] = {"input": found.input, "span": (found.start, found.end), "line": found.line}
            names = (found.input.split("/")[0],)
            yield Evidence(pointer(path), "quoted", found.text[:_MAX_QUOTE], inputs=names, note=note, **about)


def _checked(checks: Sequence[str], outputs: Mapping[str, Any]) -> Iterator[Evidence]:
    """Yield a piece of evidence for each check and each output that it is about."""
    for check in checks:
        try:
            names = {node.id for node in ast.walk(ast.parse(check, mode="eval")) if isinstance(node, ast.Name)}
        except (SyntaxError, ValueError, RecursionError):
            names = set()
        for name in outputs:
            if name in names:
                yield Evidence(pointer((name,)), "check", check)


_MAX_QUOTE = 200
_logger = logging.getLogger("rlm")
Ending = TypeVar("Ending", bound=Submitted[Any] | Extracted[Any] | Failed)


class ModelAnswers:
    """The answers of models to calls from cells, as the host gave them."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def add(self, iteration: int, calls: Iterable[RecordedCall]) -> None:
        """Note the calls of a cell."""
        for call in calls:
            if call.name in MODEL_CALLS and call.error is None:
                self.calls.append(Call(iteration, call.name, call.arguments, call.answer))


def with_evidence(
    result: Ending,
    signature: Signature,
    history: Sequence[REPLHistoryEntry],
    inputs: Mapping[str, Any],
    answers: ModelAnswers,
    tools: Collection[str],
    given: Collection[str] | None,
    checks: Sequence[str] = (),
    first: FirstAnswer | None = None,
    places: Sequence[Evidence] = (),
    texts: Mapping[str, Any] | None = None,
    earlier: Sequence[EarlierCell] = (),
) -> Ending:
    """Return a result with the evidence for its outputs. `given` are the fields that SUBMIT was called with.

    `checks` are the checks that were true of them, `first` is the answer that a second program has checked. `places`
    are where partial outputs that no code submitted were found; `given` is None then. `texts` are the inputs with
    the texts of files in their places. `earlier` are the cells of runs before this one, over the same kernel: they are
    "cell 0".
    """
    partial = result.partial_outputs if isinstance(result, Failed) else None
    if isinstance(result, Failed) and not isinstance(partial, dict):
        return result
    try:
        before = ModelAnswers()
        before.add(0, [call for cell in earlier for call in cell.calls])
        calls = [*before.calls, *answers.calls]
        cells = [Cell(0, cell.code, cell.success) for cell in earlier if cell.code]
        cells += [Cell(entry.iteration, entry.code, entry.success) for entry in history if entry.code]
        last = len(history) if first is None else first.iterations
        sources = inputs if texts is None else texts
        run = RunEvidence([cell for cell in cells if cell.iteration <= last], inputs, calls, tools, sources)
        if isinstance(result, Failed):
            pieces = (
                run.of_extracted(partial or {}, places) if given is None else run.of_submitted(partial or {}, given)
            )
            return replace(result, evidence=pieces)
        outputs = signature.outputs_to_json(result.outputs)
        more = (
            [*_quoted(result.outputs, sources), *_checked(checks, outputs)]
            if signature.cited
            else list(_checked(checks, outputs))
        )
        outputs = {name: _value_alone(value) if name in signature.cited else value for name, value in outputs.items()}
        if first is not None:
            from .verification import evidence_of_second

            second = None if first.second is None else signature.outputs_to_json(first.second)
            whole = RunEvidence(cells, inputs, calls, tools)
            more += evidence_of_second(first, outputs, second, whole, signature)
        if isinstance(result, Submitted):
            return replace(result, evidence=(*run.of_submitted(outputs, given), *more))
        return replace(result, evidence=(*run.of_extracted(outputs, result.evidence), *more))
    except Exception:  # an answer is not lost because its evidence could not be found
        _logger.exception("the evidence for the outputs could not be found")
        return result
