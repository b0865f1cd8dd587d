"""The lower tiers as dspy adapters of their own: JSON asked for in words, JSON that the model is held to.

Their prompts are the chat prompt up to its last sentences: what to write stands at the very end, so that a model's
cache of the prompt serves every tier.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any

from dspy.adapters.base import Adapter
from dspy.adapters.chat_adapter import ChatAdapter
from dspy.adapters.utils import apply_output_field_defaults, parse_value, serialize_for_json
from dspy.signatures.signature import make_signature
from dspy.utils.exceptions import AdapterParseError

from ..extraction import ParseError, parse
from ..runaway import may_run_away, runaway_problems
from .choices import Bare
from .output_spec import NoTarget, Target, target_of_signature
from .repetition import bounded
from .two_step.prompt import named_inputs


class JsonTier(ChatAdapter):  # type: ignore[misc]
    """Tier 2: the same prompt, and a JSON object for an answer."""

    def __init__(self, like: ChatAdapter) -> None:
        super().__init__(
            callbacks=like.callbacks,
            use_native_function_calling=like.use_native_function_calling,
            native_response_types=like.native_response_types,
            use_json_adapter_fallback=False,
            parallel_tool_calls=like.parallel_tool_calls,
        )

    def user_message_output_requirements(self, signature: Any) -> str:
        """What to write: the last words of the prompt."""
        return f"Respond with {_words(signature)}. Write the JSON only, without any other text or markers."

    def format_assistant_message_content(
        self, signature: Any, outputs: Mapping[str, Any], missing_field_message: str | None = None
    ) -> str:
        """An example's answer, as JSON."""
        answer = {name: outputs.get(name, missing_field_message) for name in signature.output_fields}
        return json.dumps(serialize_for_json(answer), ensure_ascii=False)

    def parse(self, signature: Any, completion: str) -> dict[str, Any]:
        """The outputs in an answer: the last object in it that fits. Raises `AdapterParseError`."""
        try:
            target = target_of_signature(signature)
        except NoTarget:
            return _lenient(signature, completion, None)
        try:
            found = dict(target.find(completion))
            if any(name in completion for name in found):
                return found
            raise ParseError("invalid", "none of the fields is in the answer")  # though each of them may be left out
        except ParseError as error:
            if error.kind != "invalid":
                raise refused(signature, completion, error.message) from error
            # What dspy's own adapters would take still counts: "5" where a number is wanted.
            return _lenient(signature, completion, error)


class HeldTier(JsonTier):
    """Tier 3: the model is held to the target, by itself or by its server; the answer is checked all the same."""

    def held_by(self, target: Target, lm_kwargs: dict[str, Any]) -> None:
        """Add to the call what holds the model to the target."""
        raise NotImplementedError

    def _call_preprocess(self, lm: Any, lm_kwargs: dict[str, Any], signature: Any, inputs: dict[str, Any]) -> Any:
        processed = super()._call_preprocess(lm, lm_kwargs, signature, inputs)
        self.held_by(target_of_signature(processed), lm_kwargs)
        return processed

    def parse(self, signature: Any, completion: str) -> dict[str, Any]:
        """The outputs, where the answer is exactly what was asked for."""
        try:
            return dict(target_of_signature(signature).read(completion))
        except ParseError as error:
            raise refused(signature, completion, error.message) from error


class ConstrainedTier(HeldTier):
    """Tier 3 for a model that can be held to a type token by token."""

    def __init__(self, like: ChatAdapter, *, as_json: bool = False, room: int | None = None) -> None:
        """`as_json` asks for a single choice as JSON, too. With `room`, an answer has about so many characters."""
        super().__init__(like)
        self._as_json = as_json
        self._room = room

    def held_by(self, target: Target, lm_kwargs: dict[str, Any]) -> None:
        """By the type itself: `Literal` and the like without JSON around it."""
        bare = self._bare(target)
        whole = target.constraint if self._room is None else bounded(target.strict, self._room)
        lm_kwargs["_outlines_constraint"] = whole if bare is None else bare.constraint

    def _bare(self, target: Target) -> Bare | None:
        return None if self._as_json else target.bare

    def user_message_output_requirements(self, signature: Any) -> str:
        """What to write; a choice is written by itself."""
        bare = self._bare(target_of_signature(signature))
        return super().user_message_output_requirements(signature) if bare is None else f"Respond with {bare.words}"

    def format_assistant_message_content(
        self, signature: Any, outputs: Mapping[str, Any], missing_field_message: str | None = None
    ) -> str:
        """An example's answer; a choice stands by itself there, too."""
        target = target_of_signature(signature)
        if self._bare(target) is None or target.fields[0] not in outputs:
            return super().format_assistant_message_content(signature, outputs, missing_field_message)
        return str(serialize_for_json(outputs[target.fields[0]]))


_FENCE = "```json\n"


