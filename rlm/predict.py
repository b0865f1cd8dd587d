"""Predict: a signature as a `dspy.Module` whose calls are whole runs. dspy's optimizers see its inner predictor.

answer = rlm.Predict("doc, question -> answer: int").run_with_fallback(doc=text, question="How many errors?")
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dspy
from dspy.adapters.base import Adapter

import sandbox

from .budgets import FallbackTrigger
from .calibration.scorer import for_models, scorer_of
from .events import Event, Observer, RunStarted, fan_out, ignore
from .extraction.confidence import Scorer, score
from .models.client import Answer, ModelError
from .repl.conversation import Conversation
from .repl.llm import next_reply
from .repl.loop import Driver
from .repl.replay import Past
from .repl.sync import run_sync
from .repl.tools import refuse_tools
from .results import ExecutionResult, Failed
from .signatures import Signature
from .traces.default_writer import default_observer

if TYPE_CHECKING:
    from .plans import Plan, PlanSettings


def _plan_settings(given: Any) -> PlanSettings:
    from .plans import PlanSettings

    return PlanSettings.of(given)


@contextlib.contextmanager
def _resumable() -> Iterator[list[str]]:
    """A list for the ids of runs that begin inside; what interrupts the first one says how to go on with it."""
    begun: list[str] = []
    try:
        yield begun
    except (KeyboardInterrupt, asyncio.CancelledError) as error:
        if begun:
            error.add_note(f"Run {begun[0]} is on record. To go on with it: rlm.Predict(...).resume({begun[0]!r})")
        raise


class RunFailed(Exception):
    """A run that was called as a dspy module ended as `Failed`; the result is in `result`."""

    def __init__(self, result: Failed) -> None:
        super().__init__(result.reason)
        self.result = result


class _Act(dspy.Signature):  # type: ignore[misc]
    """Write the next step."""

    conversation: str = dspy.InputField(desc="the task, the code so far and what it printed")
    reply: str = dspy.OutputField(desc="a short thought, then one python code block")


class _ReplAdapter(Adapter):  # type: ignore[misc]
    """Hands a conversation to a model as it is: append-only, so that caches hit. Instructions and demos go in front."""

    def __init__(self, conversation: Conversation, by: Any = None) -> None:
        """`by` is the adapter that somebody has set, if any."""
        super().__init__()
        self._conversation = conversation
        self._by = by
        self.answer: Answer | None = None
        self.error: ModelError | None = None

    async def acall(
        self, lm: Any, lm_kwargs: dict[str, Any], signature: Any, demos: list[dict[str, Any]], inputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Ask once."""
        try:
            self.answer = await _reply(lm, self._conversation, self._by, signature, demos, lm_kwargs)
        except ModelError as error:
            self.error = error
            raise
        return [{"reply": self.answer.text}]


async def _reply(
    lm: Any, conversation: Conversation, by: Any, signature: Any, demos: list[dict[str, Any]], options: dict[str, Any]
) -> Answer:
    """The next reply, with what an optimizer has found for the predictor."""
    system = conversation.system
    if signature.instructions != _Act.instructions:  # an optimizer found better words
        system = f"{signature.instructions}\n\n{system}"
    for demo in demos:
        if reply := demo.get("reply"):  # others are examples of the task, which say nothing about a step
            system += f"\n\nExample:\n{demo.get('conversation', '')}\n{reply}"
    return await next_reply(lm, conversation, adapter=by, system=system, **options)


def _dspy_takes_part(act: Any) -> bool:
    """Whether dspy, or somebody through it, does something about a call of the predictor but to remember it."""
    settings = dspy.settings
    listening = settings.callbacks or act.callbacks or settings.send_stream is not None or settings.track_usage
    return bool(listening) or type(act) is not dspy.Predict


def _remember(act: Any, conversation: Conversation, reply: str) -> None:
    """Add a call to dspy's trace, which its optimizers learn from."""
    trace, most = dspy.settings.trace, dspy.settings.max_trace_size
    if trace is not None and most > 0:
        del trace[: max(0, len(trace) + 1 - most)]
        made = dspy.Prediction.from_completions([{"reply": reply}], signature=act.signature)
        trace.append((act, {"conversation": conversation.turns[-1].text}, made))


