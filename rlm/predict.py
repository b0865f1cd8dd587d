"""`Predict`: a signature as a `dspy.Module` whose calls are whole runs. dspy's optimizers see its inner predictor.

answer = rlm.Predict("doc, question -> answer: int").run_with_fallback(doc=text, question="How many errors?")
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal

import dspy
from dspy.adapters.base import Adapter
from typing_extensions import TypeVar

import sandbox

from .agreement.settings import AgreementSettings
from .budgets import FallbackTrigger
from .calibration.calibrator import for_models
from .calibration.io import scorer_of
from .dspy_bridge import add_to_trace, is_predictor_observed, run_beside_stream
from .errors import RlmError
from .events import Observer, fan_out, ignore
from .extraction.confidence import Scorer, score
from .json_values import jsonable
from .models.client import Answer, ModelError
from .notebook_display import progress_observer
from .reading import MODES, MapPlan, Mode
from .repl.caller_tools import Tools, refuse_tools
from .repl.config import RunConfig
from .repl.conversation import Conversation
from .repl.learned import Learned
from .repl.llm import next_reply
from .repl.loop import RunLoop
from .repl.replay import RecordedRun
from .repl.tools import RESERVED
from .results import ExecutionResult, Failed
from .run import Loop, Run
from .signatures import Signature
from .signatures.checks import CheckProblem, read_check
from .text import count
from .traces.writer import default_observer

if TYPE_CHECKING:
    from .chat.chat import Chat
    from .chat.settings import SessionSettings
    from .mcp.approvals import Approver
    from .mcp.servers import McpServers
    from .plans import Plan, PlanSettings

Tool = Callable[..., Any]
T = TypeVar("T", default=Any)
"""The class of the signature, for editors: its fields are those of the outputs."""


class RunFailed(RlmError):
    """A run that was called as a dspy module ended as `Failed`; the result is in `result`."""

    def __init__(self, result: Failed) -> None:
        super().__init__(result.reason)
        self.result = result


class RunPrediction(dspy.Prediction):  # type: ignore[misc]
    """The outputs of a run, with `trajectory` and `final_reasoning` as `dspy.RLM` has them, and the run's `result`.

    An output of one of these names hides what is said here.
    """

    def __init__(self, base: Any = None, **values: Any) -> None:
        super().__init__(base, **values)
        self._result: ExecutionResult[Any] | None = getattr(base, "_result", None)

    @classmethod
    def of(cls, result: ExecutionResult[Any], outputs: Mapping[str, Any]) -> RunPrediction:
        """Return the prediction of a run: its outputs, and what it did."""
        history = result.history
        steps = [{"reasoning": step.reasoning or "", "code": step.code, "output": step.output} for step in history]
        reasoning = steps[-1]["reasoning"] if steps else ""
        prediction = cls({"trajectory": steps, "final_reasoning": reasoning, **outputs})
        prediction._result = result
        return prediction

    def __getattr__(self, name: str) -> Any:
        if name == "result" and "result" not in self._store:
            return self._result
        return super().__getattr__(name)

    def toDict(self) -> dict[str, Any]:  # dspy's name
        """Return the outputs and the trajectory as plain JSON values."""
        return {name: jsonable(value) for name, value in self._store.items()}


@dataclass(frozen=True)
class SandboxSettings:
    """How model-written code is confined: the `sandbox` section of a task file."""

    isolation: str = "auto"
    """`auto`, or one tier by name; `none` runs code unconfined."""

    policy: str = "enforce"
    """`enforce`, `warn` or `off`: what becomes of code that the policy would refuse."""

    limits: sandbox.Limits = field(default_factory=sandbox.Limits)
    pool: sandbox.Pool | None = None
    """Where kernels come from; None is the pool of the process."""

    kernel_name: str | None = None
    """Another Jupyter kernel by the name of its kernelspec, on another machine for example: see docs/scale.md. Its
    provisioner confines it; `isolation` and `pool` do not count."""


class Predict(dspy.Module, Generic[T]):  # type: ignore[misc]
    """Runs a signature to one of three endings. Holds no state of a run: one instance can serve many at once.

    Args:
        signature: A `dspy.Signature` class, or text such as `"log, question -> answer: int"`. With a class, editors
            know the fields of `result.outputs`.
        lm: The main model. By default dspy's: `dspy.configure(lm=...)`.
        sub_lm: The model that code asks with `llm_query`. By default the main model.
        other_lms: More models that code can ask, by name: `llm_query(question, model="large")`.
        extraction_lm: The model that extracts the outputs of a run that did not submit. By default the main model.
        tools: Functions that code can call: a list, or a mapping by name. They run in the host. A mapping may hold
            plain values, too, which code has as variables, and `{"tool": ..., "description": ...}`.
        child_tools: The tools of child runs (`rlm_query`), in the same form. By default those of the run itself.
        mcp: MCP servers whose tools code can call, by name: `{"time": rlm.McpServer(command=["mcp-server-time"])}`, or
            mappings as in a task file. They are started for the first run. See docs/mcp.md.
        approve: Asked about calls of MCP tools that may change something, once for all calls of a cell that are known:
            returns True, False, or `"cell"` or `"run"` for all that may come.
        trigger: The budget, and with it when the outputs are extracted.
        max_iterations: Short for `trigger=FallbackTrigger(max_iterations=...)`.
        max_llm_calls: Short for `trigger=FallbackTrigger(max_llm_calls=...)`.
        max_parallel: How many questions of one `llm_batch` or `rlm_query_batched` are asked at once, at most.
        depth: How deep `rlm_query` may nest.
        system_prompt: The system prompt in place of rlm's own. `$functions` in it stands for the functions of the
            REPL and their descriptions, `$submit` for the call that ends a run.
        setup_code: Code that runs in the kernel before the first cell: functions and constants of yours.
        checks: Python expressions over the outputs that must be true.
        confidence: What scores answers: a function, the path of a calibrator (`rlm eval calibrate`), or "default".
        accept_at: `{"error": 0.1}` makes answers below a calibrator's threshold `Failed`.
        agree: Up to this many independent runs on one budget, whose answers are compared: see docs/evidence.md.
        verify: Whether the model is asked for a second, different program that checks what it submitted.
        reconcile: Whether a further run sees the programs whose answers differ, and decides.
        adapter: The dspy adapter of steps, typed questions and the extraction. By default dspy's.
        mode: How the inputs are read: by code (`repl`), whole (`direct`), item by item (`map`), or as `auto` decides.
        map: The plan of a map: `rlm.MapPlan(...)`. Without it, the main model is asked for one.
        plans: Try several ways: a number of plans, a list of them, or `rlm.plans.PlanSettings(...)`.
        sandbox: How code is confined: `rlm.SandboxSettings(...)`. Its fields are also taken one by one:
            `limits`, `isolation`, `policy`, `pool`.
        on_failure: What a call as a dspy module makes of a run that ends as `Failed`: `raise` raises `RunFailed`;
            `prediction` returns one whose outputs are None, from which optimizers such as GEPA can learn.
        observe: A function that is called with every event of a run: see `rlm.events`.
        record: Whether runs are on record (`rlm runs list`). `RLM_TRACE=off` turns that off for all.
    """

    def __init__(
        self,
        signature: type[T] | str | Signature,
        *,
        lm: Any = None,
        sub_lm: Any = None,
        extraction_lm: Any = None,
        other_lms: Mapping[str, Any] | None = None,
        tools: Mapping[str, Any] | Sequence[Tool] | None = None,
        child_tools: Mapping[str, Any] | Sequence[Tool] | None = None,
        mcp: McpServers | Mapping[str, Any] | None = None,
        approve: Approver | None = None,
        trigger: FallbackTrigger | None = None,
        max_iterations: int | None = None,
        max_llm_calls: int | None = None,
        max_parallel: int = 16,
        depth: int = 1,
        system_prompt: str | None = None,
        setup_code: str = "",
        checks: str | Sequence[str] = (),
        confidence: Scorer | str | Path = score,
        accept_at: Mapping[str, float] | None = None,
        agree: AgreementSettings | int | None = None,
        reconcile: bool = False,
        verify: bool = False,
        adapter: Any = None,
        mode: Mode = "repl",
        map: MapPlan | None = None,
        plans: PlanSettings | int | Sequence[Plan | str] | None = None,
        sandbox: SandboxSettings | None = None,
        limits: sandbox.Limits | None = None,
        isolation: str | None = None,
        policy: str | None = None,
        pool: sandbox.Pool | None = None,
        on_failure: Literal["raise", "prediction"] = "raise",
        observe: Observer = ignore,
        record: bool = True,
    ) -> None:
        super().__init__()
        if on_failure not in ("raise", "prediction"):
            raise ValueError(f"on_failure={on_failure!r}: choose 'raise' or 'prediction'")
        self._on_failure = on_failure
        self.signature = Signature.of(signature, reserved=RESERVED)
        own = Tools.of(tools)
        refuse_tools(own.functions, self.signature, own.values)
        others = dict(other_lms or {})
        named = {f"other_lms[{name!r}]": model for name, model in others.items()}
        for name, model in {"lm": lm, "sub_lm": sub_lm, "extraction_lm": extraction_lm, **named}.items():
            if isinstance(model, str):
                raise TypeError(f"{name} is a model, not its name: {name}=dspy.LM({model!r})")
        if max_parallel < 1:
            raise ValueError(f"max_parallel={max_parallel}: at least 1")
        self.act = dspy.Predict(_Act)
        self.act.lm = self._lm = lm
        self.sub_lm = sub_lm
        self.extraction_lm = extraction_lm
        given: dict[str, Any] = {"limits": limits, "isolation": isolation, "policy": policy, "pool": pool}
        given = {name: value for name, value in given.items() if value is not None}
        settings = replace(sandbox or SandboxSettings(), **given)
        self._options: dict[str, Any] = {
            "trigger": _trigger(trigger, max_iterations=max_iterations, max_llm_calls=max_llm_calls),
            "tools": own.functions,
            "values": own.values,
            "child_tools": None if child_tools is None else Tools.of(child_tools),
            "other_models": others,
            "max_parallel": max_parallel,
            "system_prompt": system_prompt,
            "setup_code": setup_code,
            "limits": settings.limits,
            "isolation": settings.isolation,
            "policy": settings.policy,
            "depth": depth,
            "verify": verify,
            "checks": (checks,) if isinstance(checks, str) else tuple(checks),
            "scorer": scorer_of(confidence, accept_at),
            "pool": settings.pool,
            "kernel_name": settings.kernel_name,
            "mode": _mode(mode, map),
            "map": None if map is None else map.for_signature(self.signature),
        }
        _check_expressions(self._options["checks"], self.signature)
        self._adapter = adapter
        self._servers = None if mcp is None else _servers(mcp, approve)
        self._agreement = AgreementSettings.of(agree, reconcile=reconcile)
        self._plans = None if plans is None else _plan_settings(plans)
        self._observe = observe
        self._record = record

    def __repr__(self) -> str:
        sides = (", ".join(field.name for field in side) for side in (self.signature.inputs, self.signature.outputs))
        return f"<rlm.Predict {self.signature.name}: {' -> '.join(sides)}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Predict:
        # Optimizers copy programs: only the predictor is theirs to change. Models, tools and kernels are shared.
        copied = copy.copy(self)
        copied.act = copy.deepcopy(self.act, {**memo, id(self.act.lm): self.act.lm})
        return copied

    def start(self, /, *values: Any, **inputs: Any) -> Run[T]:
        """Start a run in the background and return its handle. Raise `InvalidInputs` before anything is started.

        Inputs are given by name, or in the order of the signature.
        """
        return self._make_run(self._by_name(values, inputs)).start()

    def run_with_fallback(self, /, *values: Any, **inputs: Any) -> ExecutionResult[T]:
        """Run to the ending, as `start(...).result()`. Raise `InvalidInputs` before; then every outcome is a result."""
        return self._make_run(self._by_name(values, inputs)).run_here()

    async def arun_with_fallback(self, /, *values: Any, **inputs: Any) -> ExecutionResult[T]:
        """Run to the ending in the event loop of the caller."""
        if self._servers is not None:
            await self._servers.aopen()
        return await self._make_run(self._by_name(values, inputs))

    def resume(self, run_id: str) -> ExecutionResult[T]:
        """Go on with a run of this signature that is on record and was cut off. No model is asked twice."""
        return self._resumed(run_id).run_here()

    async def aresume(self, run_id: str) -> ExecutionResult[T]:
        """As `resume`, in the event loop of the caller."""
        return await self._resumed(run_id)

    def session(self, settings: SessionSettings | None = None, /, **inputs: Any) -> Chat:
        """Return a session: several questions, one after another, over the same inputs and variables.

        `inputs` are those that all questions share; each question gives the others. See `rlm.Chat`.
        """
        from .chat.sessions import new_chat

        recorder = default_observer() if self._record else ignore
        return new_chat(self._question_config(), inputs, settings, recorder=recorder)

    def reopen(self, session_id: str) -> Chat:
        """Return a session of this signature that is on disk. Its kernel is rebuilt; no model is asked again."""
        from .chat.sessions import reopen_chat

        recorder = default_observer() if self._record else ignore
        return reopen_chat(self._question_config(), session_id, recorder=recorder)

    def forward(self, /, *values: Any, **inputs: Any) -> Any:
        """Run as a dspy module: its outputs as a `RunPrediction`. Raise `RunFailed` when there are none."""
        run = self._make_run(self._by_name(values, inputs))

        async def execute() -> ExecutionResult[Any]:
            return await run

        return self._prediction(run_beside_stream(execute, run.run_here))

    async def aforward(self, /, *values: Any, **inputs: Any) -> Any:
        """As `forward`, asynchronously."""
        return self._prediction(await self.arun_with_fallback(*values, **inputs))

    def _by_name(self, values: tuple[Any, ...], inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the inputs by name. Values without one are those of the first fields."""
        names = [field.name for field in self.signature.inputs]
        if len(values) > len(names):
            listed = ", ".join(names) or "none"
            raise TypeError(f"{count(len(values), 'value')} for {count(len(names), 'input')}; the inputs are {listed}")
        by_place = dict(zip(names, values, strict=False))
        if twice := by_place.keys() & inputs.keys():
            raise TypeError(f"{min(twice)!r} is given twice, by its place and by its name")
        return {**by_place, **inputs}

    def _resumed(self, run_id: str) -> Run[T]:
        from .traces import find, recorded_run

        run = find(run_id)
        has_loop = self._plans is not None or self._agreement is not None
        if bool(run.beginning.get("loop_id")) is not has_loop:
            how = "without plans: give no `plans` or `agree`" if has_loop else "with plans or agree: give the same"
            raise ValueError(f"run {run.id} was made {how} to this Predict to go on with it")
        return self._make_run(run.inputs(), recorded_run(run))

    def _make_run(self, inputs: Mapping[str, Any], past: RecordedRun | None = None) -> Run[T]:
        recorder = default_observer() if self._record else ignore
        observers = [recorder, self._observe]
        if (progress := progress_observer()) is not None:
            observers.append(progress)
        if callbacks := [*(dspy.settings.callbacks or ()), *self.callbacks]:
            from .callbacks import CallbackObserver

            observers.append(CallbackObserver(callbacks, self._options["tools"]))

        def make(observe: Observer) -> Loop:
            config = self._config(observe)
            new_loop: Callable[..., Loop] = RunLoop
            if self._plans is not None:
                from .plans.runner import PlanLoop

                new_loop = partial(PlanLoop, settings=self._plans)
            if self._agreement is None:
                return new_loop(config, inputs, past=past)
            from .agreement.loop import AgreementLoop

            return AgreementLoop(config, inputs, self._agreement, past=past, make=new_loop)

        return Run(make, fan_out(*observers), recorded=recorder is not ignore)

    def _question_config(self) -> Callable[[Observer], RunConfig]:
        """Return what makes the configuration of a question in a session."""
        if self._plans is not None:
            raise ValueError("a session has no plans: each plan would need a kernel of its own; leave `plans` out")
        return lambda observe: self._config(fan_out(observe, self._observe))

    def _config(self, observe: Observer) -> RunConfig:
        self.act.lm = self.act.lm or self._lm  # optimizers reset the predictor
        lm = self.act.lm or dspy.settings.lm
        if lm is None:
            raise ValueError("no language model: dspy.configure(lm=dspy.LM(...)), or Predict(..., lm=dspy.LM(...))")
        models = (lm, self.sub_lm, self.extraction_lm)
        named = [str(model.model) for model in models if hasattr(model, "model")]
        config = RunConfig(
            self.signature,
            *models,
            main_call=self._call_predictor,
            learned=learned_by(self.act),
            adapter=self._adapter or dspy.settings.adapter,
            observe=observe,
            **self._options | {"scorer": for_models(self._options["scorer"], named)},
        )
        if self._servers is None:
            return config
        from .mcp.run_tools import with_servers

        return with_servers(config, self._servers)

    async def _call_predictor(self, conversation: Conversation, settings: Mapping[str, Any], adapter: Any) -> Answer:
        """Ask the main model as a call of the inner predictor: through dspy where it has a callback, say."""
        act = self.act
        if not is_predictor_observed(act):
            lm = act.lm or dspy.settings.lm
            answer = await next_reply(lm, conversation, adapter=adapter, **{**settings, **act.config})
            add_to_trace(act, {"conversation": conversation.turns[-1].text}, {"reply": answer.text})
            return answer
        repl_adapter = _ReplAdapter(conversation, settings, adapter)
        with dspy.context(adapter=repl_adapter):
            try:
                await act.acall(conversation=conversation.turns[-1].text)
            except Exception:
                if repl_adapter.error is not None:
                    raise repl_adapter.error from None
                raise
        assert repl_adapter.answer is not None
        return repl_adapter.answer

    def _prediction(self, result: ExecutionResult[Any]) -> RunPrediction:
        if isinstance(result, Failed) and self._on_failure == "raise":
            raise RunFailed(result)
        names = [field.name for field in self.signature.outputs]
        outputs = dict.fromkeys(names) if isinstance(result, Failed) else {n: getattr(result.outputs, n) for n in names}
        return RunPrediction.of(result, outputs)


