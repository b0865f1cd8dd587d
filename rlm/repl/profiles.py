"""Model profiles: how a kind of main model is prompted, what its replies may look like, and what it reads after a cell.

`StandardProfile` serves every model that is asked over an API. `ConstrainedProfile` serves models that run here and can
be held to a grammar: they read a few dozen tokens a second and lose the thread easily, so their prompts and outputs are
short, and a reply is a thought, one code block, and nothing after it.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sandbox import Variable

from ..budgets import Remaining
from ..history import REPLHistoryEntry
from ..models.client import Answer
from ..signatures import Signature
from ..text import cut_middle
from .conversation import Conversation
from .hints import rules, suggestions
from .hints.code_facts import with_imports
from .hints.rules import CellFacts
from .prompts import (
    ALIASES,
    describe_function,
    describe_helpers,
    describe_inputs,
    describe_values,
    fill_system_prompt,
    goal_of,
    long_inputs,
    quote_guidance,
    submit_call,
    template,
)
from .reply import CUT_OFF, Reply, read_reply

_BEGIN = "Begin. One thought, one ```python block."
_BEGIN_LONG = "Begin. You have not seen {name} yet: do not guess, search it. One thought, one ```python block."
_NOTHING_PRINTED = "(nothing was printed; print what you want to see)"
_SUGGESTION = "If that is the answer, run this:\n```python\n{submit}\n```"
_LAST_REPLY = "This is your last reply: call SUBMIT now."
_LAST_CALL = (
    "The next LLM call is the last: the task ends with the cell that makes it. Call SUBMIT in the same cell, after it."
)
_TRACEBACK_NOISE = re.compile(r"^Traceback \(most recent call last\):\n|^ *[\^~]+\n", re.MULTILINE)

# What a constrained model is told of the functions that are always there.
_KNOWN_FUNCTIONS = (
    "- llm_query(prompt, context): asks a small model about a short text",
    "- llm_batch(prompts, contexts): the same for many, a list of answers",
)
_REPLY_TOKENS = 240
_STUCK_TEMPERATURE = 0.8

# One sentence without code in it: in a second one small models begin to make up what they will find. Backticks end the
# code wherever they come, because such a model often closes its block on the last line itself.
_REPLY_GRAMMAR = r"""start: THOUGHT? "```python\n" CODE "```"
THOUGHT: /{opening}[^`\n.=]{1,90}\.?\n/
CODE: /[^`]+/
"""

# After a value was printed that could be the answer, one word submits it: small models often print the answer and
# begin again.
_OFFER_GRAMMAR = r"""start: "Is that the answer? " (yes | no)
yes: {offer}
no: THOUGHT "```python\n" CODE "```"
THOUGHT: /No, [^`\n.=]{1,90}\.?\n/
CODE: /[^`]+/
"""


@dataclass(frozen=True, slots=True)
class Observation:
    """What the model reads after an iteration."""

    text: str
    suggestion: str | None = None
    """The SUBMIT call that it suggests."""


class StandardProfile:
    """Models that are asked over an API: whole descriptions, previews, long outputs."""

    rules: tuple[rules.Rule, ...] = rules.STANDARD
    constrained = False
    """Whether replies are held to a grammar. Then no adapter takes part, and the extraction joins the conversation."""

    max_output_chars = 8_000

    def begin(
        self,
        signature: Signature,
        inputs: Mapping[str, Any],
        functions: Mapping[str, Callable[..., Any]],
        helpers: str,
        budget: Remaining,
        guidance: str | None,
        known: Iterable[str],
        values: Mapping[str, tuple[Any, str]],
        system_prompt: str | None = None,
        before: str | None = None,
    ) -> Conversation:
        """Return the conversation with the system prompt and the task.

        `known` are the runtime's own functions, `values` what code has beside the inputs, with their descriptions.
        `system_prompt` takes the place of the template; `before` is a section about what was there before the run.
        """
        described = [describe_function(name, function) for name, function in functions.items() if name not in ALIASES]
        described += [*describe_helpers(helpers), *describe_values(values)]
        system = fill_system_prompt("system", system_prompt, submit_call(signature), described)
        task = template("task").substitute(
            instructions=signature.instructions,
            inputs=describe_inputs(signature, inputs),
            outputs=signature.field_list(),
            budget="\n".join([str(budget), *_last_chances(budget)]),
            before=before or "",
            approach=quote_guidance(guidance),
            begin=_begin(inputs) if before is None else _BEGIN,
        )
        return Conversation(system, task)

    def reply_settings(
        self, history: Sequence[REPLHistoryEntry], unread: frozenset[str], suggestion: str | None
    ) -> Mapping[str, Any]:
        """Return the settings of the next model call, beside the model's own."""
        return {}

    def read(self, answer: Answer) -> Reply:
        """Find the code in an answer."""
        reply = read_reply(answer.text)
        return replace(reply, hints=(CUT_OFF, *reply.hints)) if answer.truncated else reply

    def prepare_code(self, code: str, variables: Mapping[str, Variable]) -> str:
        """Return the code as it is run."""
        return code

    def observe(self, cell: CellFacts, hints: Sequence[str], signature: Signature, budget: Remaining) -> Observation:
        """Write what the model reads after its cell: hints, what was printed, how it could submit, the budget."""
        suggestion = suggestions.suggest_submit(signature, cell)
        parts = self._arrange(f"Output:\n{self._printed(cell)}", hints, goal_of(signature, cell.inputs))
        if suggestion:
            parts.append(_SUGGESTION.format(submit=suggestion))
        return Observation("\n\n".join([*parts, *self._budget_lines(budget)]), suggestion)

    def observe_without_code(self, hints: Sequence[str], budget: Remaining) -> Observation:
        """Write what the model reads after a reply in which there was nothing to run."""
        return Observation("\n\n".join([*hints, *self._budget_lines(budget)]))

    def doubt(self, code: str, history: Sequence[REPLHistoryEntry], variables: Mapping[str, Variable]) -> str | None:
        """Return why a value that the code submits is doubtful. SUBMIT is refused once for it."""
        return None

    def usable_variables(self, variables: Mapping[str, Variable], cells: Iterable[str]) -> Mapping[str, Variable]:
        """Return the variables from which an answer can be extracted."""
        return variables

    def _arrange(self, output: str, hints: Sequence[str], goal: str) -> list[str]:
        return [*hints, output]

    def _printed(self, cell: CellFacts) -> str:
        printed = cut_middle(self._clean(cell.output).rstrip(), self.max_output_chars)
        if printed:
            return printed
        state = suggestions.summarize_variables(cell)
        return _NOTHING_PRINTED + (f"\nVariables now: {state}" if state else "")

    def _clean(self, output: str) -> str:
        return output

    def _budget_lines(self, budget: Remaining) -> list[str]:
        return [f"[{budget}]", *_last_chances(budget)]


