"""`RunConfig`: how runs of one signature are made. Plain data without the state of a run: many runs can share it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import sandbox

from ..budgets import FallbackTrigger, Ledger
from ..calibration.calibrator import without_rule
from ..events import Observer, ignore
from ..extraction.confidence import Scorer, score
from ..models.client import Answer
from ..reading import MapPlan, Mode
from ..results import ExecutionResult
from ..signatures import Signature
from .caller_tools import Tools, refuse_tools
from .kernels import KernelSource, OwnKernels
from .learned import Learned
from .tools import RESERVED

if TYPE_CHECKING:
    from .conversation import Conversation
    from .replay import RecordedRun

MainCall: TypeAlias = Callable[["Conversation", Mapping[str, Any], Any], Awaitable[Answer]]
"""Asks the main model for its next reply: from the conversation, the settings of this reply, and the adapter."""


@dataclass(frozen=True)
class RunConfig:
    """The signature, models, budget, sandbox and tools of a run."""

    signature: Signature
    main_model: Any
    sub_model: Any = None
    extraction_model: Any = None
    trigger: FallbackTrigger = field(default_factory=FallbackTrigger)
    limits: sandbox.Limits = field(default_factory=sandbox.Limits)
    isolation: str = "auto"
    policy: str = "enforce"
    tools: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    values: Mapping[str, tuple[Any, str]] = field(default_factory=dict)
    """What code has beside the inputs, by name: plain values, and what the model reads about each."""

    listed: Mapping[str, str] = field(default_factory=dict)
    """Tools of which the prompt has the names only, with the heading of each: `help` prints the rest."""

    child_tools: Tools | None = None
    """The tools of child runs. None: those of the run itself."""

    other_models: Mapping[str, Any] = field(default_factory=dict)
    """More models that code can ask by name: `llm_query(..., model=name)`."""

    max_parallel: int = 16
    """How many questions of one call of `llm_batch`, `llm_map` or `rlm_query_batched` are asked at once, at most."""

    system_prompt: str | None = None
    """The system prompt in place of rlm's own, with `$functions` and `$submit` in it."""

    setup_code: str = ""
    """Code that runs in the kernel before the first cell."""

    checks: tuple[str, ...] = ()
    vote: bool = True
    """Whether a model that runs here writes several scripts for one answer, where its profile says so."""

    verify: bool = False
    """Whether the model is asked for a second, different program that checks what it submitted."""

    depth: int = 1
    """How deep `rlm_query` may nest."""

    scorer: Scorer = score
    adapter: Any = None
    """The dspy adapter of steps, typed questions and the extraction: `rlm.OutlinesAdapter()`, for example."""

    packages: tuple[str, ...] = ()
    """What code can import beside the standard library, by name and version, where the task says so."""

    pool: sandbox.Pool | None = None
    kernel_name: str | None = None
    """Another Jupyter kernel by the name of its kernelspec, confined as its provisioner confines it."""

    kernels: KernelSource = field(default_factory=OwnKernels)
    """Where the kernel comes from. Child runs have kernels of their own."""

    observe: Observer = ignore
    main_call: MainCall | None = None
    """Asks the main model in place of a plain call: `Predict` calls its inner dspy predictor."""

    task: Mapping[str, Any] | None = None
    """Where the run comes from, for its trace: the task file, for example."""

    mode: Mode = "repl"
    """Who writes the first cell: the main model, or `rlm.reading`."""

    map: MapPlan | None = None
    """The plan of a map; without one, the main model is asked for it."""

    guidance: str | None = None
    """How to go about the task, in words, where that was decided before the run: see `rlm.plans`."""

    learned: Learned = field(default_factory=Learned)
    """Instructions and examples that an optimizer has found for the task."""

    sealed: Mapping[str, sandbox.Text] = field(default_factory=dict)
    """Large inputs that are in sealed memory already, by name. Runs of one configuration share them."""

    def check_inputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs as plain values. Raise `InvalidInputs` or `ValueError` before anything is started."""
        self.signature.refuse_names(RESERVED)
        if self.map is not None:
            self.map.for_signature(self.signature)
        refuse_tools(self.tools, self.signature, self.values)
        return self.signature.plain_inputs(inputs)

    def for_child(self, signature: Signature, model: Any = None) -> RunConfig:
        """Return the configuration of a child run. What is about the outputs of the whole task is left out."""
        tools = self.child_tools or Tools(self.tools, self.values)
        return replace(
            self,
            signature=signature,
            main_model=model or self.main_model,
            main_call=None,
            tools=tools.functions,
            values=tools.values,
            kernels=OwnKernels(),
            scorer=without_rule(self.scorer),
            checks=(),
            verify=False,
            mode="repl",
            map=None,
            guidance=None,
            learned=Learned(),
            sealed={},
            task=None,
        )

    async def run(
        self,
        inputs: Mapping[str, Any],
        *,
        ledger: Ledger | None = None,
        past: RecordedRun | None = None,
        parent: str | None = None,
    ) -> ExecutionResult[Any]:
        """Run to the ending. Raise `InvalidInputs` before anything is started; afterwards every outcome is a result."""
        from .loop import RunLoop

        return await RunLoop(self, inputs, ledger=ledger, past=past, parent=parent).run()
