"""Model profiles: how a kind of main model is prompted, what its replies may look like, and what it reads after a cell.

`StandardProfile` serves every model that is asked over an API. `ScriptProfile` serves models that run here and can be
held to a grammar: they read a few dozen tokens a second and lose the thread of a conversation, but complete code well.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sandbox import Variable

from ..budgets import Remaining
from ..history import REPLHistoryEntry
from ..models.client import Answer
from ..signatures import Signature
from ..text import cut_middle
from .conversation import Conversation
from .hints import rules, suggestions
from .hints.code_facts import names_called, names_stored, tree_of, with_imports
from .hints.repairs import repaired
from .hints.rules import CellFacts
from .prompts import (
    ALIASES,
    describe_function,
    describe_helpers,
    describe_inputs,
    describe_listed,
    describe_values,
    fill_system_prompt,
    long_inputs,
    quote_guidance,
    submit_call,
    template,
)
from .reply import CUT_OFF, Reply, read_reply
from .scripts import as_comments, script_head, script_opening, text_shapes

if TYPE_CHECKING:
    from .config import RunConfig

_MAX_PACKAGES = 100
_BEGIN = "Begin. One thought, one ```python block."
_BEGIN_LONG = "Begin. You have not seen {name} yet: do not guess, search it. One thought, one ```python block."
_NOTHING_PRINTED = "(nothing was printed; print what you want to see)"
_SUGGESTION = "If that is the answer, run this:\n```python\n{submit}\n```"
_LAST_REPLY = "This is your last reply: call SUBMIT now."
_LAST_CALL = (
    "The next LLM call is the last: the task ends with the cell that makes it. Call SUBMIT in the same cell, after it."
)
_TRACEBACK_NOISE = re.compile(r"^Traceback \(most recent call last\):\n|^ *[\^~]+\n", re.MULTILINE)

_REPLY_TOKENS = 240
_FURTHER_TEMPERATURE = 0.7

# Backticks end the code wherever they come: such a model often closes its block on the last line itself.
# The script is not over before it has set the last output.
_SCRIPT_GRAMMAR = r"""start: {opening} CODE "```"
CODE: /([^`]*\n)?[ ]*{output}[^`=\n]* = [^`]+/
"""
_FAILED = "Another script for this failed:"


class StandardProfile:
    """Models that are asked over an API: whole descriptions, previews, long outputs."""

    rules: tuple[rules.Rule, ...] = rules.STANDARD
    constrained = False
    """Whether replies are held to a grammar. Then no adapter takes part, and the extraction joins the conversation."""

    doubts_outputs = False
    """Whether outputs that are all empty (0, "", []), or constants in the code, are refused once."""

    most_scripts = 1
    """How many scripts are written for one answer, at most: the answer that most of them give is that of the run."""

    max_output_chars = 8_000

    def begin(
        self,
        config: RunConfig,
        inputs: Mapping[str, Any],
        functions: Mapping[str, Callable[..., Any]],
        helpers: str,
        budget: Remaining,
    ) -> Conversation:
        """Return the conversation with the system prompt and the task."""
        signature, before = config.signature, config.kernels.context
        listed = describe_listed(config.listed, functions)
        left_out = {*ALIASES, *config.listed}
        described = [describe_function(name, function) for name, function in functions.items() if name not in left_out]
        described += [*describe_helpers(helpers), *describe_values(config.values), *listed]
        if config.packages:
            described.append(f"Packages that can be imported: {', '.join(config.packages[:_MAX_PACKAGES])}")
        system = fill_system_prompt("system", config.system_prompt, submit_call(signature), described)
        task = template("task").substitute(
            instructions=signature.instructions,
            inputs=describe_inputs(signature, inputs, shown=config.kernels.shown),
            outputs=signature.field_list(),
            budget="\n".join([str(budget), *_last_chances(budget)]),
            before=before or "",
            approach=quote_guidance(config.guidance),
            begin=_begin(inputs, config.kernels.shown) if before is None else _BEGIN,
        )
        return Conversation(config.learned.before(system, [field.name for field in signature.outputs]), task)

    def reply_settings(self, history: Sequence[REPLHistoryEntry]) -> Mapping[str, Any]:
        """Return the settings of the next model call, beside the model's own."""
        return {}

    def read(self, answer: Answer) -> Reply:
        """Find the code in an answer."""
        reply = read_reply(answer.text)
        return replace(reply, hints=(CUT_OFF, *reply.hints)) if answer.truncated else reply

    def prepare_code(self, code: str, variables: Mapping[str, Variable]) -> str:
        """Return the code as it is run."""
        return code

    def observe(self, cell: CellFacts, hints: Sequence[str], signature: Signature, budget: Remaining) -> str:
        """Write what the model reads after its cell: hints, what was printed, how it could submit, the budget."""
        suggestion = suggestions.suggest_submit(signature, cell)
        parts = [*hints, f"Output:\n{self._printed(cell)}"]
        if suggestion:
            parts.append(_SUGGESTION.format(submit=suggestion))
        return "\n\n".join([*parts, *_budget_lines(budget)])

    def observe_without_code(self, hints: Sequence[str], budget: Remaining) -> str:
        """Write what the model reads after a reply in which there was nothing to run."""
        return "\n\n".join([*hints, *_budget_lines(budget)])

    def usable_variables(self, variables: Mapping[str, Variable], cells: Iterable[str]) -> Mapping[str, Variable]:
        """Return the variables from which an answer can be extracted."""
        return variables

    def _printed(self, cell: CellFacts) -> str:
        printed = cut_middle(cell.output.rstrip(), self.max_output_chars)
        if printed:
            return printed
        state = suggestions.summarize_variables(cell)
        return _NOTHING_PRINTED + (f"\nVariables now: {state}" if state else "")


class ScriptProfile(StandardProfile):
    """Models that run here and are held to a grammar: they complete a script, whose comments show the data.

    Each reply is the whole script, which begins as it was begun for the model, sets the outputs, and is submitted. The
    next one is written anew, at a higher temperature: a model so small repeats what it reads of its own. What the last
    one failed on is a comment in it.
    """

    constrained = True
    doubts_outputs = True
    max_output_chars = 400
    most_scripts = 5

    def __init__(self) -> None:
        self._opening = ""
        self._submit = ""
        self._outputs: tuple[str, ...] = ()

    def begin(
        self,
        config: RunConfig,
        inputs: Mapping[str, Any],
        functions: Mapping[str, Callable[..., Any]],
        helpers: str,
        budget: Remaining,
    ) -> Conversation:
        """Return the conversation with the script to complete. Only the caller's functions are described."""
        signature, before = config.signature, config.kernels.context
        own = [
            describe_function(name, function)
            for name, function in functions.items()
            if name in config.tools and name not in config.listed
        ]
        described = [*own, *describe_values(config.values), *describe_listed(config.listed, functions)]
        notes = [*filter(None, (before, "\n".join(["Also there:", *described]) if described else "", config.guidance))]
        shown = config.kernels.shown
        shapes = text_shapes({name: value for name, value in inputs.items() if name not in shown})
        names = tuple(field.name for field in signature.outputs)
        self._opening = script_opening(shapes, {*inputs, *names})
        self._submit = f"SUBMIT({', '.join(f'{name}={name}' for name in names)})"
        self._outputs = names
        system = fill_system_prompt("system_script", config.system_prompt, self._submit, described)
        head = script_head(signature, inputs, shapes, notes, shown)

        def task(observation: str) -> str:
            parts = filter(None, (head, as_comments(observation), self._opening))
            return template("task_script").substitute(script="\n".join(parts))

        return Conversation(config.learned.before(system, names), task(""), rewrite=task)

    def reply_settings(self, history: Sequence[REPLHistoryEntry]) -> Mapping[str, Any]:
        """Return the grammar of the next script; a higher temperature for one that is not the first."""
        settings = _script_format(self._opening, self._outputs[-1])
        return {**settings, "temperature": _FURTHER_TEMPERATURE} if history else settings

    def read(self, answer: Answer) -> Reply:
        """Find the code in an answer. The grammar ends replies at their limit, which says nothing."""
        return read_reply(answer.text)

    def prepare_code(self, code: str, variables: Mapping[str, Variable]) -> str:
        """Return the code repaired, with the imports that it lacks, and the call of SUBMIT at its end.

        Outputs of an earlier script are deleted: a script that does not set them has no answer.
        """
        code = with_imports(repaired(code, {*self._outputs, *names_stored(self._opening)}), variables)
        if tree_of(code) is None or "SUBMIT" in names_called(code):
            return code
        stale = [name for name in self._outputs if name in variables]
        parts = [f"del {', '.join(stale)}"] if stale else []
        return "\n".join([*parts, code.rstrip(), self._submit])

    def observe(self, cell: CellFacts, hints: Sequence[str], signature: Signature, budget: Remaining) -> str:
        """Write what the script failed on; nothing of one that did not."""
        if cell.success:
            return ""
        said = cut_middle(cell.error or _TRACEBACK_NOISE.sub("", cell.output).strip(), self.max_output_chars)
        return "\n".join([f"{_FAILED} {said}", *hints])

    def observe_without_code(self, hints: Sequence[str], budget: Remaining) -> str:
        """Write what was wrong with a reply in which there was nothing to run."""
        return "\n".join(hints)

    def usable_variables(self, variables: Mapping[str, Variable], cells: Iterable[str]) -> Mapping[str, Variable]:
        """Leave out variables that were only ever set to constants: the model wrote their values down."""
        return suggestions.without_constants(variables, cells)


def _budget_lines(budget: Remaining) -> list[str]:
    return [f"[{budget}]", *_last_chances(budget)]


def _last_chances(budget: Remaining) -> list[str]:
    """Return what the model has to know before it uses the last iteration or LLM call."""
    chances = [_LAST_REPLY] if budget.iterations == 1 else []
    return [*chances, _LAST_CALL] if budget.llm_calls == 1 else chances


def profile_for(constrains: bool) -> StandardProfile:
    """Return the profile of a model, by whether its replies can be held to a grammar."""
    return ScriptProfile() if constrains else StandardProfile()


def _begin(inputs: Mapping[str, Any], shown: Collection[str]) -> str:
    texts = [name for name in long_inputs(inputs) if isinstance(inputs[name], str) and name not in shown]
    return _BEGIN_LONG.format(name=texts[0]) if texts else _BEGIN


@functools.lru_cache(maxsize=256)
def _script_format(opening: str, output: str) -> Mapping[str, Any]:
    from ..models.local.constraints import Constraint

    forced = json.dumps(f"```python\n{opening}", ensure_ascii=False)
    constraint = Constraint(
        "lark", _SCRIPT_GRAMMAR.replace("{opening}", forced).replace("{output}", output)
    ).response_format()
    schema = {"name": constraint["name"], "schema": constraint["schema"]}
    return {"response_format": {"type": "json_schema", "json_schema": schema}, "max_tokens": _REPLY_TOKENS}