class ConstrainedProfile(StandardProfile):
    """Models that run here and are held to a grammar: short prompts, short outputs, one form of reply."""

    rules = rules.CONSTRAINED
    constrained = True
    max_output_chars = 800

    def begin(
        self,
        signature: Signature,
        inputs: Mapping[str, Any],
        functions: Mapping[str, Callable[..., Any]],
        helpers: str,
        budget: Remaining,
        guidance: str | None,
        known: Iterable[str],
        values: Mapping[str, tuple[Any, str]],
        system_prompt: str | None = None,
        before: str | None = None,
    ) -> Conversation:
        """Return the conversation with a short system prompt and task; `known` functions are not explained."""
        own = [describe_function(name, function) for name, function in functions.items() if name not in {*known}]
        described = [*_KNOWN_FUNCTIONS, *own, *describe_values(values)]
        system = fill_system_prompt("system_brief", system_prompt, submit_call(signature), described)
        task = template("task_brief").substitute(
            instructions=signature.instructions,
            inputs=describe_inputs(signature, inputs, most=6, width=150),
            outputs=signature.field_list(),
            before=before or "",
            approach=quote_guidance(guidance),
            begin=_begin(inputs) if before is None else _BEGIN,
        )
        return Conversation(system, task)

    def reply_settings(
        self, history: Sequence[REPLHistoryEntry], unread: frozenset[str], suggestion: str | None
    ) -> Mapping[str, Any]:
        """Return the grammar of the next reply; a higher temperature for a model that repeats itself."""
        settings = _reply_format(suggestions.opening(history, unread), suggestion)
        stuck = len(history) > 1 and history[-1].code == history[-2].code
        return {**settings, "temperature": _STUCK_TEMPERATURE} if stuck else settings

    def read(self, answer: Answer) -> Reply:
        """Find the code in an answer. The grammar ends replies at their limit, which says nothing."""
        return read_reply(answer.text)

    def prepare_code(self, code: str, variables: Mapping[str, Variable]) -> str:
        """Return the code with the imports that it lacks."""
        return with_imports(code, variables)

    def doubt(self, code: str, history: Sequence[REPLHistoryEntry], variables: Mapping[str, Variable]) -> str | None:
        """Doubt constants that are submitted after a part of something was printed."""
        return rules.constant_from_a_sample(code, history[-1].code if history else "", variables)

    def usable_variables(self, variables: Mapping[str, Variable], cells: Iterable[str]) -> Mapping[str, Variable]:
        """Leave out variables that were only ever set to constants: the model wrote their values down."""
        return suggestions.without_constants(variables, cells)

    def _arrange(self, output: str, hints: Sequence[str], goal: str) -> list[str]:
        """Put hints and goal after the output: a small model goes by what it read last."""
        return [output, *hints, *([f"Wanted: {goal}"] if goal else [])]

    def _clean(self, output: str) -> str:
        return _TRACEBACK_NOISE.sub("", output)

    def _budget_lines(self, budget: Remaining) -> list[str]:
        return _last_chances(budget)


def _last_chances(budget: Remaining) -> list[str]:
    """Return what the model has to know before it uses the last iteration or LLM call."""
    chances = [_LAST_REPLY] if budget.iterations == 1 else []
    return [*chances, _LAST_CALL] if budget.llm_calls == 1 else chances


def profile_for(constrains: bool) -> StandardProfile:
    """Return the profile of a model, by whether its replies can be held to a grammar."""
    return ConstrainedProfile() if constrains else StandardProfile()


def _begin(inputs: Mapping[str, Any]) -> str:
    texts = [name for name in long_inputs(inputs) if isinstance(inputs[name], str)]
    return _BEGIN_LONG.format(name=texts[0]) if texts else _BEGIN


@functools.lru_cache(maxsize=256)
def _reply_format(opening: str, suggestion: str | None) -> Mapping[str, Any]:
    from ..models.local.constraints import Constraint

    if suggestion:
        offer = json.dumps(f"Yes.\n```python\n{suggestion}\n```", ensure_ascii=False)
        grammar = _OFFER_GRAMMAR.replace("{offer}", offer)
    else:
        grammar = _REPLY_GRAMMAR.replace("{opening}", re.escape(opening).replace("/", r"\/").replace("`", ""))
        grammar = grammar.replace("?", "", 1) if opening else grammar
    constraint = Constraint("lark", grammar).response_format()
    schema = {"name": constraint["name"], "schema": constraint["schema"]}
    return {"response_format": {"type": "json_schema", "json_schema": schema}, "max_tokens": _REPLY_TOKENS}