class BriefTier(ConstrainedTier):
    """Tier 3 for a model that begins with it: the task and the inputs in one message, and nothing else.

    The model is held to the form in any case. A small one is right more often the less it is told about that: the names
    and types of the fields, put into words, cost a model of half a billion parameters one right answer in seven. Its
    answer is begun for it as such models begin JSON when they are free to: with a fence. A choice is made inside JSON,
    where they choose better than in words, and is all there is to write.
    """

    def format(self, signature: Any, demos: Any, inputs: Any) -> list[dict[str, Any]]:
        """The task stands in the first message: such models know one system message only, their own."""
        system, first, *rest = super().format(signature, demos, inputs)
        begun = {"role": "assistant", "content": self._beginning(signature)}
        if not isinstance(first["content"], str):  # a picture, say
            return [system, first, *rest, begun]
        return [{**first, "content": f"{system['content']}\n\n{first['content']}"}, *rest, begun]

    def format_system_message(self, signature: Any) -> str:
        """The task, and what its fields mean where somebody has said so."""
        fields = {**signature.input_fields, **signature.output_fields}
        told = {name: (field.json_schema_extra or {}).get("desc") for name, field in fields.items()}
        meanings = [f"- {name}: {words}" for name, words in told.items() if words and words != f"${{{name}}}"]
        return "\n".join([inspect.cleandoc(signature.instructions), *meanings])

    def format_user_message_content(
        self, signature: Any, inputs: dict[str, Any], prefix: str = "", suffix: str = "", main_request: bool = False
    ) -> str:
        """The inputs under their names."""
        given = [f"{name.capitalize()}: {value}" for name, value in named_inputs(signature, inputs)]
        return "\n\n".join(part for part in (prefix, *given, suffix) if part)

    def format_assistant_message_content(
        self, signature: Any, outputs: Mapping[str, Any], missing_field_message: str | None = None
    ) -> str:
        """An example's answer: JSON in a fence, also for a choice."""
        answer = JsonTier.format_assistant_message_content(self, signature, outputs, missing_field_message)
        return f"{_FENCE}{answer}\n```"

    def _beginning(self, signature: Any) -> str:
        target = target_of_signature(signature)
        bare = self._bare(target)
        if bare is None:
            return _FENCE
        return f"{_FENCE}{{{json.dumps(target.fields[0])}: {bare.opening}".rstrip(" ")


class Messages(Adapter):  # type: ignore[misc]
    """Puts messages to a model as they are, and gives its words as they are."""

    signature = make_signature("-> text")

    def __init__(self, messages: list[dict[str, Any]]) -> None:
        super().__init__()
        self._messages = messages

    def format(self, signature: Any, demos: Any, inputs: Any) -> list[dict[str, Any]]:
        """The messages."""
        return self._messages

    def parse(self, signature: Any, completion: str) -> dict[str, Any]:
        """The words."""
        return {"text": completion}


async def put(adapter: Any, asynchronous: bool, lm: Any, lm_kwargs: Mapping[str, Any], *about: Any) -> Any:
    """Call an adapter with a copy of the keywords: dspy's adapters change theirs. Does not wait if not asynchronous."""
    keywords = dict(lm_kwargs)
    return await adapter.acall(lm, keywords, *about) if asynchronous else adapter(lm, keywords, *about)


async def say(lm: Any, messages: list[dict[str, Any]], lm_kwargs: Mapping[str, Any], asynchronous: bool) -> str:
    """What a model answers to messages; nothing, where it answers with nothing."""
    try:
        answers = await put(Messages(messages), asynchronous, lm, lm_kwargs, Messages.signature, [], {})
    except AdapterParseError:  # dspy's word for an empty answer
        return ""
    return str(answers[0]["text"])


def refused(signature: Any, completion: str, why: str) -> AdapterParseError:
    """The one error that starts the next tier."""
    return AdapterParseError("OutlinesAdapter", signature, completion, why)


def _words(signature: Any) -> str:
    try:
        return target_of_signature(signature).words
    except NoTarget:
        return f"a JSON object with the fields {', '.join(f'`{name}`' for name in signature.output_fields)}"


def _lenient(signature: Any, completion: str, error: ParseError | None) -> dict[str, Any]:
    """The outputs as dspy's own adapters would take them, each field by itself."""
    value = error.best if error is not None else _object(signature, completion)
    if not isinstance(value, dict):
        why = error.message if error is not None else "there is no JSON object in the answer"
        raise refused(signature, completion, why) from error
    fields: dict[str, Any] = {}
    for name, field in signature.output_fields.items():
        if name in value:
            try:
                fields[name] = parse_value(value[name], field.annotation)
            except ValueError as problem:
                raise refused(signature, completion, f"`{name}`: {problem}") from problem
    fields = apply_output_field_defaults(signature, fields)
    missing = [name for name in signature.output_fields if name not in fields]
    if missing:
        raise refused(signature, completion, f"the answer has no {', '.join(missing)}")
    check_fields(signature, fields, completion)
    return fields


def _object(signature: Any, completion: str) -> Any:
    from ..extraction import Schema

    names: dict[str, Any] = {name: {} for name in signature.output_fields}
    try:
        return parse(completion, Schema({"type": "object", "properties": names}))
    except ParseError as error:
        raise refused(signature, completion, error.message) from error


def check_fields(signature: Any, values: Mapping[str, Any], completion: str) -> None:
    """Refuse values that dspy accepts: those that a field's constraints (a pattern, a bound) do not allow, and numbers
    whose digits ran away.
    """
    from typing import Annotated

    from pydantic import TypeAdapter, ValidationError

    if may_run_away(completion):
        plain = {name: serialize_for_json(value) for name, value in values.items()}
        if problems := runaway_problems(plain):
            raise refused(signature, completion, str(problems[0]))
    for name, field in signature.output_fields.items():
        if field.metadata and values.get(name) is not None:
            try:
                whole: Any = Annotated[(field.annotation, *field.metadata)]
                TypeAdapter(whole).validate_python(values[name])
            except ValidationError as problem:
                why = "; ".join(str(one["msg"]) for one in problem.errors())
                raise refused(signature, completion, f"`{name}`: {why}") from problem
