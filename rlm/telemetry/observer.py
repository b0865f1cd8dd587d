"""The observer that turns events into spans. Spans have the times of the events, whatever the exporter takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, assert_never

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider

from ..events import (
    ApprovalAnswered,
    ApprovalRequested,
    BudgetUsed,
    CallEnded,
    CallStarted,
    CellEnded,
    CellStarted,
    ConversationCompacted,
    EscalationAnswered,
    Event,
    ExtractionAttempted,
    FilesHashed,
    FilesWritten,
    HistoryAppended,
    ItemsAnswered,
    IterationStarted,
    MapStarted,
    ModeChosen,
    ModelAnswered,
    ModelAsked,
    ModelFailed,
    ModelWaiting,
    OperatorAwaited,
    PlanAnswered,
    PlanEscalated,
    PlanRejected,
    PlansCompared,
    PlanSelected,
    ReplayDiffered,
    RunEnded,
    RunInterrupted,
    RunStarted,
    TiersUsed,
    TriggerFired,
    VariablesChanged,
)
from ..redaction import Redactor
from ..results import Failed
from ..text import cut_middle, encodable
from . import attributes

SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.0"


@dataclass
class _Run:
    """The open spans of a run under way."""

    span: Span
    cell: Span | None = None
    calls: dict[int | None, Span] = field(default_factory=dict)
    asked: dict[int, Span] = field(default_factory=dict)
    turns: list[tuple[str, str]] = field(default_factory=list)
    """The conversation with the main model so far; events have what is new."""

    trigger: str | None = None
    attempts: int = 0


class Spans:
    """Makes a span of every run, model call, cell and host call. One observer can serve many runs at once."""

    def __init__(self, provider: TracerProvider, *, content: bool = False) -> None:
        """`content`: whether prompts, code and answers go into the spans. Secrets are replaced in them."""
        self._provider = provider
        self._tracer = provider.get_tracer("rlm", schema_url=SCHEMA_URL)
        self._redactor = Redactor() if content else None
        self._runs: dict[str, _Run] = {}

    def flush(self, timeout: float = 30.0) -> bool:
        """Wait until ended spans are exported. Return False if that took too long."""
        force = getattr(self._provider, "force_flush", None)
        return bool(force(int(timeout * 1000))) if force is not None else True

    def __call__(self, event: Event) -> None:
        """Take an event."""
        if isinstance(event, RunStarted):
            self._begin(event)
            return
        run = self._runs.get(event.run_id)
        if run is None:
            return
        match event:
            case ModelAsked():
                self._ask(run, event)
            case ModelAnswered() if event.id in run.asked:  # otherwise from the record of a past run
                self._answer(run.asked.pop(event.id), event)
            case ModelFailed() if event.id in run.asked:
                self._end(run.asked.pop(event.id), event, event.error_kind, event.message)
            case CellStarted():
                known = attributes.tool("python", f"{event.run_id}/cell/{event.iteration}", event.iteration)
                run.cell = self._start(event, known, under=run.span)
                self._add(run.cell, "gen_ai.tool.call.arguments", event.code, name="code")
            case CellEnded() if run.cell is not None:
                cell, run.cell = run.cell, None
                self._add(cell, "gen_ai.tool.call.result", event.output)
                self._end(cell, event, *_cell_error(event))
            case CallStarted():
                known = attributes.tool(event.name, f"{event.run_id}/call/{event.id}", event.iteration)
                run.calls[event.id] = call = self._start(event, known, under=run.cell or run.span)
                self._add(call, "gen_ai.tool.call.arguments", event.arguments)
            case CallEnded() if event.id in run.calls:
                call = run.calls.pop(event.id)
                self._add(call, "gen_ai.tool.call.result", event.answer)
                kind, _, message = (event.error or "").partition(": ")
                self._end(call, event, kind, message)
            case TriggerFired():
                run.trigger = event.reason.kind
            case ExtractionAttempted():
                run.attempts += 1
            case RunEnded():
                self._finish(run, event)
            case RunInterrupted():
                self._close(run, event)
                self._end(run.span, event, "interrupted", None)
            case (
                ModelAnswered()
                | ModelFailed()
                | CellEnded()
                | CallEnded()
                | ModeChosen()
                | IterationStarted()
                | ModelWaiting()
                | MapStarted()
                | ItemsAnswered()
                | VariablesChanged()
                | HistoryAppended()
                | BudgetUsed()
                | ConversationCompacted()
                | ReplayDiffered()
                | FilesHashed()
                | FilesWritten()
                | TiersUsed()
                | PlansCompared()
                | PlanSelected()
                | PlanRejected()
                | PlanEscalated()
                | OperatorAwaited()
                | EscalationAnswered()
                | PlanAnswered()
                | ApprovalRequested()
                | ApprovalAnswered()
            ):
                pass  # no span of their own, or the end of a span that was not opened
            case _ if TYPE_CHECKING:  # mypy finds a kind that is not listed above; at run time it changes nothing
                assert_never(event)

    def _begin(self, event: RunStarted) -> None:
        if self._redactor is not None:
            self._redactor = Redactor()  # the environment may have changed since
        above = self._runs.get(event.parent or "")
        under = (above.calls.get(event.parent_call) or above.span) if above is not None else None
        span = self._start(event, attributes.run(event), under=under)
        task = event.signature.instructions
        if self._redactor is not None and task:
            span.set_attribute("gen_ai.system_instructions", attributes.instructions(self._redactor.text(task)))
        self._runs[event.run_id] = _Run(span)

    def _ask(self, run: _Run, event: ModelAsked) -> None:
        under = run.calls.get(event.call) or run.span
        known = attributes.asked(event)
        run.asked[event.id] = span = self._start(event, known, under=under, kind=SpanKind.CLIENT)
        if self._redactor is None:
            return
        turns = [(role, self._redactor.text(text)) for role, text in event.turns]
        if event.role == "main":
            turns = run.turns = [*run.turns[: event.retained], *turns]
        span.set_attribute("gen_ai.input.messages", attributes.messages(turns))
        if event.system:
            system = self._redactor.text(event.system)
            span.set_attribute("gen_ai.system_instructions", attributes.instructions(system))

    def _answer(self, span: Span, event: ModelAnswered) -> None:
        span.set_attributes(attributes.answered(event))
        if self._redactor is not None:
            turns = [("assistant", self._redactor.text(event.text))]
            messages = attributes.messages(turns, finish_reason=attributes.finish_reason(event))
            span.set_attribute("gen_ai.output.messages", messages)
        self._end(span, event)

    def _finish(self, run: _Run, event: RunEnded) -> None:
        result = event.result
        more = {"rlm.trigger": run.trigger, "rlm.extraction_attempts": run.attempts or None}
        run.span.set_attributes(attributes.ending(event) | attributes.present(more))
        if self._redactor is not None and not isinstance(result, Failed):
            outputs = self._redactor.text(attributes.to_json(result.outputs_to_dict()))
            finished = attributes.messages([("assistant", outputs)], finish_reason="stop")
            run.span.set_attribute("gen_ai.output.messages", finished)
        self._close(run, event)
        kind = str(result.cause or run.trigger or attributes.OTHER) if isinstance(result, Failed) else None
        self._end(run.span, event, kind, result.reason if isinstance(result, Failed) else None)

    def _close(self, run: _Run, event: Event) -> None:
        """End the spans that the run has left open: host calls and model calls that were cancelled."""
        self._runs.pop(event.run_id, None)
        for span in (*run.asked.values(), *run.calls.values(), *([run.cell] if run.cell else ())):
            self._end(span, event, "cancelled", None)

    def _start(
        self, event: Event, known: attributes.Attributes, *, under: Span | None, kind: SpanKind = SpanKind.INTERNAL
    ) -> Span:
        about = (known.get(f"gen_ai.{name}") for name in ("tool.name", "agent.name"))
        name = known.get("gen_ai.request.model") if kind is SpanKind.CLIENT else next(filter(None, about), None)
        context = trace.set_span_in_context(under) if under is not None else None
        return self._tracer.start_span(
            " ".join(filter(None, (known["gen_ai.operation.name"], name))),
            context,
            kind,
            attributes=known,
            start_time=_nanoseconds(event),
        )

    def _end(self, span: Span, event: Event, error: Any = None, message: Any = None) -> None:
        """End a span, with the type of an error. Its message may quote anything, so it counts as content."""
        if error:
            span.set_attribute("error.type", attributes.error_type(error))
            words = self._words(message, 1_000) if self._redactor is not None and message else None
            span.set_status(Status(StatusCode.ERROR, words))
        span.end(_nanoseconds(event))

    def _add(self, span: Span, attribute: str, text: Any, *, name: str | None = None) -> None:
        """Add content if it is enabled: a text, or an object with the text under a name."""
        if self._redactor is not None and text:
            content = self._words(text, attributes.MAX_CHARS)
            span.set_attribute(attribute, content if name is None else attributes.to_json({name: content}))

    def _words(self, text: Any, most: int) -> str:
        assert self._redactor is not None
        return encodable(cut_middle(self._redactor.text(str(text)), most))


def _cell_error(event: CellEnded) -> tuple[str | None, str | None]:
    if event.error is not None:
        return event.error.name or attributes.OTHER, event.error.message
    if event.limit:
        return "limit", event.limit
    return (None, None) if event.success else (attributes.OTHER, None)


def _nanoseconds(event: Event) -> int:
    return int(event.time * 1e9)
