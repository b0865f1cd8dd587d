"""The functions that a model has in its REPL. They run in the host; their docstrings are what the model reads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

import sandbox
from sandbox.tagged import type_names, untagged

from ..budgets import Ledger
from ..events import ItemsAnswered, MapStarted
from ..extraction.feedback import REJECTED, read_value, refusal
from ..extraction.schema import Schema
from ..models.profile import profile_of
from ..reading.direct import direct_prompt
from ..reading.items import MAX_PACKED, Items
from ..signatures import InvalidOutputs, Signature
from .answer_types import wanted_type
from .hints.grounding import Grounding
from .host_calls import current_call, plain
from .llm import RunModels
from .output_checks import Check, coerce, place_of_quote, write_numbers

if TYPE_CHECKING:
    from pydantic import BaseModel

    from .documents import DocumentTexts

RESERVED = frozenset(
    [
        *(
            "SUBMIT",
            "llm_query",
            "llm_batch",
            "llm_query_batched",
            "llm_map",
            "llm_errors",
            "ask_for_outputs",
            "rlm_query",
            "rlm_query_batched",
            "validate_json",
            "verify_quote",
            "budget",
        ),
        "SHOW_VARS",
        *("describe", "peek", "search", "chunk", "count_tokens"),
    ]
)
REPEATABLE = ("SUBMIT", "validate_json", "verify_quote")
"""Functions without an effect outside of the run: replayed cells call them again."""

_PARALLEL = 16
_SHORT_INPUT = 2_000
"""Longer inputs are left out of a question about what was found in them."""

ChildRun = Callable[..., Any]
"""Runs a sub-task: from a signature, inputs, and perhaps instructions and the model that writes the code."""


class InvalidSubmission(Exception):
    """SUBMIT was called with values that do not fit; the message says what to change. The run goes on."""


class DepthExceeded(Exception):
    """A child run may not start child runs of its own here."""


@dataclass(slots=True)
class ReplTools:
    """The functions of one run, and the outputs that it submitted."""

    signature: Signature
    ledger: Ledger
    models: RunModels
    child_run: ChildRun | None
    iterations: Callable[[], int]
    check: Check | None = None
    """Further checks of outputs that fit the signature."""

    grounding: Grounding = field(default_factory=lambda: Grounding(frozenset()))
    """What speaks against values that are submitted now."""

    inputs: Mapping[str, Any] = field(default_factory=dict)
    can_ask_for_outputs: bool = False
    """Whether there is `ask_for_outputs`: in a run with a mode."""

    submitted: BaseModel | None = None
    rejected: Any = None
    """The last values that did not fit, for `partial_outputs`."""

    given: tuple[str, ...] | None = None
    """The fields that the last call of SUBMIT had."""

    max_parallel: int = _PARALLEL
    """How many questions of one call are asked at once, at most."""

    texts: DocumentTexts | None = None
    """The inputs with the texts of files, where there are files."""

    _schema: Schema | None = None
    _errors: dict[int, str] | None = None

    def functions(self, own: Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
        """Return all functions by name, the caller's own among them."""
        tools = {
            "SUBMIT": sandbox.with_types(plain(self.submit, "SUBMIT")),
            "llm_query": self._described_llm_query(),
            "llm_batch": plain(self.llm_batch),
            "llm_query_batched": plain(self.llm_batch, "llm_query_batched"),
            "llm_map": plain(self.llm_map),
            "llm_errors": plain(self.llm_errors),
            "validate_json": sandbox.with_types(plain(self.validate_json)),
            "verify_quote": plain(self.verify_quote),
            "budget": plain(self.budget),
        }
        tools["rlm_query"] = plain(self.rlm_query)
        tools["rlm_query_batched"] = plain(self.rlm_query_batched)
        if self.can_ask_for_outputs:
            tools["ask_for_outputs"] = plain(self.ask_for_outputs)
        return {**tools, **{name: plain(function, name) for name, function in own.items()}}

    def described(self, functions: Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
        """Return the functions that prompts describe: no child runs where there are none, no quotes unless wanted."""
        hidden = () if self.child_run is not None else ("rlm_query",)
        hidden = hidden if self.signature.cited else (*hidden, "verify_quote")
        return {name: function for name, function in functions.items() if name not in hidden}

    def _described_llm_query(self) -> Callable[..., Any]:
        function = plain(self.llm_query)
        if not self.models.others:
            return function
        doc, signature = sandbox.described(function)
        names = ", ".join(map(repr, ["sub", "main", *self.models.others]))
        return sandbox.describe(function, f"{doc}\n\nModels to choose from: {names}.", signature)

    async def submit(self, /, *args: Any, **outputs: Any) -> None:
        """Give the answer: one keyword for each output (or one dict). Ends the task at once if the values fit."""
        if self.submitted is not None:
            raise sandbox.StopCell
        given: Any = args[0] if args and not outputs else outputs
        values, types = untagged(given), type_names(given)
        if len(args) > 1 or (args and outputs) or not isinstance(values, dict):
            names = ", ".join(f"{field.name}=..." for field in self.signature.outputs)
            problem: str | None = f"SUBMIT takes its outputs by name: SUBMIT({names})"
        else:
            values = self._coerced(values, types)
            problem = self._misfit(values, types, "SUBMIT")
            if problem is None and self.check is not None and not self.grounding.unread:
                problem = await self.check(values)
            problem = problem or self.grounding.objection(values)
        if isinstance(values, dict):
            self.given = tuple(values)
        if problem is not None:
            self.rejected = values
            raise InvalidSubmission(problem)
        if self.submitted is None:  # another thread of the cell may have been faster
            self.submitted = self.signature.check_outputs(values)
        raise sandbox.StopCell

    def reopen(self) -> None:
        """Take outputs once more: those of a second program."""
        self.submitted = self.given = self.rejected = None

    async def llm_query(self, prompt: str, context: Any = None, model: str | None = None, type: Any = None) -> Any:
        """Ask a smaller model one question; `context` is text for it to read. It remembers nothing.

        With `type` the answer is a value: choices (["yes", "no"]), a type (int, list[str], "float") or a JSON schema.
        """
        wanted = wanted_type(type)
        _check_question(prompt)
        self.models.named(model)
        self.ledger.reserve_call()
        return await self._ask(prompt, context, model, wanted)

    async def llm_batch(
        self,
        prompts: list[str],
        contexts: list[Any] | None = None,
        max_parallel: int = _PARALLEL,
        type: Any = None,
    ) -> list[Any]:
        """Ask many questions at once; answers in order, None where one failed (llm_errors() says why).

        A batch of more questions than there are LLM calls left is refused as a whole.
        """
        wanted = wanted_type(type)
        if not isinstance(prompts, list):
            raise TypeError("llm_batch(prompts): a list of texts")
        texts = contexts if contexts is not None else [None] * len(prompts)
        if len(texts) != len(prompts):
            raise ValueError(f"{len(prompts)} prompts and {len(texts)} contexts: there must be one for each")
        self.ledger.refuse_batch(sum(isinstance(prompt, str) for prompt in prompts))
        answers: list[Any] = [None] * len(prompts)
        errors: dict[int, str] = {}
        waiting = iter(range(len(prompts)))

        async def work() -> None:
            for index in waiting:
                try:
                    _check_question(prompts[index])
                    self.ledger.reserve_call()
                    answers[index] = await self._ask(prompts[index], texts[index], None, wanted)
                except Exception as error:  # whatever an adapter raises: the others are asked all the same
                    errors[index] = str(error) or error.__class__.__name__  # `type` is a parameter here

        await asyncio.gather(*(work() for _ in range(min(len(prompts), self._parallel(max_parallel)))))
        self._errors = errors
        return answers

    async def llm_map(
        self, items: list[Any], question: str, type: Any = None, max_parallel: int = _PARALLEL, of: int | None = None
    ) -> list[Any]:
        """Ask one question about each of many items; answers in order, None where one failed (llm_errors() says why).

        `type` as in llm_query: llm_map(lines, "What is it about?", type=["war", "trade"]). Short items share a call.
        More than fits into a call is asked in parts; with `of`, the items that are left, the budget is checked for all.
        """
        wanted = wanted_type(type)
        if not isinstance(items, list):
            raise TypeError("llm_map(items, question): a list of items")
        _check_question(question)
        emit, call, model = self.models.emit, current_call.get(), self.models.sub_model
        texts = [item if isinstance(item, str) else repr(item) for item in items]
        small = profile_of(model).constrains
        asked = Items(texts, question, wanted, most=1 if small else MAX_PACKED, keyed=small)
        past = self.models.past
        asked = replace(asked, known=past.map_answers.get(asked.digest, {}) if past is not None else {})
        estimate = asked.estimate(await self.models.sub_prices())
        estimate = estimate.scaled(max(1.0, (of or 0) / max(1, len(items))))
        estimate.check(self.ledger.remaining())
        digest, done = asked.digest, 0
        used = (estimate.items, estimate.calls, estimate.tokens_in + estimate.tokens_out, estimate.cost_usd)
        emit(MapStarted(emit.run_id, call, digest, question, *used))

        def report(answers: Mapping[int, Any], errors: Mapping[int, str]) -> None:
            nonlocal done
            done += len(answers) + len(errors)
            found = {str(index): answer for index, answer in answers.items()}
            failed = {str(index): message for index, message in errors.items()}
            emit(ItemsAnswered(emit.run_id, call, digest, found, failed, done, len(texts)))

        async def ask(prompt: str, kind: Any) -> Any:
            self.ledger.reserve_call()
            return await self._ask(prompt, None, None, kind)

        if asked.known:
            report(asked.known, {})
        answers, self._errors = await asked.ask(ask, report, self._parallel(max_parallel))
        return answers

    async def ask_for_outputs(self, found: str | None = None) -> dict[str, Any]:
        """Ask the main model for the outputs, with the inputs whole in its prompt, or with what was found in them."""
        inputs = self.inputs if found is None else {**_short(self.inputs), "found": found}
        prompt = direct_prompt(self.signature, inputs)
        schema = self.signature.output_schema()
        outputs = await self.models.typed(prompt, schema, model="main", iteration=self.iterations() + 1)
        self.grounding.unread = frozenset()  # the model has read them, if no code has
        return to_jsonable_python(outputs)  # type: ignore[no-any-return]

    def llm_errors(self) -> dict[str, str]:
        """Why calls of the last llm_batch or llm_map failed, by their index."""
        return {str(index): message for index, message in sorted((self._errors or {}).items())}

    async def rlm_query(self, signature: str = "", /, **inputs: Any) -> Any:
        """Hand a sub-task to a run of its own, with a REPL of its own: rlm_query("doc -> title: str", doc=...).

        With a question in place of a signature, the answer is a text: rlm_query("Which of them is late?", orders=...).
        """
        # By position, `signature` can also be the name of an input; some models give it by name.
        text = signature or inputs.pop("signature", "") or inputs.pop("prompt", "")
        if not isinstance(text, str):
            raise TypeError(f"rlm_query: a signature or a question, not {type(text).__name__}")
        if "->" in text:
            if self.child_run is None:
                raise DepthExceeded("no child run can be started here; use llm_query")
            return await self.child_run(text, inputs)
        name = inputs.pop("model", None)
        model = self.models.named(name or "main")
        if self.child_run is None:
            return await self.llm_query(text, inputs or None, model=name)
        if not text.strip():
            raise ValueError("rlm_query: a signature or a question comes first")
        # A question without inputs may be long: then it is the input, which code reads.
        given = inputs or {"prompt": text}
        task = text if inputs else "Do what `prompt` asks for. It may be long: look at it first."
        outputs = await self.child_run(f"{', '.join(given)} -> answer: str", given, task, model)
        return outputs["answer"]

    async def rlm_query_batched(self, prompts: list[str], model: str | None = None) -> list[Any]:
        """Ask many questions as rlm_query does, each in a run of its own; None where one failed (llm_errors())."""
        if not isinstance(prompts, list):
            raise TypeError("rlm_query_batched(prompts): a list of texts")
        answers: list[Any] = [None] * len(prompts)
        errors: dict[int, str] = {}
        waiting = iter(range(len(prompts)))
        named = {} if model is None else {"model": model}

        async def work() -> None:
            for index in waiting:
                try:
                    answers[index] = await self.rlm_query(prompts[index], **named)
                except Exception as error:
                    errors[index] = str(error) or type(error).__name__

        await asyncio.gather(*(work() for _ in range(min(len(prompts), self._parallel(_PARALLEL)))))
        self._errors = errors
        return answers

    async def validate_json(self, value: Any) -> str:
        """Check values as SUBMIT would: "valid", or every problem and where it is."""
        values, types = untagged(value), type_names(value)
        values, problem = read_value(values, self.schema)
        if problem is None:
            values = self._coerced(values, types)
            problem = self._misfit(values, types, "This value")
        if problem is None and self.check is not None:
            problem = await self.check(values)
        return problem or "valid"

    async def verify_quote(self, text: str) -> dict[str, Any]:
        """Where a text stands in the inputs: {"found": True, "input": ..., "line": ...}, or what is nearest to it."""
        if not isinstance(text, str):
            raise TypeError(f"verify_quote(text): a text, not {type(text).__name__}")
        sources = self.inputs if self.texts is None else await self.texts.read()
        return await asyncio.to_thread(place_of_quote, sources, text)

    async def budget(self) -> dict[str, Any]:
        """What is left: iterations, LLM calls, seconds."""
        return self.ledger.remaining(self.iterations()).to_dict()

    @property
    def schema(self) -> Schema:
        """The schema of the outputs, compiled once."""
        if self._schema is None:
            self._schema = self.signature.once("schema", lambda: Schema.of(self.signature.output_schema()))
        return self._schema

    async def _ask(self, prompt: str, context: Any, model: str | None, wanted: Any) -> Any:
        text = prompt if context is None else f"{prompt}\n\n{context if isinstance(context, str) else repr(context)}"
        iteration = self.iterations() + 1
        if wanted is None:
            return (await self.models.sub(text, model=model, iteration=iteration)).text
        return to_jsonable_python(await self.models.typed(text, wanted, model=model, iteration=iteration))

    def _parallel(self, wanted: int) -> int:
        return max(1, min(int(wanted), self.max_parallel))

    def _coerced(self, values: Any, types: Mapping[str, str]) -> Any:
        untyped = {field.name for field in self.signature.outputs if not field.typed}
        return coerce(write_numbers(values, untyped), types, self.schema)

    def _misfit(self, values: Any, types: Mapping[str, str], what: str) -> str | None:
        """Return why these are not outputs, by the schema or by the types; None if they are."""
        if problems := self.schema.problems(values):
            text = refusal(values, self.schema, problems, subject=what)
            odd = [f"The value at '{path}' was a {name}." for path, name in types.items()]
            return "\n".join([text, *odd[:20]])
        if "type" in types.values():
            return f"{what} was given a type, not a value: {', '.join(types)}"
        try:
            self.signature.check_outputs(values)
        except InvalidOutputs as error:
            return refusal(values, self.schema, error.problems, subject=what, why=REJECTED)
        return None


def _short(inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in inputs.items() if len(str(value)) <= _SHORT_INPUT}


def _check_question(prompt: Any) -> None:
    """Raise if a call cannot be made, before it is counted."""
    if not isinstance(prompt, str):
        raise TypeError(f"llm_query(prompt): a text, not {type(prompt).__name__}")