# dspy's metaclass takes any arguments: this is what editors and `help()` show.
Predict.__signature__ = inspect.signature(Predict.__init__).replace(
    parameters=list(inspect.signature(Predict.__init__).parameters.values())[1:], return_annotation="Predict"
)


class _Act(dspy.Signature):  # type: ignore[misc]
    """Write the next step."""

    conversation: str = dspy.InputField(desc="the task, the code so far and what it printed")
    reply: str = dspy.OutputField(desc="a short thought, then one python code block")


def learned_by(predictor: Any) -> Learned:
    """Return what an optimizer has changed in the inner predictor of a `Predict`."""
    own = predictor.signature.instructions
    return Learned("" if own == _Act.instructions else own, tuple(dict(demo) for demo in predictor.demos))


class _ReplAdapter(Adapter):  # type: ignore[misc]
    """Sends a conversation to a model as it is: append-only, so that caches hit. It has the instructions and demos."""

    def __init__(self, conversation: Conversation, settings: Mapping[str, Any], adapter: Any) -> None:
        """`adapter` is the adapter of the run, if any."""
        super().__init__()
        self._conversation, self._settings, self._adapter = conversation, settings, adapter
        self.answer: Answer | None = None
        self.error: ModelError | None = None

    async def acall(
        self, lm: Any, lm_kwargs: dict[str, Any], signature: Any, demos: list[dict[str, Any]], inputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Ask once."""
        options = {**self._settings, **lm_kwargs}
        try:
            self.answer = await next_reply(lm, self._conversation, adapter=self._adapter, **options)
        except ModelError as error:
            self.error = error
            raise
        return [{"reply": self.answer.text}]


def _check_expressions(checks: Sequence[str], signature: Signature) -> None:
    """Raise `ValueError` for a check that no outputs could pass: the model would be told of the caller's mistake."""
    outputs, inputs = ([field.name for field in fields] for fields in (signature.outputs, signature.inputs))
    for text in checks:
        try:
            read_check(text, outputs, inputs)
        except CheckProblem as error:
            raise ValueError(f"check {text!r}: {error}") from None


def _trigger(trigger: FallbackTrigger | None, **short: int | None) -> FallbackTrigger:
    if not isinstance(trigger, FallbackTrigger | None):
        raise TypeError(f"trigger is a rlm.FallbackTrigger(...), not {trigger!r}")
    limits = {name: value for name, value in short.items() if value is not None}
    if trigger is not None and limits:
        raise ValueError(f"give {' and '.join(limits)} in the trigger: FallbackTrigger({next(iter(limits))}=...)")
    return trigger or FallbackTrigger(**limits)


def _mode(mode: str, plan: MapPlan | None) -> str:
    if mode not in MODES:
        raise ValueError(f"mode={mode!r}: choose {', '.join(MODES)}")
    return "map" if plan is not None and mode == "repl" else mode


def _servers(mcp: Any, approve: Approver | None) -> McpServers:
    from .mcp.servers import McpServers

    if not isinstance(mcp, McpServers):
        return McpServers(mcp, approve=approve)
    if approve is not None:
        raise ValueError("give `approve` to McpServers(...): they may serve other programs, too")
    return mcp


def _plan_settings(plans: Any) -> PlanSettings:
    from .plans import PlanSettings

    return PlanSettings.of(plans)