class Predict(dspy.Module):  # type: ignore[misc]
    """Runs a signature to one of three endings. Holds no state of a run: one instance can serve many at once."""

    def __init__(
        self,
        signature: Any,
        *,
        trigger: FallbackTrigger | None = None,
        tools: Mapping[str, Callable[..., Any]] | None = None,
        sub_lm: Any = None,
        extraction_lm: Any = None,
        limits: sandbox.Limits | None = None,
        isolation: str = "auto",
        policy: str = "enforce",
        depth: int = 1,
        checks: str | Sequence[str] = (),
        confidence: Scorer | str | Path = score,
        accept_at: Mapping[str, float] | None = None,
        adapter: Any = None,
        plans: PlanSettings | int | Sequence[Plan | str] | None = None,
        pool: sandbox.Pool | None = None,
        observe: Observer = ignore,
        record: bool = True,
    ) -> None:
        """`signature` is a `dspy.Signature` class or text. The main model is dspy's: `dspy.configure(lm=...)`.

        `adapter` is what steps, typed questions and the extraction go through, if not dspy's: `rlm.OutlinesAdapter()`,
        `rlm.TwoStepAdapter(...)`.
        With `plans`, runs try several ways and judge what comes of each: a number of plans that the model is asked
        for, a list of them, or `rlm.plans.PlanSettings(...)` with all there is to say.
        `confidence` scores extracted answers: a function, or the path of a calibrator (`rlm eval calibrate`), which
        `accept_at={"error": 0.1}` can turn into a rule: an answer below its threshold is `Failed`.
        Runs are on record (`rlm runs list`) unless `record` is off, here or for all with `RLM_TRACE=off`.
        """
        super().__init__()
        self.signature = Signature.of(signature)
        refuse_tools(tools or {}, self.signature)
        # Code calls functions as they are: what dspy makes of them is for models that fill in forms.
        own = {name: tool.func if isinstance(tool, dspy.Tool) else tool for name, tool in (tools or {}).items()}
        for name, model in (("sub_lm", sub_lm), ("extraction_lm", extraction_lm)):
            if isinstance(model, str):
                raise TypeError(f"{name} is a model, not its name: {name}=dspy.LM({model!r})")
        self.act = dspy.Predict(_Act)
        self.sub_lm = sub_lm
        self.extraction_lm = extraction_lm
        self._options: dict[str, Any] = {
            "trigger": trigger or FallbackTrigger(),
            "tools": own,
            "limits": limits or sandbox.Limits(),
            "isolation": isolation,
            "policy": policy,
            "depth": depth,
            "checks": (checks,) if isinstance(checks, str) else tuple(checks),
            "scorer": scorer_of(confidence, accept_at),
            "pool": pool,
        }
        self._adapter = adapter
        self._plans = None if plans is None else _plan_settings(plans)
        self._observe = observe
        self._record = record

    def run_with_fallback(self, /, **inputs: Any) -> ExecutionResult[Any]:
        """One run, to its ending. Raises `InvalidInputs` before it starts; afterwards every outcome is a result."""
        with _resumable() as begun:
            return run_sync(lambda: self._run(inputs, begun=begun))  # type: ignore[no-any-return]

    async def arun_with_fallback(self, /, **inputs: Any) -> ExecutionResult[Any]:
        """As `run_with_fallback`, without stalling the event loop."""
        with _resumable() as begun:
            return await self._run(inputs, begun=begun)

    def resume(self, run_id: str) -> ExecutionResult[Any]:
        """Go on with a run of this signature that is on record and was cut off. Nothing is asked twice."""
        with _resumable() as begun:
            return run_sync(lambda: self._resume(run_id, begun))  # type: ignore[no-any-return]

    async def aresume(self, run_id: str) -> ExecutionResult[Any]:
        """As `resume`, without stalling the event loop."""
        with _resumable() as begun:
            return await self._resume(run_id, begun)

    async def _resume(self, run_id: str, begun: list[str]) -> ExecutionResult[Any]:
        from .traces import find, past

        run = find(run_id)
        if bool(run.beginning.get("loop_id")) is not (self._plans is not None):
            with_or_without = "with plans: give" if self._plans is None else "without plans: give no"
            raise ValueError(f"run {run.id} was made {with_or_without} `plans` to this Predict to go on with it")
        return await self._run(run.inputs(), past(run), begun=begun)

    async def _run(
        self, inputs: Mapping[str, Any], past: Past | None = None, *, begun: list[str]
    ) -> ExecutionResult[Any]:
        driver = self._driver(begun)
        if self._plans is None:
            return await driver.run(inputs, past=past)
        from .plans.runner import run_plans

        return await run_plans(driver, inputs, self._plans, past=past)

    def _driver(self, begun: list[str]) -> Driver:
        """How this run is made; the ids of runs that go on record are put into `begun`."""
        record = default_observer() if self._record else ignore

        def note(event: Event) -> None:
            if isinstance(event, RunStarted):
                begun.append(event.run_id)

        lm = self.act.lm or dspy.settings.lm
        if lm is None:
            raise ValueError("no language model: dspy.configure(lm=dspy.LM(...)), or set_lm on this module")
        models = (lm, self.sub_lm, self.extraction_lm)
        # What runs here is named by its weights, and not as in a log of `rlm eval`.
        named = [str(one.model) for one in models if hasattr(one, "model") and not getattr(one, "constrains", False)]
        return Driver(
            self.signature,
            *models,
            act=self._ask_predictor,
            adapter=self._adapter or dspy.settings.adapter,
            observe=fan_out(record, ignore if record is ignore else note, self._observe),
            **self._options | {"scorer": for_models(self._options["scorer"], named)},
        )

    def forward(self, /, **inputs: Any) -> Any:
        """A run as a dspy module: its outputs as a `dspy.Prediction`. Raises `RunFailed` when there are none.

        The run's result is there as `result`, unless an output has that name.
        """
        return self._prediction(self.run_with_fallback(**inputs))

    async def aforward(self, /, **inputs: Any) -> Any:
        """As `forward`, asynchronously."""
        return self._prediction(await self.arun_with_fallback(**inputs))

    async def _ask_predictor(self, conversation: Conversation) -> Answer:
        """The next reply of the main model, as a call of the inner predictor: through dspy where that has a part."""
        act, by = self.act, self._adapter or dspy.settings.adapter
        if not _dspy_takes_part(act):
            answer = await _reply(act.lm or dspy.settings.lm, conversation, by, act.signature, act.demos, act.config)
            _remember(act, conversation, answer.text)
            return answer
        adapter = _ReplAdapter(conversation, by)
        with dspy.context(adapter=adapter):
            try:
                await act.acall(conversation=conversation.turns[-1].text)
            except Exception:
                if adapter.error is not None:
                    raise adapter.error from None
                raise
        assert adapter.answer is not None
        return adapter.answer

    def _prediction(self, result: ExecutionResult[Any]) -> Any:
        if isinstance(result, Failed):
            raise RunFailed(result)
        values = {field.name: getattr(result.outputs, field.name) for field in self.signature.outputs}
        return dspy.Prediction({"result": result, **values})
